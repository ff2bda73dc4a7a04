// A plan bound to memory and sizes, and the loop that runs it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "device_runtime/src/builtins.h"
#include "device_runtime/src/current_step.h"
#include "device_runtime/src/gpu_checker.h"
#include "device_runtime/src/memory.h"
#include "device_runtime/src/module_reader.h"
#include "device_runtime/src/run_trace.h"
#include "device_runtime/src/status.h"
#include "device_runtime/src/step_instructions.h"
#include "gantry/kernel_abi.h"

namespace gantry::runtime {

/// The manifest's dimension expressions under one binding of the symbols.
class DimValues {
 public:
  /// `symbols`: values; those that are absent are bound while the plan runs.
  void evaluate(const module_format::Manifest& manifest, std::span<const std::optional<int64_t>> symbols);
  /// Gives a symbol a value, and all expressions that mention it theirs.
  void bind(uint32_t symbol, int64_t value);
  /// The symbol has no value any more.
  void forget(uint32_t symbol);
  /// Whether all symbols of the expression have values.
  bool is_bound(uint32_t expression) const;
  /// INVALID_ARGUMENT if the expression overflowed or divided by zero for these shapes; INVALID_MODULE if one of its
  /// symbols has no value yet.
  Result<int64_t> get(uint32_t expression) const;
  /// As get, where a size is wanted: negative values are errors too.
  Result<uint64_t> get_size(uint32_t expression) const;
  /// By symbol; 0 for those without one.
  std::span<const int64_t> symbols() const { return symbols_; }

 private:
  void evaluate(uint32_t expression);
  void list_mentions();

  const module_format::Manifest* manifest_ = nullptr;
  std::vector<int64_t> symbols_;
  // Bytes: the code of vector<bool> is large.
  std::vector<uint8_t> bound_;  ///< by symbol
  std::vector<int64_t> values_;
  std::vector<uint8_t> valid_;
  std::vector<std::vector<uint32_t>> mentions_;  ///< by symbol: expressions; empty until the first is bound
};

/// Provides memory while a plan runs, for what has no size before.
class RunMemory {
 public:
  virtual ~RunMemory() = default;
  /// The run before is over: nothing that it was given counts as taken for this one.
  virtual void begin_run() = 0;
  /// Memory of an output of that shape, until the next run. OUT_OF_MEMORY.
  virtual Result<std::byte*> provide_output(uint32_t output, std::span<const int64_t> shape) = 0;
  /// Whether the run may take so many bytes for intermediates in all. OUT_OF_MEMORY.
  virtual Status allow_workspace(uint64_t bytes) = 0;
  /// Null where the module has none.
  virtual SessionStrings* strings() = 0;
};

/// Memory that a plan may use: its model's inputs and outputs, and the workspace.
struct PlanMemory {
  struct Range {
    std::byte* data = nullptr;
    uint64_t bytes = 0;
  };
  std::vector<Range> inputs, outputs;
  Range workspace;
  /// Of a plan of stretches: takes the place of outputs and workspace.
  RunMemory* while_running = nullptr;
};

/// A variant's plan, bound to memory and sizes. Belongs to one thread at a time.
class Executor {
 public:
  virtual ~Executor() = default;

  /// Memory of the host for intermediates: at least `bytes` at a multiple of 64, until the next call.
  virtual Result<std::byte*> reserve_workspace(uint64_t bytes) = 0;
  /// Resolves every step. All buffers are checked against the memory they lie in. INVALID_MODULE where the
  /// plan reaches outside of it; INVALID_ARGUMENT where the bound shapes do not fit the model.
  virtual Status bind(const Module& module, const DimValues& dims, const PlanMemory& memory) = 0;
  /// Replaces the address of an input that was bound before; its size stays.
  virtual void move_input(uint32_t input, std::byte* data) = 0;
  /// Whether an output's address can be replaced as well.
  virtual bool outputs_move() const { return false; }
  /// Where they move: replaces the address of an output that was bound before; its size stays.
  virtual void move_output(uint32_t /*output*/, std::byte* /*data*/) {}

