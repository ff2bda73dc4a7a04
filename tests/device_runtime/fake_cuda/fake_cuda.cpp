#include "tests/device_runtime/fake_cuda/fake_cuda.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using Work = std::function<int()>;

constexpr int kInvalidValue = 1, kOutOfMemory = 2, kNotInitialised = 3, kNoDevice = 100, kInvalidImage = 200,
              kInvalidPtx = 218, kNotFound = 500, kIllegalAddress = 700, kCaptureUnsupported = 900;

struct FakeEvent {
  double ms = -1;
};
struct FakeStream {
  std::vector<Work> queue;
  std::vector<Work>* capture = nullptr;
};
struct FakeGraph {
  std::vector<Work> nodes;
};

/// Parameters of a launch as the driver hands them to a kernel.
struct Arguments {
  std::vector<uint64_t> values;
  template <typename T>
  T* pointer(size_t i) const {
    return reinterpret_cast<T*>(values[i]);
  }
  int64_t integer(size_t i) const { return static_cast<int64_t>(values[i]); }
};
struct FakeKernel {
  const char* name;
  size_t parameters;
  /// Of one thread; `index`: over all blocks, `block`: number of the block, `threads`: of a block.
  void (*run)(const Arguments&, int64_t index, int64_t block, int64_t threads);
};

/// What benchmarks/gpu's chains of products add up to.
template <int Step>
void chain(const Arguments& a, int64_t i, int64_t, int64_t) {
  a.pointer<float>(0)[i] = static_cast<float>(a.integer(1) * Step);
}

const FakeKernel kKernels[] = {
    {"add_one", 3,
     [](const Arguments& a, int64_t i, int64_t, int64_t) {
       if (i < a.integer(2)) a.pointer<float>(1)[i] = a.pointer<float>(0)[i] + 1;
     }},
    {"scale", 4,
     [](const Arguments& a, int64_t i, int64_t, int64_t) {
       if (i < a.integer(3)) a.pointer<float>(2)[i] = a.pointer<float>(0)[i] * a.pointer<float>(1)[i];
     }},
    {"accumulate", 4,
     [](const Arguments& a, int64_t i, int64_t, int64_t) {
       if (i < a.integer(2))
         a.pointer<float>(1)[i] += a.pointer<float>(0)[i] * static_cast<float>(a.integer(3));
     }},
    {"fill_blocks", 2,
     [](const Arguments& a, int64_t, int64_t block, int64_t threads) {
       if (block < a.integer(1)) a.pointer<float>(0)[block] = static_cast<float>(threads);
     }},
    {"zero", 2,
     [](const Arguments& a, int64_t i, int64_t, int64_t) {
       if (i < a.integer(1)) a.pointer<float>(0)[i] = 0;
     }},
    {"copy", 4,
     [](const Arguments& a, int64_t i, int64_t, int64_t) {
       for (; i < a.integer(2); i += a.integer(3))
         std::memcpy(a.pointer<char>(1) + 16 * i, a.pointer<char>(0) + 16 * i, 16);
     }},
    {"chain_fp32", 3, chain<8>},
    {"chain_tf32", 3, chain<64>},
    {"chain_fp16", 3, chain<128>},
    {"chain_bf16", 3, chain<128>},
};

struct State {
  std::mutex mutex;
  bool initialised = false;
  int devices = 1, version = 12040, capability = 80;
  uint64_t memory = uint64_t{1} << 30, fault_at = 0, hang_at = 0, most_graphs = UINT64_MAX;
  bool no_capture = false;
  int dead = 0;  // code of the fault that killed the context
  FakeCudaCounters counters{};
  std::map<uint64_t, uint64_t> allocations;
};
State& state() {
  static State instance;
  return instance;
}

