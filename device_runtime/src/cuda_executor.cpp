#include "device_runtime/src/cuda_executor.h"

#include <string.h>

namespace gantry::runtime::cuda {
namespace {

constexpr uint64_t kTransferAlignment = 256;

/// Says in current_step what this thread waits for, while it lives.
class Executing {
 public:
  explicit Executing(const StepLabel* label) { current_step.store(label, std::memory_order_relaxed); }
  ~Executing() { current_step.store(nullptr, std::memory_order_relaxed); }
};

/// Which of `count` inputs (outputs) of the variant have a buffer on the GPU.
std::vector<uint8_t> on_gpu(const module_format::Variant& variant, module_format::BufferKind kind,
                         size_t count) {
  std::vector<uint8_t> result(count, false);
  for (const auto* buffer : *variant.buffers()) {
    if (buffer->kind() == kind && buffer->device() == module_format::Device::Cuda)
      result[buffer->index()] = true;
  }
  return result;
}

}  // namespace

CudaExecutor::CudaExecutor(std::shared_ptr<const Program> program)
    : program_(std::move(program)), device_(program_->device()) {}

CudaExecutor::~CudaExecutor() {
  if (!device_->enter().ok()) return;
  const Driver& driver = device_->driver();
  if (stream_ != nullptr) driver.synchronize_stream(stream_);
  drop_graphs();
  for (Event event : step_ends_) driver.destroy_event(event);
  for (Event event : {first_, last_}) {
    if (event != nullptr) driver.destroy_event(event);
  }
  if (stream_ != nullptr) driver.destroy_stream(stream_);
}

void CudaExecutor::drop_graphs() {
  const Driver& driver = device_->driver();
  for (Segment& segment : segments_) {
    if (segment.graph != nullptr) driver.destroy_graph_exec(segment.graph);
    if (segment.timed_graph != nullptr) driver.destroy_graph_exec(segment.timed_graph);
    if (segment.start != nullptr) driver.destroy_event(segment.start);
  }
  segments_.clear();
  captured_ = false;
}

Status CudaExecutor::start_stream() {
  if (stream_ != nullptr) return Status();
  const Driver& driver = device_->driver();
  GANTRY_TRY(device_->check(driver.create_stream(&stream_, kStreamNonBlocking), "making a stream"));
  GANTRY_TRY(device_->check(driver.create_event(&first_, kEventDefault), "making an event"));
  return device_->check(driver.create_event(&last_, kEventDefault), "making an event");
}

Result<std::byte*> CudaExecutor::reserve_workspace(uint64_t bytes) {
  GANTRY_TRY(device_->enter());
  GANTRY_TRY(host_workspace_.reserve(device_, bytes, "the CPU's part of the model's workspace"));
  return host_workspace_.host_address();
}

Status CudaExecutor::place_transfers(const Module& module, const PlanMemory& memory, DeviceMemory& device) {
  uint64_t total = 0;
  const auto place = [&](module_format::BufferKind kind, const std::vector<PlanMemory::Range>& ranges,
                         std::vector<Transfer>& transfers) {
    transfers.clear();
    const std::vector<uint8_t> wanted = on_gpu(module.variant(), kind, ranges.size());
    for (uint32_t i = 0; i < ranges.size(); ++i) {
      Transfer& transfer = transfers.emplace_back();
      transfer.host = ranges[i].data;
      if (!wanted[i]) continue;
      transfer.offset = total;
      transfer.bytes = ranges[i].bytes;
      total += (transfer.bytes + kTransferAlignment - 1) / kTransferAlignment * kTransferAlignment;
    }
  };
  place(module_format::BufferKind::Input, memory.inputs, inputs_);
  place(module_format::BufferKind::Output, memory.outputs, outputs_);
  GANTRY_TRY(io_.reserve(device_, total, "the model's inputs and outputs"));
  GANTRY_TRY(staging_.reserve(device_, total, "staging the model's inputs and outputs"));
  for (const Transfer& transfer : inputs_)
    device.inputs.push_back({io_.device_address() + transfer.offset, transfer.bytes});
  for (const Transfer& transfer : outputs_)
    device.outputs.push_back({io_.device_address() + transfer.offset, transfer.bytes});
  io_bytes_ = total;
  return Status();
}

void CudaExecutor::make_segments() {
  uint32_t begin = 0;
  const auto count = static_cast<uint32_t>(plan_.step_count());
  while (begin < count) {
    uint32_t end = begin + 1;
    while (plan_.is_capturable(begin) && end < count && plan_.is_capturable(end)) ++end;
    segments_.push_back({begin, end});
    begin = end;
  }
  graph_name_ = "one of " + std::to_string(count) + " steps, replayed as a CUDA graph";
  graph_label_.symbol = graph_name_.c_str();
  graph_label_.index = -1;
}

Status CudaExecutor::bind(const Module& module, const DimValues& dims, const PlanMemory& memory) {
  GANTRY_TRY(device_->enter());
  GANTRY_TRY(start_stream());
  drop_graphs();
  checked_ = false;
  describe_steps(module, dims);
  Result<uint64_t> workspace = dims.get_size(module.variant().gpu_workspace_bytes());
  if (!workspace.ok()) return workspace.status();
  DeviceMemory device;
  GANTRY_TRY(place_transfers(module, memory, device));
  GANTRY_TRY(workspace_.reserve(device_, *workspace, "the model's workspace"));
  workspace_bytes_ = *workspace;
  device.workspace = {workspace_.device_address(), *workspace};
  GANTRY_TRY(plan_.bind(module, dims, memory, device));
  for (size_t i = 0; i < plan_.step_count(); ++i) {
    if (plan_.kind(i) != Plan::Kind::kLaunches && plan_.kind(i) != Plan::Kind::kHostKernel)
      work_[i].bytes = 2.0 * static_cast<double>(plan_.copy_bytes(i));
  }
  make_segments();
  return Status();
}

void CudaExecutor::move_input(uint32_t input, std::byte* data) {
  if (input < inputs_.size()) inputs_[input].host = data;
  plan_.move_input(input, data);
}

Status CudaExecutor::device_failure(size_t step, ResultCode code) const {
  return device_->check(code, step_text(labels_[step]) + " failed on the GPU");
}

Status CudaExecutor::synchronize(const std::string& what) {
  return device_->check(device_->driver().synchronize_stream(stream_), what);
}

Status CudaExecutor::upload() {
  const Driver& driver = device_->driver();
  for (const Transfer& input : inputs_) {
    if (input.bytes == 0) continue;
    std::byte* staged = staging_.host_address() + input.offset;
    memcpy(staged, input.host, input.bytes);
    GANTRY_TRY(device_->check(
        driver.copy_to_device(io_.device_address() + input.offset, staged, input.bytes, stream_),
        "uploading an input"));
  }
  return Status();
}

Status CudaExecutor::download() {
  const Driver& driver = device_->driver();
  for (const Transfer& output : outputs_) {
    if (output.bytes == 0) continue;
    GANTRY_TRY(
        device_->check(driver.copy_to_host(staging_.host_address() + output.offset,
                                           io_.device_address() + output.offset, output.bytes, stream_),
                       "downloading an output"));
  }
  const Executing executing(&graph_label_);
  GANTRY_TRY(synchronize("one of the model's kernels failed on the GPU"));
  for (const Transfer& output : outputs_) {
    if (output.bytes > 0) memcpy(output.host, staging_.host_address() + output.offset, output.bytes);
  }
  return Status();
}

Status CudaExecutor::run_host_step(size_t step, const GantryKernelHost* host, bool& pending) {
  if (pending) {
    const Executing executing(&graph_label_);
    GANTRY_TRY(synchronize("one of the kernels before step " + std::to_string(step) + " failed on the GPU"));
  }
  pending = false;
  const Executing executing(&labels_[step]);
  const int32_t code = plan_.run_on_host(step, host);
  return code == 0 ? Status() : step_failure(step, code);
}

Status CudaExecutor::run_checked(const GantryKernelHost* host) {
  GANTRY_TRY(upload());
  GANTRY_TRY(synchronize("uploading the inputs"));
  for (size_t i = 0; i < plan_.step_count(); ++i) {
    if (plan_.is_on_host(i)) {
      bool pending = false;
      GANTRY_TRY(run_host_step(i, host, pending));
      continue;
    }
    const Executing executing(&labels_[i]);
    ResultCode code = plan_.enqueue(i, device_->driver(), stream_);
    if (code == 0) code = device_->driver().synchronize_stream(stream_);
    if (code != 0) return device_failure(i, code);
  }
  GANTRY_TRY(download());
  checked_ = true;
  return Status();
}

Status CudaExecutor::replay(const GantryKernelHost* host) {
  const Driver& driver = device_->driver();
  bool pending = true;
  for (const Segment& segment : segments_) {
    if (segment.graph != nullptr) {
      GANTRY_TRY(
          device_->check(driver.launch_graph(segment.graph, stream_), "replaying the model's kernels"));
      pending = true;
      continue;
    }
    for (size_t i = segment.begin; i < segment.end; ++i) {
      if (plan_.is_on_host(i)) {
        GANTRY_TRY(run_host_step(i, host, pending));
        continue;
      }
      pending = true;
      if (const ResultCode code = plan_.enqueue(i, driver, stream_); code != 0)
        return device_failure(i, code);
    }
  }
  return Status();
}

/// Records a segment's work. Where the driver cannot capture it, `graph` stays null: the steps are then
/// queued one by one, which is slower and otherwise the same.
Status CudaExecutor::capture(Segment& segment, bool timed, GraphExec& graph) {
  const Driver& driver = device_->driver();
  if (!plan_.is_capturable(segment.begin)) return Status();
  GANTRY_TRY(
      device_->check(driver.begin_capture(stream_, kCaptureThreadLocal), "capturing the model's kernels"));
  ResultCode code = 0;
  if (timed) code = driver.record_event_with_flags(segment.start, stream_, kEventRecordExternal);
  for (size_t i = segment.begin; code == 0 && i < segment.end; ++i) {
    code = plan_.enqueue(i, driver, stream_);
    if (timed && code == 0)
      code = driver.record_event_with_flags(step_ends_[i], stream_, kEventRecordExternal);
  }
  Graph captured = nullptr;
  const ResultCode ended = driver.end_capture(stream_, &captured);
  if (code == 0 && ended == 0 && captured != nullptr) code = driver.instantiate_graph(&graph, captured, 0);
  if (captured != nullptr) driver.destroy_graph(captured);
  if (code != 0 || ended != 0) graph = nullptr;
  if (code == kErrorOutOfMemory) return device_->check(code, "a CUDA graph of the model");
  return Status();
}

Status CudaExecutor::make_ready(const GantryKernelHost* host) {
  if (!checked_) GANTRY_TRY(run_checked(host));
  if (captured_) return Status();
  for (Segment& segment : segments_) {
    // It is there already where memory ended at a later one in an earlier run.
    if (segment.graph == nullptr) GANTRY_TRY(capture(segment, false, segment.graph));
  }
  captured_ = true;
  return Status();
}

Status CudaExecutor::run(const GantryKernelHost* host) {
  GANTRY_TRY(device_->enter());
  if (!checked_) return run_checked(host);
  GANTRY_TRY(make_ready(host));
  GANTRY_TRY(upload());
  GANTRY_TRY(replay(host));
  return download();
}

Status CudaExecutor::run_repeatedly(const GantryKernelHost* host, int number, double& elapsed_ms) {
  GANTRY_TRY(device_->enter());
  GANTRY_TRY(make_ready(host));
  const Driver& driver = device_->driver();
  GANTRY_TRY(upload());
  GANTRY_TRY(device_->check(driver.record_event(first_, stream_), "timing"));
  for (int i = 0; i < number; ++i) GANTRY_TRY(replay(host));
  GANTRY_TRY(device_->check(driver.record_event(last_, stream_), "timing"));
  GANTRY_TRY(download());
  float milliseconds = 0;
  GANTRY_TRY(device_->check(driver.elapsed_ms(&milliseconds, first_, last_), "timing"));
  elapsed_ms = milliseconds;
  return Status();
}

Status CudaExecutor::prepare_timing() {
  const Driver& driver = device_->driver();
  while (step_ends_.size() < plan_.step_count()) {
    Event event = nullptr;
    GANTRY_TRY(device_->check(driver.create_event(&event, kEventDefault), "making an event"));
    step_ends_.push_back(event);
  }
  for (Segment& segment : segments_) {
    if (segment.start != nullptr) continue;
    GANTRY_TRY(device_->check(driver.create_event(&segment.start, kEventDefault), "making an event"));
    // In a graph the clock does not see what it costs the CPU to queue a kernel.
    GANTRY_TRY(capture(segment, true, segment.timed_graph));
  }
  return Status();
}

Status CudaExecutor::queue_timed(Segment& segment) {
  const Driver& driver = device_->driver();
  if (segment.timed_graph != nullptr)
    return device_->check(driver.launch_graph(segment.timed_graph, stream_), "replaying the model's kernels");
  GANTRY_TRY(device_->check(driver.record_event(segment.start, stream_), "timing"));
  for (size_t i = segment.begin; i < segment.end; ++i) {
    if (const ResultCode code = plan_.enqueue(i, driver, stream_); code != 0) return device_failure(i, code);
    GANTRY_TRY(device_->check(driver.record_event(step_ends_[i], stream_), "timing"));
  }
  return Status();
}

Status CudaExecutor::run_timed(const GantryKernelHost* host, std::span<int64_t> nanoseconds) {
  GANTRY_TRY(device_->enter());
  GANTRY_TRY(make_ready(host));
  GANTRY_TRY(prepare_timing());
  GANTRY_TRY(upload());
  std::vector<int64_t> times(plan_.step_count(), 0);
  for (Segment& segment : segments_) {
    if (!plan_.is_on_host(segment.begin)) {
      GANTRY_TRY(queue_timed(segment));
      continue;
    }
    GANTRY_TRY(synchronize("one of the model's kernels failed on the GPU"));
    bool pending = false;
    const int64_t before = now_ns();
    GANTRY_TRY(run_host_step(segment.begin, host, pending));
    times[segment.begin] = now_ns() - before;
  }
  GANTRY_TRY(download());
  for (const Segment& segment : segments_) {
    if (plan_.is_on_host(segment.begin)) continue;
    Event before = segment.start;
    for (size_t i = segment.begin; i < segment.end; ++i) {
      float milliseconds = 0;
      GANTRY_TRY(
          device_->check(device_->driver().elapsed_ms(&milliseconds, before, step_ends_[i]), "timing"));
      times[i] = static_cast<int64_t>(static_cast<double>(milliseconds) * 1e6);
      before = step_ends_[i];
    }
  }
  for (size_t i = 0; i < times.size() && i < nanoseconds.size(); ++i) nanoseconds[i] = times[i];
  return Status();
}

Status CudaExecutor::run_traced(const GantryKernelHost* host, int, RunTimeline& timeline) {
  std::vector<int64_t> nanoseconds(plan_.step_count());
  GANTRY_TRY(run_timed(host, nanoseconds));
  timeline = RunTrace::one_after_another(nanoseconds, "GPU");
  return Status();
}

Status CudaExecutor::flush_caches() {
  GANTRY_TRY(device_->enter());
  const uint64_t bytes = 2 * device_->l2_bytes();
  GANTRY_TRY(flush_.reserve(device_, bytes, "flushing the GPU's cache"));
  GANTRY_TRY(device_->check(device_->driver().fill(flush_.device_address(), ++flush_value_, bytes, stream_),
                            "flushing the GPU's cache"));
  return synchronize("flushing the GPU's cache");
}

}  // namespace gantry::runtime::cuda
