#include "device_runtime/src/plan_executor.h"

#include <string.h>

#include "device_runtime/src/data_type.h"
#include "device_runtime/src/dim_program.h"
#include "device_runtime/src/module_format.h"
#include "device_runtime/src/shape_errors.h"

namespace gantry::runtime {

using module_format::BindSymbols;
using module_format::Buffer;
using module_format::BufferKind;
using module_format::CallKernel;
using module_format::CopyBuffer;
using module_format::Stretch;

namespace {

std::string text_of(const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>* nodes) {
  std::string text;
  for (uint32_t i = 0; nodes != nullptr && i < nodes->size(); ++i)
    text += (i > 0 ? ", " : "") + nodes->Get(i)->str();
  return text;
}

}  // namespace

bool has_stretches(const module_format::Variant& variant) {
  return variant.stretches() != nullptr && variant.stretches()->size() > 0;
}

Status PlanExecutor::bind(const Module& module, const DimValues& dims, const PlanMemory& memory) {
  module_ = &module;
  dims_ = dims;
  inputs_ = memory.inputs;
  memory_ = memory.while_running;
  checker_.reset();
  if (module.variant().device() == module_format::Device::CudaEmulated)
    checker_ = std::make_unique<GpuChecker>();
  kept_.resize(module.variant().stretches()->size());
  kept_bytes_.assign(kept_.size(), 0);
  describe_steps(module, dims_);
  late_symbols_.clear();
  for (const auto* step : *module.variant().steps()) {
    const BindSymbols* binding = step->action_as_BindSymbols();
    if (binding == nullptr) continue;
    for (const auto* list : {binding->symbols(), binding->negatives()}) {
      if (list != nullptr) late_symbols_.insert(late_symbols_.end(), list->begin(), list->end());
    }
  }
  return Status();
}

void PlanExecutor::move_input(uint32_t input, std::byte* data) {
  if (input < inputs_.size()) inputs_[input].data = data;
}

uint64_t PlanExecutor::taken_workspace_bytes() const {
  uint64_t total = workspace_.capacity();
  for (const AlignedBuffer& kept : kept_) total += kept.capacity();
  return total;
}

// --- memory

Status PlanExecutor::reserve(AlignedBuffer& memory, uint64_t bytes, const char* what) {
  if (bytes <= memory.capacity()) return Status();
  const uint64_t others = taken_workspace_bytes() - memory.capacity();
  if (bytes > UINT64_MAX - others)
    return failure(GANTRY_OUT_OF_MEMORY, "%s would be larger than any memory", what);
  GANTRY_TRY(memory_->allow_workspace(others + bytes));
  return memory.reserve(bytes, what);
}

Status PlanExecutor::begin_stretch(uint32_t index) {
  const Stretch& stretch = *module_->variant().stretches()->Get(index);
  Result<uint64_t> bytes = dims_.get_size(stretch.workspace_bytes());
  if (!bytes.ok()) return bytes.status();
  GANTRY_TRY(reserve(workspace_, *bytes, "the model's workspace"));
  workspace_bytes_ = *bytes;
  Result<uint64_t> kept = dims_.get_size(stretch.kept_bytes());
  if (!kept.ok()) return kept.status();
  GANTRY_TRY(reserve(kept_[index], *kept, "the model's workspace"));
  kept_bytes_[index] = *kept;
  return Status();
}

Result<PlanMemory::Range> PlanExecutor::output(uint32_t index) {
  if (outputs_[index]) return *outputs_[index];
  const auto& info = *module_->manifest().outputs()->Get(index);
  std::vector<int64_t> shape;
  for (uint32_t dim : *info.shape()) {
    Result<uint64_t> size = dims_.get_size(dim);
    if (!size.ok()) return size.status();
    shape.push_back(static_cast<int64_t>(*size));
  }
  Result<std::byte*> data = memory_->provide_output(index, shape);
  if (!data.ok()) return data.status();
  Range range{*data, 0};
  dense_bytes(shape, static_cast<ElementType>(info.dtype()), &range.bytes);
  outputs_[index] = range;
  return range;
}

Result<PlanMemory::Range> PlanExecutor::range_of(uint32_t index) {
  const Buffer& buffer = *module_->variant().buffers()->Get(index);
  Result<uint64_t> bytes = dims_.get_size(buffer.bytes());
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
    case BufferKind::Constant: {
      const auto constant = module_->constant(buffer.index());
      // Shared by all sessions and never written: the manifest's check refuses copies to it.
      whole = {const_cast<std::byte*>(constant.data()), constant.size()};
      where = "a constant";
      break;
    }
    case BufferKind::Workspace:
    case BufferKind::Kept: {
      const bool kept = buffer.kind() == BufferKind::Kept;
      Result<uint64_t> at = dims_.get_size(buffer.offset());
      if (!at.ok()) return at.status();
      offset = *at;
      whole = kept ? Range{kept_[buffer.index()].data(), kept_bytes_[buffer.index()]}
                   : Range{workspace_.data(), workspace_bytes_};
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

Status PlanExecutor::call(uint32_t index, const CallKernel& call, const KernelHosts& hosts) {
  pointers_.clear();
  sizes_.clear();
  for (uint32_t buffer : *call.buffers()) {
    Result<Range> range = range_of(buffer);
    if (!range.ok()) return range.status();
    pointers_.push_back(range->data);
  }
  for (uint32_t i = 0; call.dims() != nullptr && i < call.dims()->size(); ++i) {
    Result<int64_t> value = dims_.get(call.dims()->Get(i));
    if (!value.ok()) return value.status();
    sizes_.push_back(*value);
  }
  // Figures for reports: one that overflows is left at 0.
  Result<int64_t> flops = dims_.get(call.flops()), bytes = dims_.get(call.bytes());
  work_[index] = {flops.ok() ? static_cast<double>(*flops) : 0, bytes.ok() ? static_cast<double>(*bytes) : 0};
  const auto function = reinterpret_cast<GantryKernelFn>(module_->kernel(call.kernel()));
  const bool serial = is_short(work_[index].flops, work_[index].bytes);
  const int32_t code = function(serial ? &hosts.serial : &hosts.shared, pointers_.data(), sizes_.data());
  if (code == 0) return Status();
  if (code != GANTRY_KERNEL_CHECK_FAILED || checker_ == nullptr) return step_failure(index, code);
  return failure(GANTRY_KERNEL_FAILED, "%s: %s", step_text(labels_[index]).c_str(), checker_->problem().c_str());
}

Status PlanExecutor::copy(uint32_t index, const CopyBuffer& copy) {
  Result<Range> source = range_of(copy.source());
  if (!source.ok()) return source.status();
  Result<Range> target = range_of(copy.target());
  if (!target.ok()) return target.status();
  if (source->bytes != target->bytes) return unlike_sizes(index);
  if (source->bytes > 0) memmove(target->data, source->data, source->bytes);
  work_[index].bytes = 2.0 * static_cast<double>(source->bytes);
  return Status();
}

Result<int64_t> PlanExecutor::bound_value(const BindSymbols& binding, const Range& source, uint32_t i) const {
  if (binding.buffer() < 0) return dims_.get(binding.values()->Get(i));
  if (binding.element() == module_format::DType::I32) {
    int32_t narrow = 0;
    memcpy(&narrow, source.data + i * sizeof narrow, sizeof narrow);
    return int64_t{narrow};
  }
  int64_t value = 0;
  memcpy(&value, source.data + i * sizeof value, sizeof value);
  return value;
}

Status PlanExecutor::bind_symbols(const BindSymbols& binding) {
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
    if (is_signed) dims_.bind(binding.negatives()->Get(i), *value < 0 ? -(*value + (*value == INT64_MIN)) : 0);
    if (*value < 0 && !is_signed) {
      return failure(GANTRY_INVALID_ARGUMENT, "%s: the size %s, which the data give, is %lld",
                     text_of(binding.origin()).c_str(),
                     module_->manifest().symbols()->Get(binding.symbols()->Get(i))->c_str(),
                     static_cast<long long>(*value));
    }
    dims_.bind(binding.symbols()->Get(i), *value < 0 ? 0 : *value);
  }
  return check_constraints();
}

Status PlanExecutor::check_constraints() {
  const auto& manifest = module_->manifest();
  for (uint32_t i = 0; i < checked_.size(); ++i) {
    const auto& constraint = *manifest.constraints()->Get(i);
    if (checked_[i] || !dims_.is_bound(constraint.left()) || !dims_.is_bound(constraint.right())) continue;
    checked_[i] = true;
    Result<int64_t> left = dims_.get(constraint.left()), right = dims_.get(constraint.right());
    if (!left.ok()) return left.status();
    if (!right.ok()) return right.status();
    if (*left == *right) continue;
    const auto text = [&](uint32_t expression) {
      return dim_text(*manifest.dim_exprs()->Get(expression), manifest);
    };
    return failure(GANTRY_INVALID_ARGUMENT, "the data do not fit the model: %s is %lld, but %s is %lld, and %s needs them to be equal",
                   text(constraint.left()).c_str(), static_cast<long long>(*left),
                   text(constraint.right()).c_str(), static_cast<long long>(*right),
                   constraint.origin() == nullptr ? "it" : constraint.origin()->c_str());
  }
  return Status();
}

Status PlanExecutor::run_step(uint32_t index, const KernelHosts& hosts) {
  const auto& step = *module_->variant().steps()->Get(index);
  if (const auto* kernel = step.action_as_CallKernel()) return call(index, *kernel, hosts);
  if (const auto* moved = step.action_as_CopyBuffer()) return copy(index, *moved);
  return bind_symbols(*step.action_as_BindSymbols());
}

Status PlanExecutor::run_steps(const GantryKernelHost* host, const Listener& listener) {
  const KernelHosts hosts = make_kernel_hosts(*host, checker_.get());
  const auto& variant = module_->variant();
  const auto* constraints = module_->manifest().constraints();
  outputs_.assign(module_->manifest().outputs()->size(), std::nullopt);
  checked_.assign(constraints == nullptr ? 0 : constraints->size(), false);
  for (const uint32_t symbol : late_symbols_) dims_.forget(symbol);
  const auto& stretches = *variant.stretches();
  uint32_t stretch = 0;
  Status status;
  for (uint32_t i = 0; status.ok() && i < variant.steps()->size(); ++i) {
    if (stretch < stretches.size() && stretches.Get(stretch)->first_step() == i) status = begin_stretch(stretch++);
    if (!status.ok()) break;
    if (listener.before) listener.before(i);
    current_step.store(&labels_[i], std::memory_order_relaxed);
    status = run_step(i, hosts);
    current_step.store(nullptr, std::memory_order_relaxed);
    if (listener.after) listener.after(i);
  }
  // Those that nothing writes have no elements.
  for (uint32_t i = 0; status.ok() && i < outputs_.size(); ++i) {
    if (Result<Range> made = output(i); !made.ok()) status = made.status();
  }
  return status;
}

Status PlanExecutor::run(const GantryKernelHost* host) {
  return run_steps(host, {});
}

Status PlanExecutor::run_repeatedly(const GantryKernelHost* host, int number, double& elapsed_ms) {
  const int64_t before = now_ns();
  for (int i = 0; i < number; ++i) GANTRY_TRY(run(host));
  elapsed_ms = static_cast<double>(now_ns() - before) * 1e-6;
  return Status();
}

Status PlanExecutor::run_timed(const GantryKernelHost* host, std::span<int64_t> nanoseconds) {
  int64_t begin = now_ns();
  const auto before = [&](size_t) { begin = now_ns(); };
  const auto after = [&](size_t step) {
    if (step < nanoseconds.size()) nanoseconds[step] = now_ns() - begin;
  };
  return run_steps(host, {before, after});
}

Status PlanExecutor::run_traced(const GantryKernelHost* host, int threads, RunTimeline& timeline) {
  Result<RunTrace> trace = RunTrace::create(threads, step_count());
  if (!trace.ok()) return trace.status();
  trace->begin(*host);
  GANTRY_TRY(run_steps(&trace->host(), {[&](size_t i) { trace->begin_step(i); }, [&](size_t) { trace->end_step(); }}));
  timeline = trace->end();
  return Status();
}

}  // namespace gantry::runtime
