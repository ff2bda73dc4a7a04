#include "device_runtime/src/gpu_info.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mutex>

#include "device_runtime/src/cuda_driver.h"
#include "device_runtime/src/executor.h"
#include "device_runtime/src/small_file.h"

#if !defined(GANTRY_NO_DLOPEN)
#include <dlfcn.h>
#endif

namespace gantry::runtime {
namespace {

constexpr size_t kMaxGpus = 16;

/// The kernel module's version, "" where it is not shown: "NVRM version: NVIDIA UNIX x86_64 Kernel Module
/// 550.54.14 …"
std::string kernel_driver_version() {
  const std::string text = read_small_file("/proc/driver/nvidia/version");
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find_first_of(" \n", at);
    const std::string word = text.substr(at, end == std::string::npos ? end : end - at);
    if (!word.empty() && word.find('.') != std::string::npos &&
        word.find_first_not_of("0123456789.") == std::string::npos)
      return word;
    if (end == std::string::npos) break;
    at = end + 1;
  }
  return "";
}

Result<GpuInfo> describe_gpu(const cuda::Driver& driver, int index) {
  cuda::DeviceHandle handle = 0;
  GANTRY_TRY(driver.check(driver.device(&handle, index), "opening the GPU"));
  const auto attribute = [&](int which) {
    int value = 0;
    driver.device_attribute(&value, which, handle);
    return value;
  };
  GpuInfo info;
  char name[256] = "";
  driver.device_name(name, sizeof name - 1, handle);
  info.name = name;
  info.compute_capability =
      10 * attribute(cuda::kAttributeCapabilityMajor) + attribute(cuda::kAttributeCapabilityMinor);
  info.multiprocessors = attribute(cuda::kAttributeMultiprocessors);
  info.clock_mhz = attribute(cuda::kAttributeClockRate) / 1000;
  info.l2_bytes = static_cast<uint64_t>(attribute(cuda::kAttributeL2Bytes));
  size_t bytes = 0;
  if (driver.device_memory(&bytes, handle) == 0) info.memory_bytes = bytes;
  driver.driver_version(&info.cuda_version);
  info.driver = kernel_driver_version();
  // What is free can only be asked within a context.
  cuda::Context context = nullptr;
  if (driver.retain_primary(&context, handle) == 0) {
    size_t free = 0, total = 0;
    if (driver.set_current(context) == 0 && driver.memory_info(&free, &total) == 0)
      info.memory_free_bytes = free;
    driver.release_primary(handle);
  }
  return info;
}

/// GpuList as a child writes it into a pipe.
struct FlatGpu {
  char name[256];
  char driver[64];
  int compute_capability, multiprocessors, clock_mhz, cuda_version;
  uint64_t memory_bytes, memory_free_bytes, l2_bytes;
};
struct FlatList {
  uint32_t count;
  char problem[1024];
  FlatGpu gpus[kMaxGpus];
};

void copy_text(char* to, size_t size, const std::string& from) {
  const size_t length = from.size() < size ? from.size() : size - 1;
  memcpy(to, from.data(), length);
  to[length] = 0;
}

void flatten(const GpuList& list, FlatList& flat) {
  copy_text(flat.problem, sizeof flat.problem, list.problem);
  for (const GpuInfo& gpu : list.gpus) {
    if (flat.count == kMaxGpus) break;
    FlatGpu& entry = flat.gpus[flat.count++];
    copy_text(entry.name, sizeof entry.name, gpu.name);
    copy_text(entry.driver, sizeof entry.driver, gpu.driver);
    entry.compute_capability = gpu.compute_capability;
    entry.multiprocessors = gpu.multiprocessors;
    entry.clock_mhz = gpu.clock_mhz;
    entry.cuda_version = gpu.cuda_version;
    entry.memory_bytes = gpu.memory_bytes;
    entry.memory_free_bytes = gpu.memory_free_bytes;
    entry.l2_bytes = gpu.l2_bytes;
  }
}

GpuList unflatten(const FlatList& flat) {
  GpuList list;
  list.problem.assign(flat.problem, strnlen(flat.problem, sizeof flat.problem));
  for (uint32_t i = 0; i < flat.count && i < kMaxGpus; ++i) {
    const FlatGpu& entry = flat.gpus[i];
    list.gpus.push_back({std::string(entry.name, strnlen(entry.name, sizeof entry.name)),
                         entry.compute_capability, entry.multiprocessors, entry.clock_mhz, entry.memory_bytes,
                         entry.memory_free_bytes, entry.l2_bytes, entry.cuda_version,
                         std::string(entry.driver, strnlen(entry.driver, sizeof entry.driver))});
  }
  return list;
}

/// Reads exactly `size` bytes before the deadline.
bool read_before(int fd, void* buffer, size_t size, int64_t deadline_ns) {
  size_t done = 0;
  while (done < size) {
    const int64_t left_ms = (deadline_ns - now_ns()) / 1'000'000;
    if (left_ms <= 0) return false;
    pollfd wait{fd, POLLIN, 0};
    if (poll(&wait, 1, static_cast<int>(left_ms)) <= 0) continue;
    const ssize_t count = read(fd, static_cast<char*>(buffer) + done, size - done);
    if (count <= 0) return false;
    done += static_cast<size_t>(count);
  }
  return true;
}

}  // namespace

