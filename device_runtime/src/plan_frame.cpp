#include "device_runtime/src/plan_frame.h"

#include <string.h>

#include <algorithm>

#include "device_runtime/src/data_type.h"
#include "device_runtime/src/module_format.h"
#include "device_runtime/src/shape_errors.h"

namespace gantry::runtime {

using module_format::BindSymbols;
using module_format::Buffer;
using module_format::BufferKind;
using module_format::CallKernel;
using module_format::CopyBuffer;
using module_format::RunIf;
using module_format::RunLoop;
using module_format::Stretch;

std::string text_of(const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>* nodes) {
  std::string text;
  for (uint32_t i = 0; nodes != nullptr && i < nodes->size(); ++i)
    text += (i > 0 ? ", " : "") + nodes->Get(i)->str();
  return text;
}

PlanView plan_of(const Module& module) {
  const auto& variant = module.variant();
  return {variant.buffers(), variant.steps(), variant.stretches(), module.manifest().constraints(), nullptr,
          variant.results()};
}

PlanView plan_of(const Module& module, uint32_t plan) {
  const auto& found = *module.variant().plans()->Get(plan);
  return {found.buffers(), found.steps(), found.stretches(), found.constraints(), found.outputs(), found.results()};
}

PlanFrame::PlanFrame(PlanContext& context, PlanView plan, FrameWorkspace& workspace)
    : context_(context),
      module_(*context.module),
      plan_(plan),
      workspace_(workspace),
      outputs_(plan.outputs != nullptr ? plan.outputs->size() : module_.manifest().outputs()->size()),
      kept_(plan.stretches->size()),
      steps_(plan.steps->size()) {
  for (uint32_t i = 0; i < steps_.size(); ++i) {
    add_plans(i);
    describe_step(i);
  }
}

std::unique_ptr<PlanFrame> PlanFrame::inner_frame(uint32_t plan) {
  if (workspace_.inner == nullptr) workspace_.inner = std::make_unique<FrameWorkspace>();
  return std::make_unique<PlanFrame>(context_, plan_of(module_, plan), *workspace_.inner);
}

void PlanFrame::add_plans(uint32_t index) {
  const auto& step = *plan_.steps->Get(index);
  Called& called = steps_[index].called;
  if (const BindSymbols* binding = step.action_as_BindSymbols()) {
    for (const auto* list : {binding->symbols(), binding->negatives()}) {
      for (uint32_t i = 0; list != nullptr && i < list->size(); ++i) late_symbols_.push_back(list->Get(i));
    }
  } else if (const RunIf* branch = step.action_as_RunIf()) {
    for (uint32_t i = 0; branch->symbols() != nullptr && i < branch->symbols()->size(); ++i)
      late_symbols_.push_back(branch->symbols()->Get(i)->symbol());
    called.then_plan = inner_frame(branch->then_plan());
    called.else_plan = inner_frame(branch->else_plan());
    called.results = OutputMemory(std::max(called.then_plan->output_count(), called.else_plan->output_count()));
  } else if (const RunLoop* loop = step.action_as_RunLoop()) {
    for (const auto* list : {loop->entry(), loop->symbols()}) {
      for (uint32_t i = 0; list != nullptr && i < list->size(); ++i) late_symbols_.push_back(list->Get(i)->symbol());
    }
    called.then_plan = inner_frame(loop->plan());
    const uint32_t outputs = called.then_plan->output_count();
    called.results = OutputMemory(outputs);
    called.other_results = OutputMemory(outputs);
    called.gathered = std::vector<Gathered>(outputs - 1 - loop->states());
  }
}

void PlanFrame::describe_step(uint32_t index) {
  const auto& step = *plan_.steps->Get(index);
  StepState& state = steps_[index];
  StepLabel& label = state.label;
  label.index = static_cast<int32_t>(index);
  label.ops = "copy";
  const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>* nodes = nullptr;
  if (const auto* call = step.action_as_CallKernel()) {
    const auto* kernel = module_.variant().kernels()->Get(call->kernel());
    nodes = call->origin();
    label.symbol = kernel->symbol()->c_str();
    label.ops = kernel->name()->c_str();
    if (kernel->op() != nullptr) label.op = kernel->op()->c_str();
  } else if (const auto* binding = step.action_as_BindSymbols()) {
    nodes = binding->origin();
    label.ops = "bind sizes";
  } else if (const auto* branch = step.action_as_RunIf()) {
    nodes = branch->origin();
    label.ops = "if";
  } else if (const auto* loop = step.action_as_RunLoop()) {
    nodes = loop->origin();
    label.ops = "loop";
  } else if (const auto* builtin = step.action_as_CallBuiltin()) {
    nodes = builtin->origin();
    label.ops = builtin->function()->c_str();
  }
  state.origin = text_of(nodes);
  label.origin = state.origin.c_str();
}

// --- memory

Status PlanFrame::begin_stretch(uint32_t index) {
  const Stretch& stretch = *plan_.stretches->Get(index);
  Result<uint64_t> bytes = context_.dims.get_size(stretch.workspace_bytes());
  if (!bytes.ok()) return bytes.status();
  GANTRY_TRY(reserve(workspace_.memory, *bytes, "the model's workspace"));
  workspace_.bytes = *bytes;
  Result<uint64_t> kept = context_.dims.get_size(stretch.kept_bytes());
  if (!kept.ok()) return kept.status();
  GANTRY_TRY(reserve(kept_[index].memory, *kept, "the model's workspace"));
  kept_[index].bytes = *kept;
  return Status();
}

Status PlanFrame::make_output(uint32_t index) {
  Output& output = outputs_[index];
  const bool own = plan_.outputs != nullptr;
  const auto& dims = own ? *plan_.outputs->Get(index)->shape() : *module_.manifest().outputs()->Get(index)->shape();
  const auto type = own ? plan_.outputs->Get(index)->dtype() : module_.manifest().outputs()->Get(index)->dtype();
  output.shape.clear();
  for (uint32_t dim : dims) {
    Result<uint64_t> size = context_.dims.get_size(dim);
    if (!size.ok()) return size.status();
    output.shape.push_back(static_cast<int64_t>(*size));
  }
  if (!dense_bytes(output.shape, static_cast<ElementType>(type), &output.range.bytes)) {
    return failure(GANTRY_OUT_OF_MEMORY, "a result of the shape %s would be larger than any memory",
                   shape_text(output.shape).c_str());
  }
  if (own) {
    Kept& result = (*output_memory_)[index];
    GANTRY_TRY(reserve(result.memory, output.range.bytes, "a plan's result"));
    result.bytes = output.range.bytes;
    output.range.data = result.memory.data();
  } else {
    Result<std::byte*> data = provide_output(index);
    if (!data.ok()) return data.status();
    output.range.data = *data;
  }
  output.is_made = true;
  return Status();
}

Result<PlanMemory::Range> PlanFrame::output(uint32_t index) {
  if (!outputs_[index].is_made) GANTRY_TRY(make_output(index));
  return outputs_[index].range;
}

Result<PlanMemory::Range> PlanFrame::range_of(uint32_t index) {
  const Buffer& buffer = *plan_.buffers->Get(index);
  Result<uint64_t> bytes = context_.dims.get_size(buffer.bytes());
  if (!bytes.ok()) return bytes.status();
  Range whole;
  const char* where = "an input";
  uint64_t offset = 0;
  switch (buffer.kind()) {
    case BufferKind::Input:
      whole = inputs_[buffer.index()];
      break;
    case BufferKind::Output: {
      Result<Range> made = output(buffer.index());
      if (!made.ok()) return made.status();
      whole = *made;
      where = "an output";
      break;
    }
    case BufferKind::Result:
      whole = results_[buffer.index()];
      where = "a plan's result";
      break;
    case BufferKind::Constant: {
      const auto constant = module_.constant(buffer.index());
      // Shared by all sessions and never written: the manifest's check refuses copies to it.
      whole = {const_cast<std::byte*>(constant.data()), constant.size()};
      where = "a constant";
      break;
    }
    case BufferKind::Workspace:
    case BufferKind::Kept: {
      const bool kept = buffer.kind() == BufferKind::Kept;
      Result<uint64_t> at = context_.dims.get_size(buffer.offset());
      if (!at.ok()) return at.status();
      offset = *at;
      whole = kept ? Range{kept_[buffer.index()].memory.data(), kept_[buffer.index()].bytes}
                   : Range{workspace_.memory.data(), workspace_.bytes};
      where = kept ? "what a stretch keeps" : "the workspace";
      if (offset % module_format::kBufferAlignment != 0)
        return failure(GANTRY_INVALID_MODULE, "the module's plan: buffer %u is not aligned", index);
      break;
    }
  }
  if (offset > whole.bytes || *bytes > whole.bytes - offset)
    return buffer_outside(index, where, offset + *bytes, whole.bytes);
  return Range{whole.data + offset, *bytes};
}

// --- steps

Status PlanFrame::call(uint32_t index, const CallKernel& call, const KernelHosts& hosts) {
  ranges_.clear();
  pointers_.clear();
  sizes_.clear();
  GANTRY_TRY(append_ranges(call.buffers(), ranges_));
  for (const Range& range : ranges_) pointers_.push_back(range.data);
  for (uint32_t i = 0; call.dims() != nullptr && i < call.dims()->size(); ++i) {
    Result<int64_t> value = context_.dims.get(call.dims()->Get(i));
    if (!value.ok()) return value.status();
    sizes_.push_back(*value);
  }
  // Figures for reports: one that overflows is left at 0.
  Result<int64_t> flops = context_.dims.get(call.flops()), bytes = context_.dims.get(call.bytes());
  steps_[index].work = {flops.ok() ? static_cast<double>(*flops) : 0, bytes.ok() ? static_cast<double>(*bytes) : 0};
  const auto function = reinterpret_cast<GantryKernelFn>(module_.kernel(call.kernel()));
  const bool serial = is_short(steps_[index].work.flops, steps_[index].work.bytes);
  const int32_t code = function(serial ? &hosts.serial : &hosts.shared, pointers_.data(), sizes_.data());
  if (code == 0) return Status();
  if (code != GANTRY_KERNEL_CHECK_FAILED || context_.checker == nullptr) {
    return failure(GANTRY_KERNEL_FAILED, "%s failed with code %d", step_text(steps_[index].label).c_str(), code);
  }
  return failure(GANTRY_KERNEL_FAILED, "%s: %s", step_text(steps_[index].label).c_str(), context_.checker->problem().c_str());
}

Status PlanFrame::copy(uint32_t index, const CopyBuffer& copy) {
  Result<Range> source = range_of(copy.source());
  if (!source.ok()) return source.status();
  Result<Range> target = range_of(copy.target());
  if (!target.ok()) return target.status();
  if (source->bytes != target->bytes) return unlike_sizes(index);
  if (source->bytes > 0) memmove(target->data, source->data, source->bytes);
  steps_[index].work.bytes = 2.0 * static_cast<double>(source->bytes);
  return Status();
}

Result<int64_t> PlanFrame::bound_value(const BindSymbols& binding, const Range& source, uint32_t i) const {
  if (binding.buffer() < 0) return context_.dims.get(binding.values()->Get(i));
  if (binding.element() == module_format::DType::I32) {
    int32_t narrow = 0;
    memcpy(&narrow, source.data + i * sizeof narrow, sizeof narrow);
    return int64_t{narrow};
  }
  int64_t value = 0;
  memcpy(&value, source.data + i * sizeof value, sizeof value);
  return value;
}

Status PlanFrame::bind_symbols(const BindSymbols& binding) {
  Range source;
  const uint32_t count = binding.symbols()->size();
  if (binding.buffer() >= 0) {
    Result<Range> range = range_of(static_cast<uint32_t>(binding.buffer()));
    if (!range.ok()) return range.status();
    source = *range;
    const uint64_t width = binding.element() == module_format::DType::I32 ? 4 : 8;
    if (source.bytes < width * count)
      return failure(GANTRY_INVALID_MODULE, "the module's plan: %u symbols are bound to a buffer of %llu bytes",
                     count, static_cast<unsigned long long>(source.bytes));
  }
  const bool is_signed = binding.negatives() != nullptr && binding.negatives()->size() > 0;
  for (uint32_t i = 0; i < count; ++i) {
    Result<int64_t> value = bound_value(binding, source, i);
    if (!value.ok()) return value.status();
    if (is_signed) context_.dims.bind(binding.negatives()->Get(i), *value < 0 ? -(*value + (*value == INT64_MIN)) : 0);
    if (*value < 0 && !is_signed) {
      return failure(GANTRY_INVALID_ARGUMENT, "%s: the size %s, which the data give, is %lld",
                     text_of(binding.origin()).c_str(),
                     module_.manifest().symbols()->Get(binding.symbols()->Get(i))->c_str(),
                     static_cast<long long>(*value));
    }
    context_.dims.bind(binding.symbols()->Get(i), *value < 0 ? 0 : *value);
  }
  return check_constraints();
}

Status PlanFrame::check_constraints() {
  const auto& manifest = module_.manifest();
  for (uint32_t i = 0; i < checked_.size(); ++i) {
    const auto& constraint = *plan_.constraints->Get(i);
    if (checked_[i] || !context_.dims.is_bound(constraint.left()) || !context_.dims.is_bound(constraint.right())) continue;
    checked_[i] = true;
    Result<int64_t> left = context_.dims.get(constraint.left()), right = context_.dims.get(constraint.right());
    if (!left.ok()) return left.status();
    if (!right.ok()) return right.status();
    if (*left == *right) continue;
    return broken_by_data(manifest, constraint, *left, *right, context_.dims.symbols());
  }
  return Status();
}

Status PlanFrame::read_condition(uint32_t step, Result<Range> condition, bool& holds) const {
  if (!condition.ok()) return condition.status();
  if (condition->bytes < 1) return failure(GANTRY_INVALID_MODULE, "the module's plan: the condition of step %u is empty", step);
  holds = *condition->data != std::byte{0};
  return Status();
}

Status PlanFrame::append_ranges(const flatbuffers::Vector<uint32_t>* buffers, std::vector<Range>& ranges) {
  for (uint32_t i = 0; buffers != nullptr && i < buffers->size(); ++i) {
    Result<Range> range = range_of(buffers->Get(i));
    if (!range.ok()) return range.status();
    ranges.push_back(*range);
  }
  return Status();
}

Status PlanFrame::run_if(uint32_t index, const RunIf& step, const KernelHosts& hosts) {
  bool holds = false;
  GANTRY_TRY(read_condition(index, range_of(step.condition()), holds));
  Called& called = steps_[index].called;
  PlanFrame& branch = holds ? *called.then_plan : *called.else_plan;
  std::vector<Range> inputs;
  GANTRY_TRY(append_ranges(holds ? step.then_inputs() : step.else_inputs(), inputs));
  GANTRY_TRY(branch.run(inputs, &called.results, hosts));
  for (uint32_t i = 0; i < branch.output_count(); ++i) {
    Result<Range> result = branch.output(i);
    if (!result.ok()) return result.status();
    results_[step.first_result() + i] = *result;
  }
  for (uint32_t i = 0; step.symbols() != nullptr && i < step.symbols()->size(); ++i) {
    const auto* known = step.symbols()->Get(i);
    context_.dims.bind(known->symbol(), branch.output_shape(known->output())[known->axis()]);
  }
  return check_constraints();
}

Status PlanFrame::run_step(uint32_t index, const KernelHosts& hosts) {
  const auto& step = *plan_.steps->Get(index);
  if (const auto* kernel = step.action_as_CallKernel()) return call(index, *kernel, hosts);
  if (const auto* moved = step.action_as_CopyBuffer()) return copy(index, *moved);
  if (const auto* branch = step.action_as_RunIf()) return run_if(index, *branch, hosts);
  if (const auto* loop = step.action_as_RunLoop()) return run_loop(index, *loop, hosts);
  if (const auto* builtin = step.action_as_CallBuiltin()) return call_builtin(*builtin);
  return bind_symbols(*step.action_as_BindSymbols());
}

Status PlanFrame::run(std::span<const Range> inputs, OutputMemory* memory, const KernelHosts& hosts,
                      const Listener& listener) {
  inputs_ = inputs;
  output_memory_ = memory;
  for (Output& output : outputs_) output.is_made = false;
  results_.assign(plan_.results, {});
  checked_.assign(plan_.constraints == nullptr ? 0 : plan_.constraints->size(), false);
  for (const uint32_t symbol : late_symbols_) context_.dims.forget(symbol);
  set_unused();
  for (size_t i = 0; memory != nullptr && i < memory->size(); ++i) (*memory)[i].bytes = 0;
  Status status = check_constraints();
  uint32_t stretch = 0;
  for (uint32_t i = 0; status.ok() && i < plan_.steps->size(); ++i) {
    if (stretch < plan_.stretches->size() && plan_.stretches->Get(stretch)->first_step() == i)
      status = begin_stretch(stretch++);
    if (!status.ok()) break;
    if (listener.before) listener.before(i);
    current_step.store(&steps_[i].label, std::memory_order_relaxed);
    status = run_step(i, hosts);
    current_step.store(nullptr, std::memory_order_relaxed);
    if (listener.after) listener.after(i);
  }
  // Those that nothing writes have no elements.
  for (uint32_t i = 0; status.ok() && i < outputs_.size(); ++i) {
    if (Result<Range> made = output(i); !made.ok()) status = made.status();
  }
  set_unused();
  return status;
}

}  // namespace gantry::runtime
