#include "device_runtime/src/manifest_check.h"

#include <string.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "device_runtime/src/builtins.h"
#include "device_runtime/src/data_type.h"
#include "device_runtime/src/dim_program.h"
#include "device_runtime/src/module_format.h"

namespace gantry::runtime {
namespace {

using namespace module_format;  // NOLINT: this file is about nothing else

template <typename... Args>
Status damaged(const char* format, Args... arguments) {
  std::string text;
  if constexpr (sizeof...(arguments) == 0) {
    text = format;
  } else {
    text = format_text(format, arguments...);
  }
  return Status(GANTRY_INVALID_MODULE, "the module's manifest: " + text);
}

// Parts of a FlatBuffer may be shared, so that a small file could ask for endless work. Entries looked at,
// bytes of texts included, may sum up to this; real models stay far below.
constexpr uint64_t kMaxWork = uint64_t{1} << 26;

// A kernel with more launches, a block with more threads or shared memory are on no GPU.
constexpr uint32_t kMostNestedPlans = 128;
constexpr uint32_t kMaxLaunches = 1024;
constexpr uint32_t kMaxBlockThreads = 1024;
constexpr uint32_t kMaxSharedBytes = 1u << 20;

template <typename List>
uint32_t count(const List* list) {
  return list == nullptr ? 0 : list->size();
}

/// A variant's plan, or one of its `plans`: what its steps may name.
struct PlanParts {
  const flatbuffers::Vector<flatbuffers::Offset<Buffer>>& buffers;
  const flatbuffers::Vector<flatbuffers::Offset<Step>>& steps;
  const flatbuffers::Vector<flatbuffers::Offset<Stretch>>* stretches;
  uint32_t inputs = 0, outputs = 0, results = 0;
  uint32_t next_plan = 0;  ///< its steps run plans from here on: so none runs itself
  uint32_t depth = 0;      ///< how many plans are around it
};

class ManifestChecker {
 public:
  explicit ManifestChecker(const Manifest& manifest)
      : manifest_(manifest), dim_count_(count(manifest.dim_exprs())) {}

  Status check() {
    GANTRY_TRY(check_requirements());
    GANTRY_TRY(check_strings());
    GANTRY_TRY(check_dims());
    GANTRY_TRY(check_tensors(*manifest_.inputs(), "input"));
    GANTRY_TRY(check_tensors(*manifest_.outputs(), "output"));
    GANTRY_TRY(check_constraints());
    GANTRY_TRY(check_segments());
    if (count(manifest_.variants()) == 0) return damaged("no variants");
    const Variant& first = *manifest_.variants()->Get(0);
    if (count(first.specialized()) + count(first.equal()) > 0)
      return damaged("a specialized variant of none");
    for (const Variant* variant : *manifest_.variants()) {
      if (Status status = check_variant(*variant); !status.ok()) {
        return Status(status.code(), status.message() + " (variant '" + variant->target()->str() + "')");
      }
    }
    return Status();
  }

 private:
  Status check_requirements();
  Status check_dims();
  Status check_tensors(const flatbuffers::Vector<flatbuffers::Offset<TensorInfo>>& tensors, const char* role);
  Status check_constraints();
  Status check_segments();
  Status check_variant(const Variant& variant);
  Status check_code(const Variant& variant);
  Status check_gpu_code(const Variant& variant, bool needed);
  Status check_kernel(const Variant& variant, const Kernel& kernel);
  Status check_launches(const Kernel& kernel);
  Status check_grids(const Kernel& kernel, const CallKernel& call);
  Status check_constant(const ConstantRef& constant);
  Status check_buffer(const Variant& variant, const PlanParts& plan, const Buffer& buffer);
  Status check_step(const Variant& variant, const PlanParts& plan, const Step& step);
  Status check_call(const Variant& variant, const PlanParts& plan, const CallKernel& call);
  Status check_copy(const PlanParts& plan, const CopyBuffer& copy);
  Status check_binding(const PlanParts& plan, const BindSymbols& binding);
  Status check_stretches(const Variant& variant, const PlanParts& plan);
  Status check_branches(const Variant& variant, const PlanParts& plan, const RunIf& step);
  /// `own`: inputs that the runtime adds in front of those of the step.
  Status check_called(const Variant& variant, const PlanParts& plan, uint32_t called,
                      const flatbuffers::Vector<uint32_t>* inputs, uint32_t own);
  Status check_loop(const Variant& variant, const PlanParts& plan, const RunLoop& step);
  Status check_loop_symbols(const RunLoop& step, const Plan& body, const flatbuffers::Vector<const LoopSymbol*>* symbols,
                            uint32_t results);
  Status check_flag(const PlanParts& plan, uint32_t buffer, const char* what);
  Status check_builtin(const PlanParts& plan, const CallBuiltin& call);
  Status check_strings();
  Status check_plan(const Variant& variant, const PlanParts& plan);
  Status check_plans(const Variant& variant);
  Status check_specialized(const Variant& variant);
  bool is_dim(uint32_t index) const { return index < dim_count_; }
  Status spend(uint64_t entries) {
    work_ += entries;
    return work_ > kMaxWork ? damaged("too large") : Status();
  }
  Status spend_texts(const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>* texts) {
    for (uint32_t i = 0; i < count(texts); ++i) GANTRY_TRY(spend(texts->Get(i)->size() + 1));
    return Status();
  }

