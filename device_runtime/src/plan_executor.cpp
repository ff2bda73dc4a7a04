#include "device_runtime/src/plan_executor.h"

#include "device_runtime/src/module_format.h"

namespace gantry::runtime {

bool has_stretches(const module_format::Variant& variant) {
  return variant.stretches() != nullptr && variant.stretches()->size() > 0;
}

Status PlanExecutor::bind(const Module& module, const DimValues& dims, const PlanMemory& memory) {
  inputs_ = memory.inputs;
  context_.module = &module;
  context_.dims = dims;
  context_.memory = memory.while_running;
  describe_steps(module, dims);
  if (frame_ != nullptr) return Status();  // other sizes than before: it finds that out itself
  if (module.variant().device() == module_format::Device::CudaEmulated)
    checker_ = std::make_unique<GpuChecker>();
  context_.checker = checker_.get();
  frame_ = std::make_unique<PlanFrame>(context_, plan_of(module), workspace_);
  context_.main = frame_.get();
  return Status();
}

void PlanExecutor::move_input(uint32_t input, std::byte* data) {
  if (input < inputs_.size()) inputs_[input].data = data;
}

Status PlanExecutor::run_steps(const GantryKernelHost* host, const PlanFrame::Listener& listener) {
  const KernelHosts hosts = make_kernel_hosts(*host, checker_.get());
  context_.memory->begin_run();
  Status status = frame_->run(inputs_, nullptr, hosts, listener);
  for (size_t i = 0; i < work_.size(); ++i) work_[i] = {frame_->work(i).flops, frame_->work(i).bytes};
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

Status PlanExecutor::run_counted(const GantryKernelHost* host, StepInstructions& counts) {
  counts.begin(*host);
  return run_steps(&counts.host(),
                   {[&](size_t i) { counts.begin_step(i); }, [&](size_t) { counts.end_step(); }});
}

}  // namespace gantry::runtime
