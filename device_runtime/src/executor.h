// A plan bound to memory and sizes, and the loop that runs it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "device_runtime/src/current_step.h"
#include "device_runtime/src/module_reader.h"
#include "device_runtime/src/status.h"
#include "gantry/kernel_abi.h"

namespace gantry::runtime {

/// The manifest's dimension expressions under one binding of the symbols.
class DimValues {
 public:
  void evaluate(const module_format::Manifest& manifest, std::span<const int64_t> symbols);
  /// INVALID_ARGUMENT if the expression overflowed or divided by zero for these shapes.
  Result<int64_t> get(uint32_t expression) const;
  /// As get, where a size is wanted: negative values are errors too.
  Result<uint64_t> get_size(uint32_t expression) const;

 private:
  const module_format::Manifest* manifest_ = nullptr;
  std::vector<int64_t> values_;
  std::vector<bool> valid_;
};

/// Memory that a plan may use: its model's inputs and outputs, and the workspace.
struct PlanMemory {
  struct Range {
    std::byte* data = nullptr;
    uint64_t bytes = 0;
  };
  std::vector<Range> inputs, outputs;
  Range workspace;
};

/// A variant's steps as flat arrays, ready to run. Belongs to one thread at a time.
class Executor {
 public:
  /// Resolves every step. All buffers are checked against the memory they lie in. INVALID_MODULE where the
  /// plan reaches outside of it; INVALID_ARGUMENT where the bound shapes do not fit the model.
  Status bind(const Module& module, const DimValues& dims, const PlanMemory& memory);
  /// Replaces the address of an input that was bound before; its size stays.
  void move_input(uint32_t input, std::byte* data);

  /// Runs all steps. KERNEL_FAILED names the kernel and the user's nodes.
  Status run(const GantryKernelHost* host) const;
  /// As run; `nanoseconds` receives the time of each step.
  Status run_timed(const GantryKernelHost* host, std::span<int64_t> nanoseconds) const;

  size_t step_count() const { return steps_.size(); }
  const StepLabel& label(size_t step) const { return labels_[step]; }
  double flops(size_t step) const { return work_[step].flops; }
  double bytes(size_t step) const { return work_[step].bytes; }

 private:
  struct BoundStep {
    GantryKernelFn function = nullptr;  ///< null: a copy of `copy_bytes` from the first buffer to the second
    uint32_t first_buffer = 0, first_dim = 0;
    uint64_t copy_bytes = 0;
  };
  struct Work {
    double flops = 0, bytes = 0;
  };
  struct InputUse {
    uint32_t input = 0, slot = 0;  ///< buffers_[slot] is that input
  };
  int32_t run_step(const BoundStep& step, const GantryKernelHost* host) const;
  Status bind_buffers(const Module& module, const DimValues& dims, const PlanMemory& memory,
                      std::vector<PlanMemory::Range>& ranges) const;
  Status step_failure(size_t step, int32_t code) const;

  std::vector<BoundStep> steps_;
  std::vector<StepLabel> labels_;
  std::vector<Work> work_;
  std::vector<void*> buffers_;
  std::vector<int64_t> dims_;
  std::vector<InputUse> input_uses_;
};

}  // namespace gantry::runtime