uint64_t setting(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

void read_settings() {
  State& s = state();
  s.devices = static_cast<int>(setting("FAKE_CUDA_DEVICES", 1));
  s.version = static_cast<int>(setting("FAKE_CUDA_VERSION", 12040));
  s.capability = static_cast<int>(setting("FAKE_CUDA_CAPABILITY", 80));
  s.memory = setting("FAKE_CUDA_MEMORY", uint64_t{1} << 30);
  s.fault_at = setting("FAKE_CUDA_FAULT", 0);
  s.hang_at = setting("FAKE_CUDA_HANG", 0);
  s.most_graphs = setting("FAKE_CUDA_GRAPHS", UINT64_MAX);
  s.no_capture = setting("FAKE_CUDA_NO_CAPTURE", 0) != 0;
}

double now_ms() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

FakeStream& default_stream() {
  static FakeStream stream;
  return stream;
}

/// Appends to the stream, or to the graph that it is captured into.
int enqueue(void* handle, Work work) {
  if (state().dead != 0) return state().dead;
  FakeStream& stream = handle == nullptr ? default_stream() : *static_cast<FakeStream*>(handle);
  (stream.capture != nullptr ? *stream.capture : stream.queue).push_back(std::move(work));
  return 0;
}

bool capturing(void* handle) {
  return handle != nullptr && static_cast<FakeStream*>(handle)->capture != nullptr;
}

int drain(FakeStream& stream) {
  State& s = state();
  std::vector<Work> queue;
  queue.swap(stream.queue);
  for (const Work& work : queue) {
    if (s.dead != 0) break;
    if (const int code = work(); code != 0) s.dead = code;
  }
  return s.dead;
}

int execute(const FakeKernel& kernel, const Arguments& arguments, int64_t blocks, int64_t threads) {
  State& s = state();
  ++s.counters.kernels;
  if (s.counters.kernels == s.fault_at) return kIllegalAddress;
  if (std::strcmp(kernel.name, "scale") == 0 && arguments.integer(3) > 0 &&
      arguments.pointer<float>(0)[0] < -1000)
    return kIllegalAddress;
  if (std::strcmp(kernel.name, "add_one") == 0 && arguments.integer(2) > 0 &&
      arguments.pointer<float>(0)[0] > 1000000)
    s.hang_at = s.counters.kernels;
  while (s.counters.kernels == s.hang_at) ::usleep(1000);
  for (int64_t block = 0; block < blocks; ++block) {
    for (int64_t thread = 0; thread < threads; ++thread)
      kernel.run(arguments, block * threads + thread, block, threads);
  }
  return 0;
}

}  // namespace

EXPORT FakeCudaCounters fake_cuda_counters() {
  return state().counters;
}

