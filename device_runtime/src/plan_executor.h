// Runs plans of stretches: symbols get values while the plan runs, and memory is found when sizes are known.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device_runtime/src/executor.h"

namespace gantry::runtime {

/// Whether the variant's plan binds symbols while it runs.
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
  Status run_repeatedly(const GantryKernelHost* host, int number, double& elapsed_ms) override;
  uint64_t taken_workspace_bytes() const override;

 private:
  using Range = PlanMemory::Range;
  /// Hears of each step before and after it runs; may be empty.
  struct Listener {
    std::function<void(size_t)> before, after;
  };

  Status run_steps(const GantryKernelHost* host, const Listener& listener);
  Status begin_stretch(uint32_t index);
  Status reserve(AlignedBuffer& memory, uint64_t bytes, const char* what);
  Status run_step(uint32_t index, const KernelHosts& hosts);
  Status call(uint32_t index, const module_format::CallKernel& call, const KernelHosts& hosts);
  Status copy(uint32_t index, const module_format::CopyBuffer& copy);
  Status bind_symbols(const module_format::BindSymbols& binding);
  Result<int64_t> bound_value(const module_format::BindSymbols& binding, const Range& source, uint32_t i) const;
  Status check_constraints();
  /// Where a buffer lies now; INVALID_MODULE where it is not inside of what it is part of.
  Result<Range> range_of(uint32_t buffer);
  Result<Range> output(uint32_t index);

  const Module* module_ = nullptr;
  DimValues dims_;
  std::vector<Range> inputs_;
  RunMemory* memory_ = nullptr;
  std::unique_ptr<GpuChecker> checker_;  ///< of the emulated GPU; kernels built with checks report to it
  std::vector<std::optional<Range>> outputs_;  ///< of this run, once something needs them
  std::vector<bool> checked_;                  ///< by constraint: it holds in this run
  AlignedBuffer workspace_;
  uint64_t workspace_bytes_ = 0;     ///< of the stretch that runs
  std::vector<AlignedBuffer> kept_;  ///< by stretch
  std::vector<uint64_t> kept_bytes_;
  std::vector<uint32_t> late_symbols_;  ///< that steps bind
  std::vector<void*> pointers_;       ///< of the call that is made
  std::vector<int64_t> sizes_;
};

}  // namespace gantry::runtime
