#include "device_runtime/src/data_type.h"
#include "device_runtime/src/manifest_checker.h"
#include "device_runtime/src/module_format.h"

namespace gantry::runtime::manifest {

Status ManifestChecker::check_plan(const Variant& variant, const PlanParts& plan) {
  if (plan.results > kMaxTableEntries) return damaged("a plan has %u results of others", plan.results);
  GANTRY_TRY(spend(uint64_t{plan.buffers.size()} + plan.steps.size() + count(plan.stretches) + plan.results));
  GANTRY_TRY(check_stretches(variant, plan));
  for (const Buffer* buffer : plan.buffers) GANTRY_TRY(check_buffer(variant, plan, *buffer));
  for (const Step* step : plan.steps) GANTRY_TRY(check_step(variant, plan, *step));
  return Status();
}

Status ManifestChecker::check_plans(const Variant& variant) {
  for (uint32_t i = 0; i < count(variant.plans()); ++i) {
    const Plan& plan = *variant.plans()->Get(i);
    for (const PlanOutput* output : *plan.outputs()) {
      GANTRY_TRY(spend(output->shape()->size()));
      if (static_cast<uint8_t>(output->dtype()) >= kElementTypeCount || output->shape()->size() > kMaxRank)
        return damaged("a result of plan %u is of no type that there is", i);
      for (uint32_t dim : *output->shape()) {
        if (!is_dim(dim)) return damaged("a result of plan %u has a dimension that is not in the list", i);
      }
    }
    for (uint32_t c = 0; c < count(plan.constraints()); ++c) {
      if (!is_dim(plan.constraints()->Get(c)->left()) || !is_dim(plan.constraints()->Get(c)->right()))
        return damaged("a constraint of plan %u has a dimension that is not in the list", i);
    }
    GANTRY_TRY(check_plan(variant, {*plan.buffers(), *plan.steps(), plan.stretches(), plan.inputs(),
                                    plan.outputs()->size(), plan.results(), i + 1, depths_[i]}));
  }
  return Status();
}

Status ManifestChecker::check_stretches(const Variant& variant, const PlanParts& plan) {
  const uint32_t stretches = count(plan.stretches);
  if (stretches > plan.steps.size() + 1) return damaged("its plan has more stretches than steps");
  uint32_t next = 0;
  for (uint32_t i = 0; i < stretches; ++i) {
    const Stretch& stretch = *plan.stretches->Get(i);
    const bool in_order = i == 0 ? stretch.first_step() == 0 : stretch.first_step() >= next;
    if (!in_order || stretch.first_step() > plan.steps.size())
      return damaged("stretch %u of its plan begins at step %u", i, stretch.first_step());
    next = stretch.first_step() + 1;
    if (!is_dim(stretch.workspace_bytes()) || !is_dim(stretch.kept_bytes()))
      return damaged("the memory of stretch %u is not in the list of dimensions", i);
  }
  if (stretches == 0) return Status();
  GANTRY_TRY(spend(variant.kernels()->size()));
  for (const Kernel* kernel : *variant.kernels()) {
    if (kernel->device() != Device::Cpu)
      return damaged("kernel '%s' runs on a GPU in a plan of stretches", kernel->symbol()->c_str());
  }
  return Status();
}

Status ManifestChecker::check_buffer(const Variant& variant, const PlanParts& plan, const Buffer& buffer) {
  if (buffer.device() != Device::Cpu && buffer.device() != Device::Cuda)
    return damaged("a buffer is on a device that has no memory");
  if (buffer.device() == Device::Cuda && variant.device() != Device::Cuda)
    return damaged("a buffer is on a GPU, but the variant is for another device");
  uint32_t limit = 0;
  switch (buffer.kind()) {
    case BufferKind::Input:
      limit = plan.inputs;
      break;
    case BufferKind::Output:
      limit = plan.outputs;
      break;
    case BufferKind::Constant:
      limit = count(variant.constants());
      break;
    case BufferKind::Kept:
      if (!is_dim(buffer.offset())) return damaged("a buffer's offset is not in the list of dimensions");
      limit = count(plan.stretches);
      break;
    case BufferKind::Result:
      limit = plan.results;
      break;
    case BufferKind::Workspace:
      if (!is_dim(buffer.offset())) return damaged("a buffer's offset is not in the list of dimensions");
      limit = UINT32_MAX;
      break;
    default:
      return damaged("a buffer is of an unknown kind");
  }
  if (buffer.index() >= limit) return damaged("a buffer names number %u of %u", buffer.index(), limit);
  if (!is_dim(buffer.bytes())) return damaged("a buffer's size is not in the list of dimensions");
  return Status();
}

Status ManifestChecker::check_step(const Variant& variant, const PlanParts& plan, const Step& step) {
  switch (step.action_type()) {
    case Action::CallKernel:
      return check_call(variant, plan, *step.action_as_CallKernel());
    case Action::CopyBuffer:
      return check_copy(plan, *step.action_as_CopyBuffer());
    case Action::BindSymbols:
      return check_binding(plan, *step.action_as_BindSymbols());
    case Action::RunIf:
      return check_branches(variant, plan, *step.action_as_RunIf());
    case Action::RunLoop:
      return check_loop(variant, plan, *step.action_as_RunLoop());
    case Action::CallBuiltin:
      return check_builtin(plan, *step.action_as_CallBuiltin());
    default:
      return damaged("a step is of an unknown kind: this runtime may be too old for the module");
  }
}

Status ManifestChecker::check_call(const Variant& variant, const PlanParts& plan, const CallKernel& call) {
  if (call.kernel() >= variant.kernels()->size()) return damaged("a step calls a kernel that is not there");
  const Kernel& kernel = *variant.kernels()->Get(call.kernel());
  GANTRY_TRY(spend(uint64_t{call.buffers()->size()} + count(call.dims())));
  GANTRY_TRY(spend_texts(call.origin()));
  const char* name = kernel.symbol()->c_str();
  if (call.buffers()->size() != kernel.buffer_count()) {
    return damaged("a step gives %u buffers to kernel '%s', which takes %u", call.buffers()->size(), name,
                   kernel.buffer_count());
  }
  if (count(call.dims()) != kernel.dim_count()) {
    return damaged("a step gives %u dimensions to kernel '%s', which takes %u", count(call.dims()), name,
                   kernel.dim_count());
  }
  for (uint32_t buffer : *call.buffers()) {
    if (buffer >= plan.buffers.size())
      return damaged("a step of kernel '%s' names a buffer that is not there", name);
    if (plan.buffers.Get(buffer)->device() != kernel.device()) {
      return damaged("a step gives kernel '%s', which runs on the %s, a buffer in the other's memory", name,
                     kernel.device() == Device::Cuda ? "GPU" : "CPU");
    }
  }
  GANTRY_TRY(check_grids(kernel, call));
  for (uint32_t i = 0; i < count(call.dims()); ++i) {
    if (!is_dim(call.dims()->Get(i)))
      return damaged("a step of kernel '%s' has a dimension that is not in the list", name);
  }
  if (!is_dim(call.flops()) || !is_dim(call.bytes())) {
    return damaged("a step of kernel '%s' has no dimension for its work", name);
  }
  return Status();
}

Status ManifestChecker::check_grids(const Kernel& kernel, const CallKernel& call) {
  const char* name = kernel.symbol()->c_str();
  GANTRY_TRY(spend(uint64_t{count(call.grids())} + count(call.loops())));
  for (uint32_t i = 0; i < count(call.grids()); ++i) {
    if (!is_dim(call.grids()->Get(i)))
      return damaged("a grid of kernel '%s' is not in the list of dimensions", name);
  }
  for (uint32_t i = 0; i < count(call.loops()); ++i) {
    if (!is_dim(call.loops()->Get(i)))
      return damaged("a loop of kernel '%s' is not in the list of dimensions", name);
  }
  if (kernel.device() != Device::Cuda) return Status();
  if (count(call.grids()) != 3 * kernel.launches()->size()) {
    return damaged("a step gives kernel '%s' %u sizes of grids for its %u launches, which take three each",
                   name, count(call.grids()), kernel.launches()->size());
  }
  for (const Launch* launch : *kernel.launches()) {
    if (launch->loop() >= 0 && static_cast<uint32_t>(launch->loop()) >= count(call.loops()))
      return damaged("a launch of kernel '%s' is in a loop that its step does not have", name);
  }
  return Status();
}

Status ManifestChecker::check_copy(const PlanParts& plan, const CopyBuffer& copy) {
  const uint32_t buffers = plan.buffers.size();
  if (copy.source() >= buffers || copy.target() >= buffers)
    return damaged("a copy names a buffer that is not there");
  const BufferKind target = plan.buffers.Get(copy.target())->kind();
  if (target == BufferKind::Input || target == BufferKind::Constant) {
    return damaged("a copy writes an input or a constant");
  }
  return Status();
}

Status ManifestChecker::check_binding(const PlanParts& plan, const BindSymbols& binding) {
  if (count(plan.stretches) == 0) return damaged("a step binds symbols, but the plan has no stretches");
  const uint32_t symbols = binding.symbols()->size();
  GANTRY_TRY(spend(uint64_t{symbols} + count(binding.negatives()) + count(binding.values())));
  GANTRY_TRY(spend_texts(binding.origin()));
  if (count(binding.negatives()) != 0 && count(binding.negatives()) != symbols)
    return damaged("a step binds %u symbols with %u negatives", symbols, count(binding.negatives()));
  for (const auto* list : {binding.symbols(), binding.negatives()}) {
    for (uint32_t i = 0; i < count(list); ++i) {
      if (list->Get(i) >= count(manifest_.symbols()))
        return damaged("a step binds a symbol that is not there");
    }
  }
  if (binding.buffer() < 0) {
    if (count(binding.values()) != symbols)
      return damaged("a step binds %u symbols to %u values", symbols, count(binding.values()));
    for (uint32_t value : *binding.values()) {
      if (!is_dim(value)) return damaged("a step binds a symbol to a dimension that is not in the list");
    }
    return Status();
  }
  const auto buffer = static_cast<uint32_t>(binding.buffer());
  if (buffer >= plan.buffers.size()) return damaged("a step binds symbols to a buffer that is not there");
  if (plan.buffers.Get(buffer)->device() != Device::Cpu)
    return damaged("a step binds symbols to a buffer in the GPU's memory");
  if (binding.element() != DType::I32 && binding.element() != DType::I64)
    return damaged("a step binds symbols to elements that are no integers");
  return Status();
}

}  // namespace gantry::runtime::manifest
