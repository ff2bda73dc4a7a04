#include "device_runtime/src/executor.h"

#include <string.h>
#include <time.h>

#include "device_runtime/src/dim_program.h"
#include "device_runtime/src/module_format.h"

namespace gantry::runtime {

std::atomic<const StepLabel*> current_step{nullptr};

std::string step_text(const StepLabel& label) {
  std::string text = std::string("kernel ") + label.name();
  if (label.index < 0) return text;
  text += format_text(" (step #%d: %s", label.index, label.ops);
  if (label.origin[0] != 0) text += std::string("; nodes ") + label.origin;
  return text + ")";
}

namespace {

using module_format::Buffer;
using module_format::BufferKind;

int32_t run_unshared(void*, GantryLoopBody body, void* closure, int64_t count) {
  return count > 0 ? body(closure, 0, count) : 0;
}

int32_t run_rounds_unshared(void*, GantryLoopBody body, void* closure, int64_t rounds, int64_t count) {
  return run_unshared(nullptr, body, closure, rounds * count);
}

}  // namespace

// Handing half of a loop to another core costs half a microsecond, and moving its data as much again: kernels
// that one slow core finishes in less than two are not shared. Figures of 0 mean that nothing is known.
bool is_short(double flops, double bytes) {
  constexpr double kSlowFlops = 2e10, kSlowBytes = 1e10, kSeconds = 2e-6;
  return bytes > 0 && flops / kSlowFlops + bytes / kSlowBytes < kSeconds;
}

KernelHosts make_kernel_hosts(const GantryKernelHost& host, GpuChecker* checker) {
  KernelHosts hosts{host, host};
  hosts.shared.gpu_checker = checker == nullptr ? nullptr : checker->table();
  hosts.serial.gpu_checker = hosts.shared.gpu_checker;
  hosts.serial.parallel_for = run_unshared;
  hosts.serial.parallel_rounds = run_rounds_unshared;
  return hosts;
}

Status unlike_sizes(uint32_t step) {
  return failure(GANTRY_INVALID_MODULE, "the module's plan: step %u copies between buffers of unlike sizes",
                 step);
}

Status Executor::run_counted(const GantryKernelHost*, StepInstructions&) {
  return failure(GANTRY_INCOMPATIBLE, "instructions are counted on CPUs alone");
}

int64_t now_ns() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

Status buffer_outside(uint32_t buffer, const char* where, uint64_t end, uint64_t limit) {
  return failure(GANTRY_INVALID_MODULE,
                 "the module's plan: buffer %u ends at byte %llu of %s, which has %llu", buffer,
                 static_cast<unsigned long long>(end), where, static_cast<unsigned long long>(limit));
}

void DimValues::evaluate(const module_format::Manifest& manifest,
                         std::span<const std::optional<int64_t>> symbols) {
  manifest_ = &manifest;
  symbols_.clear();
  bound_.clear();
  mentions_.clear();
  for (const std::optional<int64_t>& symbol : symbols) {
    symbols_.push_back(symbol.value_or(0));
    bound_.push_back(symbol.has_value());
  }
  const uint32_t count = manifest.dim_exprs() == nullptr ? 0 : manifest.dim_exprs()->size();
  values_.assign(count, 0);
  valid_.assign(count, false);
  for (uint32_t i = 0; i < count; ++i) evaluate(i);
}

void DimValues::evaluate(uint32_t expression) {
  valid_[expression] = false;
  if (!is_bound(expression)) return;
  Result<int64_t> value = evaluate_dim(*manifest_->dim_exprs()->Get(expression), symbols_);
  valid_[expression] = value.ok();
  values_[expression] = *value;
}

bool DimValues::is_bound(uint32_t expression) const {
  for (const auto* step : *manifest_->dim_exprs()->Get(expression)->steps()) {
    if (step->opcode() == module_format::DimOpcode::Symbol && !bound_[static_cast<size_t>(step->value())])
      return false;
  }
  return true;
}

void DimValues::list_mentions() {
  mentions_.resize(symbols_.size());
  for (uint32_t i = 0; i < values_.size(); ++i) {
    for (const auto* step : *manifest_->dim_exprs()->Get(i)->steps()) {
      if (step->opcode() != module_format::DimOpcode::Symbol) continue;
      std::vector<uint32_t>& list = mentions_[static_cast<size_t>(step->value())];
      if (list.empty() || list.back() != i) list.push_back(i);
    }
  }
}

void DimValues::bind(uint32_t symbol, int64_t value) {
  if (mentions_.empty()) list_mentions();
  if (bound_[symbol] && symbols_[symbol] == value) return;
  symbols_[symbol] = value;
  bound_[symbol] = true;
  for (const uint32_t expression : mentions_[symbol]) evaluate(expression);
}

void DimValues::forget(uint32_t symbol) {
  if (mentions_.empty()) list_mentions();
  bound_[symbol] = false;
  for (const uint32_t expression : mentions_[symbol]) valid_[expression] = false;
}

Result<int64_t> DimValues::get(uint32_t expression) const {
  if (valid_[expression]) return values_[expression];
  if (!is_bound(expression)) {
    return failure(GANTRY_INVALID_MODULE, "the module's plan: it needs %s before its symbols have values",
                   dim_text(*manifest_->dim_exprs()->Get(expression), *manifest_).c_str());
  }
  return failure(GANTRY_INVALID_ARGUMENT, "these input shapes do not work: %s overflows or divides by zero",
                 dim_text(*manifest_->dim_exprs()->Get(expression), *manifest_).c_str());
}

Result<uint64_t> DimValues::get_size(uint32_t expression) const {
  Result<int64_t> value = get(expression);
  if (!value.ok()) return value.status();
  if (*value >= 0) return static_cast<uint64_t>(*value);
  return failure(GANTRY_INVALID_ARGUMENT, "these input shapes do not work: %s would be %lld",
                 dim_text(*manifest_->dim_exprs()->Get(expression), *manifest_).c_str(),
                 static_cast<long long>(*value));
}

Status bind_host_buffers(const Module& module, const DimValues& dims, const PlanMemory& memory,
                         std::vector<PlanMemory::Range>& ranges) {
  const auto& buffers = *module.variant().buffers();
  for (uint32_t i = 0; i < buffers.size(); ++i) {
    const Buffer& buffer = *buffers.Get(i);
    if (buffer.device() == module_format::Device::Cuda) {
      ranges.push_back({});
      continue;
    }
    Result<uint64_t> bytes = dims.get_size(buffer.bytes());
    if (!bytes.ok()) return bytes.status();
    PlanMemory::Range range;
    const char* where = "an input";
    uint64_t offset = 0;
    switch (buffer.kind()) {
      case BufferKind::Input:
        range = memory.inputs[buffer.index()];
        break;
      case BufferKind::Output:
        range = memory.outputs[buffer.index()];
        where = "an output";
        break;
      case BufferKind::Kept:
      case BufferKind::Result:
        return failure(GANTRY_INVALID_MODULE, "the module's plan: buffer %u is kept by no stretch", i);
      case BufferKind::Constant: {
        const auto constant = module.constant(buffer.index());
        // Shared by all sessions and never written: the manifest's check refuses copies to it.
        range = {const_cast<std::byte*>(constant.data()), constant.size()};
        where = "a constant";
        break;
      }
      case BufferKind::Workspace: {
        Result<uint64_t> at = dims.get_size(buffer.offset());
        if (!at.ok()) return at.status();
        offset = *at;
        range = memory.workspace;
        where = "the workspace";
        if (offset % module_format::kBufferAlignment != 0) {
          return failure(GANTRY_INVALID_MODULE, "the module's plan: buffer %u is not aligned", i);
        }
        break;
      }
    }
    if (offset > range.bytes || *bytes > range.bytes - offset)
      return buffer_outside(i, where, offset + *bytes, range.bytes);
    ranges.push_back({range.data + offset, *bytes});
  }
  return Status();
}

void Executor::describe_steps(const Module& module, const DimValues& dims) {
  labels_.clear();
  work_.clear();
  const auto& variant = module.variant();
  for (uint32_t i = 0; i < variant.steps()->size(); ++i) {
    StepLabel label;
    Work work;
    label.index = static_cast<int32_t>(i);
    label.origin = module.origin(i).c_str();
    label.ops = "copy";
    if (const auto* call = variant.steps()->Get(i)->action_as_CallKernel()) {
      const auto* kernel = variant.kernels()->Get(call->kernel());
      label.symbol = kernel->symbol()->c_str();
      label.ops = kernel->name()->c_str();
      if (kernel->op() != nullptr) label.op = kernel->op()->c_str();
      // Figures for reports only: one that overflows is left at 0.
      if (Result<int64_t> flops = dims.get(call->flops()); flops.ok())
        work.flops = static_cast<double>(*flops);
      if (Result<int64_t> bytes = dims.get(call->bytes()); bytes.ok())
        work.bytes = static_cast<double>(*bytes);
    } else if (variant.steps()->Get(i)->action_as_BindSymbols() != nullptr) {
      label.ops = "bind sizes";
    } else if (variant.steps()->Get(i)->action_as_RunIf() != nullptr) {
      label.ops = "if";
    } else if (variant.steps()->Get(i)->action_as_RunLoop() != nullptr) {
      label.ops = "loop";
    } else if (const auto* builtin = variant.steps()->Get(i)->action_as_CallBuiltin()) {
      label.ops = builtin->function()->c_str();
    }
    labels_.push_back(label);
    work_.push_back(work);
  }
}

Status Executor::step_failure(size_t step, int32_t code) const {
  return failure(GANTRY_KERNEL_FAILED, "%s failed with code %d", step_text(labels_[step]).c_str(), code);
}

Result<std::byte*> CpuExecutor::reserve_workspace(uint64_t bytes) {
  GANTRY_TRY(workspace_.reserve(bytes, "the model's workspace"));
  return workspace_.data();
}

Status CpuExecutor::bind(const Module& module, const DimValues& dims, const PlanMemory& memory) {
  steps_.clear();
  buffers_.clear();
  dims_.clear();
  input_uses_.clear();
  output_uses_.clear();
  checker_.reset();
  if (module.variant().device() == module_format::Device::CudaEmulated)
    checker_ = std::make_unique<GpuChecker>();
  describe_steps(module, dims);
  std::vector<PlanMemory::Range> ranges;
  GANTRY_TRY(bind_host_buffers(module, dims, memory, ranges));
  const auto& variant = module.variant();
  const auto add_buffer = [&](uint32_t index) {
    const Buffer& buffer = *variant.buffers()->Get(index);
    const BufferUse use{buffer.index(), static_cast<uint32_t>(buffers_.size())};
    if (buffer.kind() == BufferKind::Input) input_uses_.push_back(use);
    if (buffer.kind() == BufferKind::Output) output_uses_.push_back(use);
    buffers_.push_back(ranges[index].data);
  };
  const auto& steps = *variant.steps();
  for (uint32_t i = 0; i < steps.size(); ++i) {
    BoundStep step;
    step.first_buffer = static_cast<uint32_t>(buffers_.size());
    step.first_dim = static_cast<uint32_t>(dims_.size());
    if (const auto* copy = steps.Get(i)->action_as_CopyBuffer()) {
      const PlanMemory::Range source = ranges[copy->source()], target = ranges[copy->target()];
      if (source.bytes != target.bytes) return unlike_sizes(i);
      add_buffer(copy->source());
      add_buffer(copy->target());
      step.copy_bytes = source.bytes;
      work_[i].bytes = 2.0 * static_cast<double>(source.bytes);
    } else {
      const auto* call = steps.Get(i)->action_as_CallKernel();
      step.function = reinterpret_cast<GantryKernelFn>(module.kernel(call->kernel()));
      step.serial = is_short(work_[i].flops, work_[i].bytes);
      for (uint32_t buffer : *call->buffers()) add_buffer(buffer);
      for (uint32_t d = 0; call->dims() != nullptr && d < call->dims()->size(); ++d) {
        Result<int64_t> value = dims.get(call->dims()->Get(d));
        if (!value.ok()) return value.status();
        dims_.push_back(*value);
      }
    }
    steps_.push_back(step);
  }
  return Status();
}

void CpuExecutor::move(const std::vector<BufferUse>& uses, uint32_t index, std::byte* data) {
  for (const BufferUse& use : uses) {
    if (use.index == index) buffers_[use.slot] = data;
  }
}

void CpuExecutor::move_input(uint32_t input, std::byte* data) {
  move(input_uses_, input, data);
}

void CpuExecutor::move_output(uint32_t output, std::byte* data) {
  move(output_uses_, output, data);
}

inline int32_t CpuExecutor::run_step(const BoundStep& step, const KernelHosts& hosts) const {
  void* const* buffers = buffers_.data() + step.first_buffer;
  if (step.function != nullptr) {
    return step.function(step.serial ? &hosts.serial : &hosts.shared, buffers, dims_.data() + step.first_dim);
  }
  memmove(buffers[1], buffers[0], step.copy_bytes);
  return 0;
}

Status CpuExecutor::failed(size_t step, int32_t code) const {
  if (code != GANTRY_KERNEL_CHECK_FAILED || checker_ == nullptr) return step_failure(step, code);
  return failure(GANTRY_KERNEL_FAILED, "%s: %s", step_text(labels_[step]).c_str(),
                 checker_->problem().c_str());
}

Status CpuExecutor::run(const GantryKernelHost* pool) {
  const KernelHosts hosts = make_kernel_hosts(*pool, checker_.get());
  for (size_t i = 0; i < steps_.size(); ++i) {
    current_step.store(&labels_[i], std::memory_order_relaxed);
    const int32_t code = run_step(steps_[i], hosts);
    if (code != 0) [[unlikely]] {
      current_step.store(nullptr, std::memory_order_relaxed);
      return failed(i, code);
    }
  }
  current_step.store(nullptr, std::memory_order_relaxed);
  return Status();
}

Status CpuExecutor::run_repeatedly(const GantryKernelHost* host, int number, double& elapsed_ms) {
  const int64_t before = now_ns();
  for (int i = 0; i < number; ++i) GANTRY_TRY(run(host));
  elapsed_ms = static_cast<double>(now_ns() - before) * 1e-6;
  return Status();
}

Status CpuExecutor::run_timed(const GantryKernelHost* pool, std::span<int64_t> nanoseconds) {
  const KernelHosts hosts = make_kernel_hosts(*pool, checker_.get());
  int64_t before = now_ns();
  for (size_t i = 0; i < steps_.size(); ++i) {
    current_step.store(&labels_[i], std::memory_order_relaxed);
    const int32_t code = run_step(steps_[i], hosts);
    current_step.store(nullptr, std::memory_order_relaxed);
    if (code != 0) return failed(i, code);
    const int64_t after = now_ns();
    if (i < nanoseconds.size()) nanoseconds[i] = after - before;
    before = after;
  }
  return Status();
}

template <typename Watch>
Status CpuExecutor::run_watched(Watch& watch) {
  const KernelHosts hosts = make_kernel_hosts(watch.host(), checker_.get());
  for (size_t i = 0; i < steps_.size(); ++i) {
    current_step.store(&labels_[i], std::memory_order_relaxed);
    watch.begin_step(i);
    const int32_t code = run_step(steps_[i], hosts);
    watch.end_step();
    current_step.store(nullptr, std::memory_order_relaxed);
    if (code != 0) return failed(i, code);
  }
  return Status();
}

Status CpuExecutor::run_traced(const GantryKernelHost* pool, int threads, RunTimeline& timeline) {
  Result<RunTrace> trace = RunTrace::create(threads, steps_.size());
  if (!trace.ok()) return trace.status();
  trace->begin(*pool);
  GANTRY_TRY(run_watched(*trace));
  timeline = trace->end();
  return Status();
}

Status CpuExecutor::run_counted(const GantryKernelHost* pool, StepInstructions& counts) {
  counts.begin(*pool);
  return run_watched(counts);
}

}  // namespace gantry::runtime