  const Manifest& manifest_;
  uint32_t dim_count_;
  uint64_t work_ = 0;
  bool has_strings_ = false;      ///< the module requires them
  bool has_images_ = false;       ///< as well
  std::vector<uint32_t> depths_;  ///< by plan of the variant: how many are around it; 0: no step runs it
};

Status ManifestChecker::check_dims() {
  const uint32_t symbols = count(manifest_.symbols());
  if (symbols > kMaxTableEntries || dim_count_ > kMaxTableEntries) return damaged("too many dimensions");
  GANTRY_TRY(spend_texts(manifest_.symbols()));
  for (uint32_t i = 0; i < dim_count_; ++i) {
    GANTRY_TRY(spend(manifest_.dim_exprs()->Get(i)->steps()->size()));
    Status status = check_dim_program(*manifest_.dim_exprs()->Get(i), symbols);
    if (!status.ok()) return damaged("dimension expression %u %s", i, status.message().c_str());
  }
  return Status();
}

Status ManifestChecker::check_tensors(const flatbuffers::Vector<flatbuffers::Offset<TensorInfo>>& tensors,
                                      const char* role) {
  if (tensors.size() > kMaxTableEntries) return damaged("too many %ss", role);
  for (uint32_t i = 0; i < tensors.size(); ++i) {
    const TensorInfo& tensor = *tensors.Get(i);
    GANTRY_TRY(spend(tensor.name()->size()));
    if (static_cast<uint8_t>(tensor.dtype()) >= kElementTypeCount)
      return damaged("%s %u has an unknown type", role, i);
    if (tensor.dtype() == DType::String && !has_strings_)
      return damaged("%s %u is of strings, which the module does not require", role, i);
    if (tensor.shape()->size() > kMaxRank)
      return damaged("%s %u has more than %u dimensions", role, i, kMaxRank);
    for (uint32_t dim : *tensor.shape()) {
      if (!is_dim(dim)) return damaged("%s %u has a dimension that is not in the list", role, i);
    }
  }
  return Status();
}

Status ManifestChecker::check_constraints() {
  if (manifest_.constraints() == nullptr) return Status();
  for (const Constraint* constraint : *manifest_.constraints()) {
    if (!is_dim(constraint->left()) || !is_dim(constraint->right())) {
      return damaged("a constraint has a dimension that is not in the list");
    }
  }
  return Status();
}

Status ManifestChecker::check_segments() {
  if (count(manifest_.segments()) > kMaxTableEntries) return damaged("too many segments");
  for (uint32_t i = 0; i < count(manifest_.segments()); ++i) {
    const Segment& segment = *manifest_.segments()->Get(i);
    if (segment.kind() > SegmentKind::MAX) {
      return damaged("segment %u is of an unknown kind", i);
    }
    if (segment.offset() % kSegmentAlignment != 0) return damaged("segment %u is not aligned", i);
  }
  return Status();
}

Status ManifestChecker::check_constant(const ConstantRef& constant) {
  if (constant.segment() >= count(manifest_.segments()))
    return damaged("a constant names a segment that is not there");
  const Segment& segment = *manifest_.segments()->Get(constant.segment());
  if (segment.kind() != SegmentKind::Weights) return damaged("a constant lies in a segment of code");
  if (constant.offset() % kBufferAlignment != 0) return damaged("a constant is not aligned");
  if (constant.offset() > segment.size() || constant.size() > segment.size() - constant.offset()) {
    return damaged("a constant lies outside its segment");
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

Status ManifestChecker::check_launches(const Kernel& kernel) {
  const char* name = kernel.symbol()->c_str();
  if (count(kernel.launches()) == 0 || count(kernel.launches()) > kMaxLaunches)
    return damaged("kernel '%s' runs on a GPU with %u launches", name, count(kernel.launches()));
  for (const Launch* launch : *kernel.launches()) {
    GANTRY_TRY(spend(launch->symbol()->size() + 1));
    if (launch->symbol()->size() == 0) return damaged("a launch of kernel '%s' has no symbol", name);
    if (launch->threads() == 0 || launch->threads() > kMaxBlockThreads)
      return damaged("a launch of kernel '%s' has blocks of %u threads", name, launch->threads());
    if (launch->shared_bytes() > kMaxSharedBytes)
      return damaged("a launch of kernel '%s' has %u bytes of shared memory", name, launch->shared_bytes());
    if (launch->loop() < -1)
      return damaged("a launch of kernel '%s' is in a loop of number %d", name, launch->loop());
  }
  return Status();
}

Status ManifestChecker::check_kernel(const Variant& variant, const Kernel& kernel) {
  const uint64_t op_size = kernel.op() == nullptr ? 0 : kernel.op()->size();
  GANTRY_TRY(spend(kernel.symbol()->size() + uint64_t{kernel.name()->size()} + op_size));
  if (kernel.symbol()->size() == 0) return damaged("a kernel has no symbol");
  if (kernel.device() == Device::Cpu) return Status();
  if (kernel.device() != Device::Cuda || variant.device() != Device::Cuda)
    return damaged("kernel '%s' runs on a device that the variant does not have", kernel.symbol()->c_str());
  return check_launches(kernel);
}

Status ManifestChecker::check_gpu_code(const Variant& variant, bool needed) {
  const auto is_segment = [&](int32_t index, SegmentKind kind) {
    return index >= 0 && static_cast<uint32_t>(index) < count(manifest_.segments()) &&
           manifest_.segments()->Get(static_cast<uint32_t>(index))->kind() == kind;
  };
  const bool has_ptx = variant.ptx_segment() != -1, has_cubin = variant.cubin_segment() != -1;
  if (has_ptx && !is_segment(variant.ptx_segment(), SegmentKind::Ptx))
    return damaged("its PTX is not in a segment of PTX");
  if (has_cubin && !is_segment(variant.cubin_segment(), SegmentKind::Cubin))
    return damaged("its assembled code is not in a segment of such");
  if (needed && !has_ptx && !has_cubin) return damaged("it has kernels for a GPU and no code for them");
  const uint32_t length = variant.gpu_arch() == nullptr ? 0 : variant.gpu_arch()->size();
  const char* arch = length == 0 ? "" : variant.gpu_arch()->c_str();
  const bool digits = length >= 5 && length <= 8 && strncmp(arch, "sm_", 3) == 0 && arch[3] >= '1' &&
                      arch[3] <= '9' && arch[4] >= '0' && arch[4] <= '9';
  if (!digits) return damaged("it names no architecture of a GPU");
  if (!is_dim(variant.gpu_workspace_bytes()))
    return damaged("the size of the workspace on the GPU is not in the list of dimensions");
  return Status();
}

Status ManifestChecker::check_code(const Variant& variant) {
  bool on_gpu = false;
  for (const Kernel* kernel : *variant.kernels()) {
    GANTRY_TRY(check_kernel(variant, *kernel));
    on_gpu = on_gpu || kernel->device() == Device::Cuda;
  }
  // There is one for every variant; with no kernel of the CPU it may be empty.
  if (variant.code_segment() >= count(manifest_.segments()) ||
      manifest_.segments()->Get(variant.code_segment())->kind() != SegmentKind::Code) {
    return damaged("its code is not in a segment of code");
  }
  return variant.device() == Device::Cuda ? check_gpu_code(variant, on_gpu) : Status();
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
      if (list->Get(i) >= count(manifest_.symbols())) return damaged("a step binds a symbol that is not there");
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

Status ManifestChecker::check_specialized(const Variant& variant) {
  GANTRY_TRY(spend(count(variant.specialized())));
  for (uint32_t i = 0; i < count(variant.specialized()); ++i) {
    const module_format::SymbolValue& size = *variant.specialized()->Get(i);
    if (size.symbol() >= count(manifest_.symbols())) return damaged("specialized for a symbol that is not in the list");
    if (size.value() < 0) return damaged("specialized for a negative size");
  }
  GANTRY_TRY(spend(count(variant.equal())));
  for (uint32_t i = 0; i < count(variant.equal()); ++i) {
    const Constraint& sizes = *variant.equal()->Get(i);
    if (!is_dim(sizes.left()) || !is_dim(sizes.right()))
      return damaged("specialized for sizes that are no dimension expressions");
  }
  return Status();
}

Status ManifestChecker::check_called(const Variant& variant, const PlanParts& plan, uint32_t called,
                                     const flatbuffers::Vector<uint32_t>* inputs, uint32_t own) {
  if (called < plan.next_plan || called >= count(variant.plans())) return damaged("a step runs a plan that is not there");
  if (depths_[called] != 0) return damaged("plan %u is run by two steps", called);
  if (plan.depth == kMostNestedPlans) return damaged("plan %u is nested too deep", called);
  depths_[called] = plan.depth + 1;
  GANTRY_TRY(spend(count(inputs)));
  const Plan& found = *variant.plans()->Get(called);
  if (count(found.stretches()) == 0) return damaged("plan %u has no stretches", called);
  if (found.inputs() < own || count(inputs) != found.inputs() - own)
    return damaged("a step gives %u inputs to plan %u, which takes %u", count(inputs) + own, called, found.inputs());
  for (uint32_t i = 0; i < count(inputs); ++i) {
    if (inputs->Get(i) >= plan.buffers.size()) return damaged("a step gives plan %u a buffer that is not there", called);
  }
  return Status();
}

// One that the runtime reads.
Status ManifestChecker::check_flag(const PlanParts& plan, uint32_t buffer, const char* what) {
  if (buffer >= plan.buffers.size()) return damaged("%s is in a buffer that is not there", what);
  if (plan.buffers.Get(buffer)->device() != Device::Cpu) return damaged("%s is in the GPU's memory", what);
  return Status();
}

Status ManifestChecker::check_loop_symbols(const RunLoop& step, const Plan& body,
                                           const flatbuffers::Vector<const LoopSymbol*>* symbols, uint32_t results) {
  GANTRY_TRY(spend(count(symbols)));
  for (uint32_t i = 0; i < count(symbols); ++i) {
    const LoopSymbol& symbol = *symbols->Get(i);
    if (symbol.symbol() >= count(manifest_.symbols()) || !is_dim(symbol.initial()))
      return damaged("a loop binds a symbol or reads a dimension that is not there");
    if (symbol.result() >= results) return damaged("a loop binds a symbol to a result that it does not have");
    const uint32_t rank = body.outputs()->Get(1 + symbol.result())->shape()->size();
    if (symbol.axis() >= rank + (symbol.result() < step.states() ? 0 : 1))
      return damaged("a loop binds a symbol to a dimension that its result does not have");
  }
  return Status();
}

Status ManifestChecker::check_loop(const Variant& variant, const PlanParts& plan, const RunLoop& step) {
  if (count(plan.stretches) == 0) return damaged("a step runs plans, but its own plan has no stretches");
  GANTRY_TRY(spend_texts(step.origin()));
  if (step.count() >= 0) GANTRY_TRY(check_flag(plan, static_cast<uint32_t>(step.count()), "a loop's count"));
  if (step.condition() >= 0) GANTRY_TRY(check_flag(plan, static_cast<uint32_t>(step.condition()), "a condition"));
  GANTRY_TRY(check_called(variant, plan, step.plan(), step.inputs(), 2));
  const Plan& body = *variant.plans()->Get(step.plan());
  const uint32_t outputs = body.outputs()->size();
  if (outputs < 1 || step.states() > outputs - 1 || step.states() > count(step.inputs()))
    return damaged("plan %u cannot hand on %u states", step.plan(), step.states());
  if (step.first_result() > plan.results || outputs - 1 > plan.results - step.first_result())
    return damaged("plan %u has more results than there are places", step.plan());
  GANTRY_TRY(check_loop_symbols(step, body, step.entry(), step.states()));
  return check_loop_symbols(step, body, step.symbols(), outputs - 1);
}

Status ManifestChecker::check_branches(const Variant& variant, const PlanParts& plan, const RunIf& step) {
  if (count(plan.stretches) == 0) return damaged("a step runs plans, but its own plan has no stretches");
  GANTRY_TRY(check_flag(plan, step.condition(), "a condition"));
  GANTRY_TRY(spend_texts(step.origin()));
  GANTRY_TRY(check_called(variant, plan, step.then_plan(), step.then_inputs(), 0));
  GANTRY_TRY(check_called(variant, plan, step.else_plan(), step.else_inputs(), 0));
  for (const uint32_t called : {step.then_plan(), step.else_plan()}) {
    const auto& outputs = *variant.plans()->Get(called)->outputs();
    if (step.first_result() > plan.results || outputs.size() > plan.results - step.first_result())
      return damaged("plan %u has more results than there are places", called);
    GANTRY_TRY(spend(count(step.symbols())));
    for (uint32_t i = 0; i < count(step.symbols()); ++i) {
      const OutputSymbol& known = *step.symbols()->Get(i);
      const bool there = known.output() < outputs.size() && known.axis() < outputs.Get(known.output())->shape()->size();
      if (!there || known.symbol() >= count(manifest_.symbols()))
        return damaged("a step binds a symbol to a dimension that plan %u does not have", called);
    }
  }
  return Status();
}

Status ManifestChecker::check_builtin(const PlanParts& plan, const CallBuiltin& call) {
  if (count(plan.stretches) == 0) return damaged("a step calls a builtin, but the plan has no stretches");
  GANTRY_TRY(spend(call.function()->size() + uint64_t{count(call.integers())} + count(call.inputs()) +
                   count(call.outputs()) + (call.text() == nullptr ? 0 : call.text()->size())));
  GANTRY_TRY(spend_texts(call.origin()));
  const char* name = call.function()->c_str();
  if (!has_strings_ && !has_images_) return damaged("a step calls %s, but the module does not require it", name);
  for (const auto* tensors : {call.inputs(), call.outputs()}) {
    for (uint32_t i = 0; i < count(tensors); ++i) {
      const module_format::BuiltinTensor& tensor = *tensors->Get(i);
      GANTRY_TRY(spend(tensor.shape()->size()));
      const bool known = tensor.buffer() < plan.buffers.size() && tensor.shape()->size() <= kMaxRank &&
                         static_cast<uint8_t>(tensor.dtype()) < kElementTypeCount;
      if (!known) return damaged("a tensor of %s is not there or of no type that there is", name);
      const Buffer& buffer = *plan.buffers.Get(tensor.buffer());
      const bool is_given = buffer.kind() == BufferKind::Input || buffer.kind() == BufferKind::Constant;
      if (buffer.device() != Device::Cpu || (tensors == call.outputs() && is_given))
        return damaged("a tensor of %s cannot be there", name);
      for (uint32_t dim : *tensor.shape()) {
        if (!is_dim(dim)) return damaged("a tensor of %s has a dimension that is not in the list", name);
      }
    }
  }
  const std::string_view feature = builtin_part()->feature_of(call.function()->string_view());
  if (feature.empty())
    return failure(
        GANTRY_INCOMPATIBLE,
        "the module calls %s, which this runtime (gantry %s) does not have: update gantry on this machine",
        name, gantry_version());
  const bool required = feature == kImages ? has_images_ : has_strings_;
  return required ? Status() : damaged("a step calls %s, but the module does not require it", name);
}

Status ManifestChecker::check_strings() {
  GANTRY_TRY(spend(count(manifest_.strings())));
  GANTRY_TRY(spend_texts(manifest_.strings()));
  if (count(manifest_.strings()) > 0 && manifest_.strings()->Get(0)->size() > 0)
    return damaged("its first string is not empty");
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
  for (const Kernel* kernel : *variant.kernels()) {
    if (kernel->device() != Device::Cpu)
      return damaged("kernel '%s' runs on a GPU in a plan of stretches", kernel->symbol()->c_str());
  }
  return Status();
}

// A newer compiler's module may need what this runtime does not have.
Status ManifestChecker::check_requirements() {
  GANTRY_TRY(spend_texts(manifest_.requires_()));
  for (uint32_t i = 0; i < count(manifest_.requires_()); ++i) {
    const flatbuffers::String& feature = *manifest_.requires_()->Get(i);
    const bool known = std::any_of(std::begin(kFeatures), std::end(kFeatures),
                                   [&](const char* name) { return feature.string_view() == name; });
    const bool is_strings = feature.string_view() == kStrings;
    const bool is_images = feature.string_view() == kImages;
    has_strings_ = has_strings_ || is_strings;
    has_images_ = has_images_ || is_images;
    if ((is_strings || is_images) && builtin_part() == nullptr)
      return failure(
          GANTRY_INCOMPATIBLE,
          "the module needs '%s', which this library leaves out: link gantry_runtime_builtins in its place",
          feature.c_str());
    if (known) continue;
    return failure(GANTRY_INCOMPATIBLE,
                   "the module needs '%s', which this runtime (gantry %s) does not have: update gantry on this machine",
                   feature.c_str(), gantry_version());
  }
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

Status ManifestChecker::check_variant(const Variant& variant) {
  GANTRY_TRY(spend_texts(variant.features()));
  GANTRY_TRY(spend_texts(variant.decisions()));
  GANTRY_TRY(spend(uint64_t{variant.kernels()->size()} + count(variant.constants()) +
                   variant.target()->size()));
  if (variant.architecture() > Architecture::AArch64) return damaged("unknown architecture");
  if (variant.device() > Device::CudaEmulated) return damaged("unknown device");
  GANTRY_TRY(check_code(variant));
  if (!is_dim(variant.workspace_bytes()))
    return damaged("the workspace's size is not in the list of dimensions");
  for (uint32_t i = 0; i < count(variant.constants()); ++i)
    GANTRY_TRY(check_constant(*variant.constants()->Get(i)));
  GANTRY_TRY(check_specialized(variant));
  depths_.assign(count(variant.plans()), 0);
  GANTRY_TRY(check_plan(variant, {*variant.buffers(), *variant.steps(), variant.stretches(), manifest_.inputs()->size(),
                                  manifest_.outputs()->size(), variant.results(), 0, 0}));
  return check_plans(variant);
}

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

}  // namespace

Result<const Manifest*> check_manifest(std::span<const std::byte> bytes) {
  if (bytes.size() > kMaxManifestBytes)
    return damaged("larger than %s", byte_text(kMaxManifestBytes).c_str());
  if (bytes.size() < 16) return damaged("too short");
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  constexpr uint32_t kMaxDepth = 32;
  flatbuffers::Verifier verifier(data, bytes.size(), kMaxDepth, 4 * kMaxTableEntries);
  if (!ManifestBufferHasIdentifier(data) || !VerifyManifestBuffer(verifier))
    return damaged("its structure is broken");
  const Manifest* manifest = GetManifest(data);
  if (Status status = ManifestChecker(*manifest).check(); !status.ok()) return status;
  return manifest;
}

Status check_segments_in_file(const Manifest& manifest, uint64_t first_offset, uint64_t file_size) {
  uint64_t end = first_offset;
  for (uint32_t i = 0; i < count(manifest.segments()); ++i) {
    const Segment& segment = *manifest.segments()->Get(i);
    if (segment.offset() < end) return damaged("segment %u overlaps what stands before it", i);
    if (segment.offset() > file_size || segment.size() > file_size - segment.offset()) {
      return damaged("segment %u ends beyond the file", i);
    }
    end = segment.offset() + segment.size();
  }
  return Status();
}

}  // namespace gantry::runtime
