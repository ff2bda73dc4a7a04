// Runs plans of stretches: symbols get values while the plan runs, and memory is found when sizes are known.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "device_runtime/src/executor.h"
#include "device_runtime/src/plan_frame.h"

namespace gantry::runtime {

/// Whether the variant's plan binds symbols, or calls other plans, while it runs.
bool has_stretches(const module_format::Variant& variant);

/// A plan of stretches on the CPU. Steps are looked up as they come: a stretch's pointers are only known when it
/// begins. Memory is kept from run to run.
class PlanExecutor : public Executor {
 public:
  /// There is nothing to reserve before the plan runs.
  Result<std::byte*> reserve_workspace(uint64_t) override { return nullptr; }
  Status bind(const Module& module, const DimValues& dims, const PlanMemory& memory) override;
  void move_input(uint32_t input, std::byte* data) override;
  bool outputs_move() const override { return true; }
  Status run(const GantryKernelHost* host) override;
  Status run_timed(const GantryKernelHost* host, std::span<int64_t> nanoseconds) override;
  Status run_traced(const GantryKernelHost* host, int threads, RunTimeline& timeline) override;
  Status run_counted(const GantryKernelHost* host, StepInstructions& counts) override;
  Status run_repeatedly(const GantryKernelHost* host, int number, double& elapsed_ms) override;
  uint64_t taken_workspace_bytes() const override { return context_.taken_bytes; }

 private:
  Status run_steps(const GantryKernelHost* host, const PlanFrame::Listener& listener);

  PlanContext context_;
  std::unique_ptr<GpuChecker> checker_;  ///< of the emulated GPU; kernels built with checks report to it
  FrameWorkspace workspace_;
  std::unique_ptr<PlanFrame> frame_;
  std::vector<PlanMemory::Range> inputs_;
};

}  // namespace gantry::runtime
