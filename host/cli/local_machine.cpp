#include <sys/utsname.h>

#include <fstream>

#include "device_runtime/src/benchmark.h"
#include "device_runtime/src/cpu_info.h"
#include "device_runtime/src/dim_program.h"
#include "device_runtime/src/gpu_info.h"
#include "device_runtime/src/session.h"
#include "gantry/runtime.h"
#include "host/cli/machine.h"
#include "host/support/error.h"
#include "module_generated.h"

namespace gantry::cli {
namespace {

/// Throws a failed status of the runtime as the host's error.
void check(const runtime::Status& status) {
  switch (status.code()) {
    case GANTRY_OK:
      return;
    case GANTRY_KERNEL_FAILED:
    case GANTRY_OUT_OF_MEMORY:
      throw Error(ErrorKind::kBoard, status.message());
    case GANTRY_INTERNAL:
      throw Error(ErrorKind::kInternal, status.message());
    default:
      throw Error(ErrorKind::kUser, status.message());
  }
}

template <typename T>
T take(runtime::Result<T> result) {
  check(result.status());
  return std::move(result.value());
}

uint64_t available_memory() {
  std::ifstream file("/proc/meminfo");
  std::string name, rest;
  uint64_t kilobytes = 0;
  while (file >> name >> kilobytes) {
    if (name == "MemAvailable:") return kilobytes * 1024;
    std::getline(file, rest);
  }
  return 0;
}

rpc::BoardInfo describe_this_machine() {
  const runtime::CpuInfo& cpu = runtime::cpu_info();
  rpc::BoardInfo info;
  info.version = gantry_version();
  utsname system{};
  if (uname(&system) == 0) {
    info.hostname = system.nodename;
    info.system = std::string(system.sysname) + " " + system.release + " " + system.machine;
  }
  info.architecture = cpu.architecture;
  info.cpu = cpu.brand;
  info.llvm_cpu = cpu.llvm_name;
  info.features = cpu.features;
  info.logical_cpus = static_cast<uint32_t>(cpu.allowed_cpus.size());
  info.physical_cores = static_cast<uint32_t>(cpu.physical_cores);
  info.memory_bytes = cpu.memory_bytes;
  info.memory_available_bytes = available_memory();
  info.session_memory_bytes = cpu.memory_bytes;
  return info;
}

void add_gpus(rpc::BoardInfo& info) {
  const runtime::GpuList list = runtime::describe_gpus();
  info.gpu_problem = list.problem;
  for (const runtime::GpuInfo& gpu : list.gpus) {
    info.gpus.push_back({gpu.name, static_cast<uint32_t>(gpu.compute_capability),
                         static_cast<uint32_t>(gpu.multiprocessors), static_cast<uint32_t>(gpu.clock_mhz),
                         gpu.memory_bytes, gpu.memory_free_bytes, gpu.l2_bytes,
                         static_cast<uint32_t>(gpu.cuda_version), gpu.driver});
  }
}

std::vector<rpc::TensorDescription> describe(const module_format::Manifest& manifest, bool inputs) {
  std::vector<rpc::TensorDescription> result;
  for (const auto* tensor : inputs ? *manifest.inputs() : *manifest.outputs()) {
    rpc::TensorDescription description;
    description.name = tensor->name()->str();
    const DLDataType type = runtime::to_dlpack(static_cast<runtime::ElementType>(tensor->dtype()));
    description.type = {type.code, type.bits};
    for (uint32_t dim : *tensor->shape()) {
      description.shape.push_back(runtime::constant_dim(*manifest.dim_exprs()->Get(dim)).value_or(-1));
    }
    result.push_back(std::move(description));
  }
  return result;
}

rpc::CpuState convert(const runtime::CpuState& state) {
  rpc::CpuState result;
  if (state.frequency_mhz) result.frequency_mhz.push_back(*state.frequency_mhz);
  result.temperature_celsius = state.temperature_c;
  if (state.throttle_count) result.throttle_events = static_cast<uint64_t>(*state.throttle_count);
  result.governor = state.governor;
  return result;
}

rpc::GpuState convert(const runtime::GpuState& state) {
  return {state.clock_mhz, state.temperature_c, state.power_watts, state.throttled};
}

rpc::KernelTiming convert(const runtime::KernelProfile& kernel) {
  return {kernel.kernel,          kernel.origin, static_cast<uint64_t>(kernel.calls),
          kernel.median_ns / 1e6, kernel.flops,  kernel.bytes};
}

class LocalMachine : public Machine {
 public:
  std::string label() const override { return "this machine"; }
  const rpc::BoardInfo& info() override { return info_; }
  const rpc::BoardInfo& info_with_gpus() override {
    if (info_.gpus.empty()) add_gpus(info_);
    return info_;
  }