GpuList describe_gpus() {
  GpuList list;
  Result<int> count = cuda::device_count();
  if (!count.ok()) {
    list.problem = count.status().message();
    return list;
  }
  for (int i = 0; i < *count; ++i) {
    Result<GpuInfo> info = describe_gpu(**cuda::driver(), i);
    if (info.ok()) {
      list.gpus.push_back(std::move(*info));
    } else {
      list.problem = info.status().message();
    }
  }
  return list;
}

GpuList describe_gpus_in_child(int timeout_ms) {
  int ends[2];
  if (pipe(ends) != 0) return {{}, "the system refuses a pipe"};
  const pid_t asker = getpid();
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != asker) _exit(0);
    close(ends[0]);
    signal(SIGPIPE, SIG_IGN);
    static FlatList flat;
    flatten(describe_gpus(), flat);
    const auto* bytes = reinterpret_cast<const char*>(&flat);
    size_t done = 0;
    while (done < sizeof flat) {
      const ssize_t count = write(ends[1], bytes + done, sizeof flat - done);
      if (count <= 0) break;
      done += static_cast<size_t>(count);
    }
    _exit(0);
  }
  close(ends[1]);
  if (child < 0) {
    close(ends[0]);
    return {{}, "the system refuses a process"};
  }
  auto flat = std::make_unique<FlatList>();
  const bool answered =
      read_before(ends[0], flat.get(), sizeof(FlatList), now_ns() + int64_t{timeout_ms} * 1'000'000);
  close(ends[0]);
  kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  if (answered) return unflatten(*flat);
  if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
    return {{}, std::string("NVIDIA's driver crashed: ") + strsignal(WTERMSIG(status))};
  return {{}, "NVIDIA's driver does not answer"};
}

#if defined(GANTRY_NO_DLOPEN)
GpuState read_gpu_state(const std::string&) {
  return {};
}
#else
namespace {

/// The management library's entry points; its ABI is documented and stable.
struct Management {
  using Handle = struct HandleTag*;
  int (*init)() = nullptr;
  int (*handle_by_bus_id)(const char*, Handle*) = nullptr;
  int (*temperature)(Handle, int sensor, unsigned*) = nullptr;
  int (*clock)(Handle, int type, unsigned*) = nullptr;
  int (*power)(Handle, unsigned* milliwatts) = nullptr;
  int (*throttle_reasons)(Handle, unsigned long long*) = nullptr;
  int (*energy)(Handle, unsigned long long* millijoules) = nullptr;
  bool usable = false;
};

const Management& management() {
  static const Management instance = [] {
    Management m;
    void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return m;
    const auto find = [&](auto& function, const char* name) {
      *reinterpret_cast<void**>(&function) = dlsym(library, name);
    };
    find(m.init, "nvmlInit_v2");
    find(m.handle_by_bus_id, "nvmlDeviceGetHandleByPciBusId_v2");
    find(m.temperature, "nvmlDeviceGetTemperature");
    find(m.clock, "nvmlDeviceGetClockInfo");
    find(m.power, "nvmlDeviceGetPowerUsage");
    find(m.throttle_reasons, "nvmlDeviceGetCurrentClocksThrottleReasons");
    find(m.energy, "nvmlDeviceGetTotalEnergyConsumption");
    m.usable = m.init != nullptr && m.handle_by_bus_id != nullptr && m.init() == 0;
    return m;
  }();
  return instance;
}

}  // namespace

GpuState read_gpu_state(const std::string& bus_id) {
  constexpr int kGpuSensor = 0, kMultiprocessorClock = 1;
  // Power cap, hardware slowdown, thermal slowdowns, power brake.
  constexpr unsigned long long kThrottling = 0x4 | 0x8 | 0x20 | 0x40 | 0x80;
  GpuState state;
  const Management& m = management();
  Management::Handle handle = nullptr;
  if (!m.usable || m.handle_by_bus_id(bus_id.c_str(), &handle) != 0) return state;
  unsigned value = 0;
  if (m.clock != nullptr && m.clock(handle, kMultiprocessorClock, &value) == 0) state.clock_mhz = value;
  if (m.temperature != nullptr && m.temperature(handle, kGpuSensor, &value) == 0) state.temperature_c = value;
  if (m.power != nullptr && m.power(handle, &value) == 0) state.power_watts = value * 1e-3;
  unsigned long long reasons = 0;
  if (m.throttle_reasons != nullptr && m.throttle_reasons(handle, &reasons) == 0)
    state.throttled = (reasons & kThrottling) != 0;
  unsigned long long millijoules = 0;
  if (m.energy != nullptr && m.energy(handle, &millijoules) == 0)
    state.energy_j = static_cast<double>(millijoules) * 1e-3;
  return state;
}
#endif

}  // namespace gantry::runtime
