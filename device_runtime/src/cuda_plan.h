// The steps of a variant for GPUs, bound to addresses and sizes.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "device_runtime/src/cuda_module.h"
#include "device_runtime/src/executor.h"
#include "device_runtime/src/module_reader.h"
#include "gantry/kernel_abi.h"

namespace gantry::runtime::cuda {

/// Where a plan's buffers on the GPU lie.
struct DeviceMemory {
  struct Range {
    DevicePointer address = 0;
    uint64_t bytes = 0;
  };
  std::vector<Range> inputs, outputs;  ///< empty ranges where the plan has none on the GPU
  Range workspace;
};

/// Resolved steps. Those of one kernel launch its grids in order; grids without blocks are left out.
class Plan {
 public:
  enum class Kind : uint8_t {
    kLaunches,
    kDeviceCopy,    ///< on the GPU, or between it and the host's workspace
    kUnpinnedCopy,  ///< between the GPU and memory of the host that it cannot reach directly
    kHostKernel,
    kHostCopy,
  };

  /// INVALID_MODULE where the plan reaches outside of its memory; INVALID_ARGUMENT where the bound shapes ask
  /// for a grid that the GPU does not have, naming the kernel.
  Status bind(const Module& module, const DimValues& dims, const PlanMemory& memory,
              const DeviceMemory& device);
  /// Replaces the address of an input in the host's memory.
  void move_input(uint32_t input, std::byte* data);

  size_t step_count() const { return steps_.size(); }
  Kind kind(size_t step) const { return steps_[step].kind; }
  /// Whether the step is work for the GPU that a graph may hold.
  bool is_capturable(size_t step) const { return kind(step) <= Kind::kDeviceCopy; }
  bool is_on_host(size_t step) const { return kind(step) >= Kind::kHostKernel; }
  uint64_t copy_bytes(size_t step) const { return steps_[step].bytes; }

  /// Queues a step's work for the GPU.
  ResultCode enqueue(size_t step, const Driver& driver, Stream stream);
  /// Runs a step of the host; returns the kernel's code.
  int32_t run_on_host(size_t step, const GantryKernelHost* host) const;

 private:
  struct Step {
    Kind kind = Kind::kLaunches;
    uint32_t first_group = 0, group_count = 0;      ///< kLaunches: into groups_
    uint32_t first_value = 0, value_count = 0;      ///< kLaunches: parameters without the iteration
    GantryKernelFn function = nullptr;              ///< kHostKernel
    uint32_t first_host_buffer = 0, first_dim = 0;  ///< of the host: kernels and copies
    uint64_t bytes = 0;                             ///< of copies
    DevicePointer source = 0, target = 0;           ///< of copies: 0 for the side in the host's memory
  };
  /// Launches that repeat together.
  struct Group {
    uint32_t first_launch = 0, launch_count = 0;
    int64_t iterations = 1;
    bool takes_iteration = false;
  };
  struct BoundLaunch {
    Function function = nullptr;
    unsigned grid[3] = {};
    unsigned threads = 0;
  };
  struct InputUse {
    uint32_t input = 0, slot = 0;
  };
  struct Place {
    std::byte* host = nullptr;
    DevicePointer device = 0;
    uint64_t bytes = 0;
  };

  Status bind_buffers(const Module& module, const DimValues& dims, const PlanMemory& memory,
                      const DeviceMemory& device);
  Status bind_copy(const Module& module, uint32_t index, const module_format::CopyBuffer& copy);
  Status bind_host_call(const Module& module, const DimValues& dims, const module_format::CallKernel& call);
  Status bind_launches(const Module& module, const DimValues& dims, const module_format::CallKernel& call);
  Status bind_grid(const Module& module, const DimValues& dims, const module_format::CallKernel& call,
                   uint32_t launch, BoundLaunch& bound) const;
  void add_host_buffer(const Module& module, uint32_t buffer);

  std::vector<Step> steps_;
  std::vector<Group> groups_;
  std::vector<BoundLaunch> launches_;
  std::vector<uint64_t> values_;
  std::vector<void*> host_buffers_;
  std::vector<int64_t> host_dims_;
  std::vector<InputUse> input_uses_;
  std::vector<Place> places_;  ///< of the variant's buffers
  std::vector<void*> parameters_;
};

}  // namespace gantry::runtime::cuda