  const rpc::LoadedModule& load(const runtime::SharedBytes& bytes, const rpc::LoadOptions& options,
                                const rpc::UploadProgress&) override {
    session_.reset();
    const runtime::DeviceName device = take(runtime::parse_device(options.device));
    auto contents = take(runtime::ModuleContents::from_bytes(bytes));
    auto module = take(runtime::Module::create(std::move(contents), device));
    loaded_.target = module->variant().target()->str();
    loaded_.inputs = describe(module->manifest(), true);
    loaded_.outputs = describe(module->manifest(), false);
    runtime::SessionOptions session_options;
    session_options.threads = options.threads;
    session_options.cpus.assign(options.cpus.begin(), options.cpus.end());
    session_ = take(runtime::Session::create(module, session_options));
    return loaded_;
  }

  void set_input(int index, const HostTensor& tensor) override {
    DLTensor view{};
    view.data = const_cast<std::byte*>(tensor.bytes.data());
    view.device = {kDLCPU, 0};
    view.ndim = static_cast<int32_t>(tensor.shape.size());
    view.dtype = {tensor.type.code, tensor.type.bits, 1};
    view.shape = const_cast<int64_t*>(tensor.shape.data());
    check(session_->set_input(index, view, false));
  }

  std::chrono::nanoseconds run() override {
    check(session_->prepare());
    const auto start = std::chrono::steady_clock::now();
    check(session_->run());
    return std::chrono::steady_clock::now() - start;
  }

  HostTensor output(int index) override {
    const runtime::OutputView view = take(session_->output(index));
    const DLDataType type = runtime::to_dlpack(view.type);
    HostTensor tensor;
    tensor.type = {type.code, type.bits};
    tensor.shape.assign(view.shape.begin(), view.shape.end());
    tensor.bytes.assign(view.data, view.data + view.bytes);
    return tensor;
  }

  rpc::BenchmarkResult benchmark(const rpc::BenchmarkOptions& options,
                                 const rpc::BenchmarkProgress& progress) override {
    const auto measured = take(runtime::run_benchmark(*session_, runtime_options(options, progress)));
    rpc::BenchmarkResult result;
    result.samples_ms = measured.samples_ms;
    result.number = static_cast<uint32_t>(measured.number);
    const runtime::Statistics& s = measured.statistics;
    result.statistics = {s.min, s.median, s.mean, s.p90, s.p99, s.stddev};
    for (const auto& kernel : measured.kernels) result.kernels.push_back(convert(kernel));
    result.workspace_bytes = measured.memory.workspace_bytes;
    result.weights_bytes = measured.memory.weights_bytes;
    result.io_bytes = measured.memory.io_bytes;
    result.device_workspace_bytes = measured.memory.device_workspace_bytes;
    result.device_weights_bytes = measured.memory.device_weights_bytes;
    result.device_io_bytes = measured.memory.device_io_bytes;
    result.gpu_before = convert(measured.gpu_before);
    result.gpu_after = convert(measured.gpu_after);
    result.peak_resident_bytes = measured.resident_bytes;
    result.threads = measured.threads;
    result.target = loaded_.target;
    result.cpu_before = convert(measured.before);
    result.cpu_after = convert(measured.after);
    result.board = info_;
    return result;
  }

 private:
  static runtime::BenchmarkOptions runtime_options(const rpc::BenchmarkOptions& options,
                                                   const rpc::BenchmarkProgress& progress) {
    runtime::BenchmarkOptions result;
    result.warmup = static_cast<int>(options.warmup);
    result.number = static_cast<int>(options.number);
    result.repeat = static_cast<int>(options.repeat);
    result.min_repeat_ms = options.min_repeat_ms;
    result.cooldown_ms = options.cooldown_ms;
    result.flush_cache = options.flush_cache;
    result.profile = options.profile;
    result.deadline_ms = static_cast<double>(options.deadline.count());
    if (progress) {
      result.progress = [progress, repeat = options.repeat](double done) {
        progress(static_cast<uint32_t>(done * repeat), repeat);
        return true;
      };
    }
    return result;
  }

  rpc::BoardInfo info_ = describe_this_machine();
  rpc::LoadedModule loaded_;
  std::unique_ptr<runtime::Session> session_;
};

}  // namespace

std::unique_ptr<Machine> this_machine() {
  return std::make_unique<LocalMachine>();
}

}  // namespace gantry::cli
