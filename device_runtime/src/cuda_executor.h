// Runs a variant's plan on a GPU. The first run after shapes are bound goes step by step, so that a kernel
// that faults is named; later ones replay what was captured into CUDA graphs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device_runtime/src/cuda_plan.h"
#include "device_runtime/src/executor.h"

namespace gantry::runtime::cuda {

class CudaExecutor : public Executor {
 public:
  explicit CudaExecutor(std::shared_ptr<const Program> program);
  ~CudaExecutor() override;

  Result<std::byte*> reserve_workspace(uint64_t bytes) override;
  Status bind(const Module& module, const DimValues& dims, const PlanMemory& memory) override;
  void move_input(uint32_t input, std::byte* data) override;
  Status run(const GantryKernelHost* host) override;
  Status run_timed(const GantryKernelHost* host, std::span<int64_t> nanoseconds) override;
  Status run_traced(const GantryKernelHost* host, int threads, RunTimeline& timeline) override;
  Status run_repeatedly(const GantryKernelHost* host, int number, double& elapsed_ms) override;
  Status flush_caches() override;
  bool names_faults() const override { return !checked_; }
  uint64_t device_workspace_bytes() const override { return workspace_bytes_; }
  uint64_t device_io_bytes() const override { return io_bytes_; }

 private:
  /// Steps that run one after another on the same side. A step of the host is a segment of its own.
  struct Segment {
    uint32_t begin = 0, end = 0;
    GraphExec graph = nullptr;  ///< null: queued step by step
    GraphExec timed_graph = nullptr;
    Event start = nullptr;  ///< of timed runs
  };
  /// An input or output that has a place in the GPU's memory.
  struct Transfer {
    std::byte* host = nullptr;
    uint64_t offset = 0, bytes = 0;  ///< in io_ and staging_; nothing moves where `bytes` is 0
  };

  Status place_transfers(const Module& module, const PlanMemory& memory, DeviceMemory& device);
  void make_segments();
  void drop_graphs();
  Status start_stream();
  Status upload();
  Status download();
  /// The first run: names the step that fails.
  Status run_checked(const GantryKernelHost* host);
  Status run_host_step(size_t step, const GantryKernelHost* host, bool& pending);
  Status replay(const GantryKernelHost* host);
  Status synchronize(const std::string& what);
  /// Everything that the second run on needs.
  Status make_ready(const GantryKernelHost* host);
  Status capture(Segment& segment, bool timed, GraphExec& graph);
  Status prepare_timing();
  Status queue_timed(Segment& segment);
  Status device_failure(size_t step, ResultCode code) const;

  std::shared_ptr<const Program> program_;
  std::shared_ptr<const Device> device_;
  Stream stream_ = nullptr;
  Plan plan_;
  std::vector<Segment> segments_;
  std::vector<Transfer> inputs_, outputs_;
  Memory io_{Memory::Place::kDevice};
  Memory staging_{Memory::Place::kPinnedHost};
  Memory workspace_{Memory::Place::kDevice};
  Memory host_workspace_{Memory::Place::kPinnedHost};
  Memory flush_{Memory::Place::kDevice};
  uint64_t workspace_bytes_ = 0, io_bytes_ = 0;
  std::vector<Event> step_ends_;  ///< of timed runs
  Event first_ = nullptr, last_ = nullptr;
  std::string graph_name_;
  StepLabel graph_label_;
  bool checked_ = false;
  bool captured_ = false;
  unsigned char flush_value_ = 0;
};

}  // namespace gantry::runtime::cuda