  /// Runs all steps. KERNEL_FAILED names the kernel and the user's nodes.
  virtual Status run(const GantryKernelHost* host) = 0;
  /// As run; `nanoseconds` receives the time of each step.
  virtual Status run_timed(const GantryKernelHost* host, std::span<int64_t> nanoseconds) = 0;
  /// As run; `timeline` receives what each thread did when. INVALID_ARGUMENT where there are more threads and
  /// steps than RunTrace takes. Of a device other than the CPU: its steps one after another.
  virtual Status run_traced(const GantryKernelHost* host, int threads, RunTimeline& timeline) = 0;
  /// As run; `counts` receives what each step executes. INCOMPATIBLE for a device other than the CPU.
  virtual Status run_counted(const GantryKernelHost* host, StepInstructions& counts);
  /// Runs `number` times; `elapsed_ms` receives the time of all together by the device's clock. On a GPU
  /// without what moves inputs and outputs between it and the host.
  virtual Status run_repeatedly(const GantryKernelHost* host, int number, double& elapsed_ms) = 0;
  /// Overwrites the caches of a device other than the CPU.
  virtual Status flush_caches() { return Status(); }
  /// Whether the error of a run that faulted names the kernel.
  virtual bool names_faults() const { return true; }
  /// Memory of the host for intermediates that the executor has taken itself while it ran.
  virtual uint64_t taken_workspace_bytes() const { return 0; }
  /// Memory on a GPU: workspace, inputs and outputs.
  virtual uint64_t device_workspace_bytes() const { return 0; }
  virtual uint64_t device_io_bytes() const { return 0; }

  size_t step_count() const { return labels_.size(); }
  const StepLabel& label(size_t step) const { return labels_[step]; }
  double flops(size_t step) const { return work_[step].flops; }
  double bytes(size_t step) const { return work_[step].bytes; }

 protected:
  struct Work {
    double flops = 0, bytes = 0;
  };
  /// Fills labels_ and work_, one for each step; of copies all but their traffic.
  void describe_steps(const Module& module, const DimValues& dims);
  Status step_failure(size_t step, int32_t code) const;

  std::vector<StepLabel> labels_;
  std::vector<Work> work_;
};

/// Where every buffer of a variant that lies in the host's memory is; empty ranges for the others.
Status bind_host_buffers(const Module& module, const DimValues& dims, const PlanMemory& memory,
                         std::vector<PlanMemory::Range>& ranges);
/// INVALID_MODULE: a buffer of the plan ends beyond the memory that it is part of.
Status buffer_outside(uint32_t buffer, const char* where, uint64_t end, uint64_t limit);
/// INVALID_MODULE: that step copies between buffers of unlike sizes.
Status unlike_sizes(uint32_t step);
/// Monotonic time.
int64_t now_ns();

/// What kernels are told: those worth sharing between threads, and the others.
struct KernelHosts {
  GantryKernelHost shared, serial;
};
/// `checker`: of the emulated GPU; may be null.
KernelHosts make_kernel_hosts(const GantryKernelHost& host, GpuChecker* checker);
/// Whether so much work is too short to share.
bool is_short(double flops, double bytes);

/// A variant's steps as flat arrays, run one after another by the calling thread.
class CpuExecutor : public Executor {
 public:
  Result<std::byte*> reserve_workspace(uint64_t bytes) override;
  Status bind(const Module& module, const DimValues& dims, const PlanMemory& memory) override;
  void move_input(uint32_t input, std::byte* data) override;
  bool outputs_move() const override { return true; }
  void move_output(uint32_t output, std::byte* data) override;
  Status run(const GantryKernelHost* host) override;
  Status run_timed(const GantryKernelHost* host, std::span<int64_t> nanoseconds) override;
  Status run_traced(const GantryKernelHost* host, int threads, RunTimeline& timeline) override;
  Status run_counted(const GantryKernelHost* host, StepInstructions& counts) override;
  Status run_repeatedly(const GantryKernelHost* host, int number, double& elapsed_ms) override;

 private:
  struct BoundStep {
    GantryKernelFn function = nullptr;  ///< null: a copy of `copy_bytes` from the first buffer to the second
    uint32_t first_buffer = 0, first_dim = 0;
    uint64_t copy_bytes = 0;
    bool serial = false;  ///< too short to share between threads
  };
  struct BufferUse {
    uint32_t index = 0, slot = 0;  ///< buffers_[slot] is that input, or output
  };
  void move(const std::vector<BufferUse>& uses, uint32_t index, std::byte* data);
  int32_t run_step(const BoundStep& step, const KernelHosts& hosts) const;
  /// As run; kernels get the watch's host, and it hears when each step begins and ends.
  template <typename Watch>
  Status run_watched(Watch& watch);
  Status failed(size_t step, int32_t code) const;

  AlignedBuffer workspace_;
  std::unique_ptr<GpuChecker> checker_;  ///< of the emulated GPU; kernels built with checks report to it
  std::vector<BoundStep> steps_;
  std::vector<void*> buffers_;
  std::vector<int64_t> dims_;
  std::vector<BufferUse> input_uses_, output_uses_;
};

}  // namespace gantry::runtime