EXPORT int cuInit(unsigned) {
  read_settings();
  while (setting("FAKE_CUDA_SILENT", 0) != 0) ::usleep(1000);
  state().initialised = true;
  return state().devices == 0 ? kNoDevice : 0;
}
EXPORT int cuDriverGetVersion(int* version) {
  read_settings();
  *version = state().version;
  return 0;
}
EXPORT int cuGetErrorName(int code, const char** name) {
  switch (code) {
    case kOutOfMemory:
      *name = "CUDA_ERROR_OUT_OF_MEMORY";
      return 0;
    case kInvalidPtx:
      *name = "CUDA_ERROR_INVALID_PTX";
      return 0;
    case kInvalidImage:
      *name = "CUDA_ERROR_INVALID_IMAGE";
      return 0;
    case kIllegalAddress:
      *name = "CUDA_ERROR_ILLEGAL_ADDRESS";
      return 0;
    default:
      *name = "CUDA_ERROR";
      return 0;
  }
}
EXPORT int cuGetErrorString(int code, const char** text) {
  *text = code == kIllegalAddress ? "an illegal memory access was encountered" : "the call failed";
  return 0;
}
EXPORT int cuDeviceGetCount(int* count) {
  if (!state().initialised) return kNotInitialised;
  *count = state().devices;
  return 0;
}
EXPORT int cuDeviceGet(int* device, int index) {
  *device = index;
  return index < state().devices ? 0 : 101;
}
EXPORT int cuDeviceGetName(char* name, int size, int device) {
  std::snprintf(name, static_cast<size_t>(size), "Fake GPU %d", device);
  return 0;
}
EXPORT int cuDeviceGetAttribute(int* value, int attribute, int) {
  static const std::map<int, int> values = {{1, 1024},     {5, 2147483647}, {6, 65535},   {7, 65535},
                                            {13, 1410000}, {16, 108},       {38, 1 << 20}};
  if (attribute == 75)
    *value = state().capability / 10;
  else if (attribute == 76)
    *value = state().capability % 10;
  else if (values.count(attribute))
    *value = values.at(attribute);
  else
    return kInvalidValue;
  return 0;
}
EXPORT int cuDeviceTotalMem_v2(size_t* bytes, int) {
  *bytes = state().memory;
  return 0;
}
EXPORT int cuDeviceGetPCIBusId(char* id, int size, int) {
  std::snprintf(id, static_cast<size_t>(size), "0000:01:00.0");
  return 0;
}
EXPORT int cuDevicePrimaryCtxRetain(void** context, int) {
  static int dummy;
  *context = &dummy;
  return state().dead;
}
EXPORT int cuDevicePrimaryCtxRelease_v2(int) {
  return 0;
}
EXPORT int cuCtxSetCurrent(void*) {
  return state().dead;
}
EXPORT int cuMemGetInfo_v2(size_t* free, size_t* total) {
  *total = state().memory;
  *free = state().memory - state().counters.allocated_bytes;
  return 0;
}
EXPORT int cuMemAlloc_v2(uint64_t* address, size_t bytes) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (s.dead != 0) return s.dead;
  if (bytes == 0) return kInvalidValue;
  if (bytes > s.memory - s.counters.allocated_bytes) return kOutOfMemory;
  void* data = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(data, 0xa5, bytes);
  *address = reinterpret_cast<uint64_t>(data);
  s.allocations[*address] = bytes;
  s.counters.allocated_bytes += bytes;
  return 0;
}
EXPORT int cuMemFree_v2(uint64_t address) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const auto found = s.allocations.find(address);
  if (found == s.allocations.end()) return kInvalidValue;
  s.counters.allocated_bytes -= found->second;
  s.allocations.erase(found);
  std::free(reinterpret_cast<void*>(address));
  return 0;
}
EXPORT int cuMemHostAlloc(void** data, size_t bytes, unsigned) {
  *data = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  return *data == nullptr ? kOutOfMemory : 0;
}
EXPORT int cuMemFreeHost(void* data) {
  std::free(data);
  return 0;
}
EXPORT int cuMemcpyHtoDAsync_v2(uint64_t target, const void* source, size_t bytes, void* stream) {
  if (!capturing(stream)) {
    ++state().counters.uploads;
    state().counters.uploaded_bytes += bytes;
  }
  return enqueue(stream, [=] {
    std::memcpy(reinterpret_cast<void*>(target), source, bytes);
    return 0;
  });
}
EXPORT int cuMemcpyDtoHAsync_v2(void* target, uint64_t source, size_t bytes, void* stream) {
  return enqueue(stream, [=] {
    std::memcpy(target, reinterpret_cast<const void*>(source), bytes);
    return 0;
  });
}
EXPORT int cuMemcpyDtoDAsync_v2(uint64_t target, uint64_t source, size_t bytes, void* stream) {
  return cuMemcpyDtoHAsync_v2(reinterpret_cast<void*>(target), source, bytes, stream);
}
EXPORT int cuMemsetD8Async(uint64_t target, unsigned char value, size_t bytes, void* stream) {
  return enqueue(stream, [=] {
    std::memset(reinterpret_cast<void*>(target), value, bytes);
    return 0;
  });
}
EXPORT int cuStreamCreate(void** stream, unsigned) {
  *stream = new FakeStream;
  return 0;
}
EXPORT int cuStreamDestroy_v2(void* stream) {
  delete static_cast<FakeStream*>(stream);
  return 0;
}
EXPORT int cuStreamSynchronize(void* stream) {
  return drain(stream == nullptr ? default_stream() : *static_cast<FakeStream*>(stream));
}
EXPORT int cuStreamBeginCapture_v2(void* stream, int) {
  if (state().dead != 0) return state().dead;
  static_cast<FakeStream*>(stream)->capture = new std::vector<Work>;
  return 0;
}
EXPORT int cuStreamEndCapture(void* stream, void** graph) {
  FakeStream& s = *static_cast<FakeStream*>(stream);
  auto* captured = new FakeGraph{std::move(*s.capture)};
  delete s.capture;
  s.capture = nullptr;
  *graph = captured;
  if (!state().no_capture) return 0;
  delete captured;
  *graph = nullptr;
  return kCaptureUnsupported;
}
EXPORT int cuGraphInstantiateWithFlags(void** exec, void* graph, unsigned long long) {
  State& s = state();
  if (s.counters.graphs >= s.most_graphs) return kOutOfMemory;
  ++s.counters.graphs;
  *exec = new FakeGraph(*static_cast<FakeGraph*>(graph));
  return 0;
}
EXPORT int cuGraphLaunch(void* exec, void* stream) {
  ++state().counters.graph_launches;
  for (const Work& work : static_cast<FakeGraph*>(exec)->nodes) {
    if (const int code = enqueue(stream, work); code != 0) return code;
  }
  return 0;
}
EXPORT int cuGraphExecDestroy(void* exec) {
  --state().counters.graphs;
  delete static_cast<FakeGraph*>(exec);
  return 0;
}
EXPORT int cuGraphDestroy(void* graph) {
  delete static_cast<FakeGraph*>(graph);
  return 0;
}
EXPORT int cuEventCreate(void** event, unsigned) {
  *event = new FakeEvent;
  return 0;
}
EXPORT int cuEventDestroy_v2(void* event) {
  delete static_cast<FakeEvent*>(event);
  return 0;
}
EXPORT int cuEventRecordWithFlags(void* event, void* stream, unsigned flags) {
  // Without the flag a captured record is an edge between nodes, not a time.
  if (capturing(stream) && flags == 0) return kInvalidValue;
  return enqueue(stream, [=] {
    static_cast<FakeEvent*>(event)->ms = now_ms();
    return 0;
  });
}
EXPORT int cuEventRecord(void* event, void* stream) {
  return cuEventRecordWithFlags(event, stream, 0);
}
EXPORT int cuEventSynchronize(void*) {
  return state().dead;
}
EXPORT int cuEventElapsedTime(float* ms, void* start, void* end) {
  const double from = static_cast<FakeEvent*>(start)->ms, to = static_cast<FakeEvent*>(end)->ms;
  if (from < 0 || to < 0) return kInvalidValue;
  *ms = static_cast<float>(to - from);
  return state().dead;
}
EXPORT int cuModuleLoadDataEx(void** module, const void* image, unsigned count, int* options, void** values) {
  const std::string text(static_cast<const char*>(image));
  if (text.rfind("\x7f"
                 "ELF",
                 0) == 0)
    return kInvalidImage;  // it has no assembled code for its kernels
  if (text.find("entry ") == std::string::npos && text.find("bad") == std::string::npos) return kInvalidImage;
  if (text.find("bad") != std::string::npos) {
    for (unsigned i = 0; i < count; ++i) {
      if (options[i] == 5) std::strcpy(static_cast<char*>(values[i]), "ptxas fatal: line 1: this is bad");
    }
    return kInvalidPtx;
  }
  ++state().counters.modules;
  *module = new std::string(text);
  return 0;
}
EXPORT int cuModuleUnload(void* module) {
  --state().counters.modules;
  delete static_cast<std::string*>(module);
  return 0;
}
EXPORT int cuModuleGetFunction(const void** function, void* module, const char* name) {
  if (static_cast<std::string*>(module)->find("entry " + std::string(name) + "\n") == std::string::npos)
    return kNotFound;
  for (const FakeKernel& kernel : kKernels) {
    if (std::strcmp(kernel.name, name) != 0) continue;
    *function = &kernel;
    return 0;
  }
  return kNotFound;
}
EXPORT int cuFuncGetAttribute(int* value, int, const void*) {
  *value = 1024;
  return 0;
}
EXPORT int cuLaunchKernel(const void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                          unsigned by, unsigned bz, unsigned, void* stream, void** parameters, void**) {
  if (gx == 0 || gy == 0 || gz == 0 || bx == 0 || uint64_t{bx} * by * bz > 1024) return kInvalidValue;
  const auto& kernel = *static_cast<const FakeKernel*>(function);
  Arguments arguments;
  for (size_t i = 0; i < kernel.parameters; ++i)
    arguments.values.push_back(*static_cast<const uint64_t*>(parameters[i]));
  const int64_t blocks = int64_t{gx} * gy * gz, threads = int64_t{bx} * by * bz;
  return enqueue(
      stream, [&kernel, arguments, blocks, threads] { return execute(kernel, arguments, blocks, threads); });
}
