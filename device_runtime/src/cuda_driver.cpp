#include "device_runtime/src/cuda_driver.h"

#include <mutex>

#if !defined(GANTRY_NO_DLOPEN)
#include <dlfcn.h>
#endif

namespace gantry::runtime::cuda {
namespace {

/// CUDA 11.4: the oldest whose graphs and events have what the runtime uses. JetPack 5 has it.
constexpr int kOldestDriver = 11040;

// Names lie in the table: a pointer to each would be the loader's work too.
struct EntryPoint {
  char name[30];
  uint16_t offset;  ///< of the function pointer in Driver
};

#define GANTRY_ENTRY(member, name) \
  { name, offsetof(Driver, member) }
constexpr EntryPoint kEntryPoints[] = {
    GANTRY_ENTRY(init, "cuInit"),
    GANTRY_ENTRY(driver_version, "cuDriverGetVersion"),
    GANTRY_ENTRY(error_name, "cuGetErrorName"),
    GANTRY_ENTRY(error_string, "cuGetErrorString"),
    GANTRY_ENTRY(device_count, "cuDeviceGetCount"),
    GANTRY_ENTRY(device, "cuDeviceGet"),
    GANTRY_ENTRY(device_name, "cuDeviceGetName"),
    GANTRY_ENTRY(device_attribute, "cuDeviceGetAttribute"),
    GANTRY_ENTRY(device_memory, "cuDeviceTotalMem_v2"),
    GANTRY_ENTRY(device_bus_id, "cuDeviceGetPCIBusId"),
    GANTRY_ENTRY(retain_primary, "cuDevicePrimaryCtxRetain"),
    GANTRY_ENTRY(release_primary, "cuDevicePrimaryCtxRelease_v2"),
    GANTRY_ENTRY(set_current, "cuCtxSetCurrent"),
    GANTRY_ENTRY(memory_info, "cuMemGetInfo_v2"),
    GANTRY_ENTRY(allocate, "cuMemAlloc_v2"),
    GANTRY_ENTRY(release, "cuMemFree_v2"),
    GANTRY_ENTRY(allocate_host, "cuMemHostAlloc"),
    GANTRY_ENTRY(release_host, "cuMemFreeHost"),
    GANTRY_ENTRY(copy_to_device, "cuMemcpyHtoDAsync_v2"),
    GANTRY_ENTRY(copy_to_host, "cuMemcpyDtoHAsync_v2"),
    GANTRY_ENTRY(copy_on_device, "cuMemcpyDtoDAsync_v2"),
    GANTRY_ENTRY(fill, "cuMemsetD8Async"),
    GANTRY_ENTRY(create_stream, "cuStreamCreate"),
    GANTRY_ENTRY(destroy_stream, "cuStreamDestroy_v2"),
    GANTRY_ENTRY(synchronize_stream, "cuStreamSynchronize"),
    GANTRY_ENTRY(begin_capture, "cuStreamBeginCapture_v2"),
    GANTRY_ENTRY(end_capture, "cuStreamEndCapture"),
    GANTRY_ENTRY(instantiate_graph, "cuGraphInstantiateWithFlags"),
    GANTRY_ENTRY(launch_graph, "cuGraphLaunch"),
    GANTRY_ENTRY(destroy_graph_exec, "cuGraphExecDestroy"),
    GANTRY_ENTRY(destroy_graph, "cuGraphDestroy"),
    GANTRY_ENTRY(create_event, "cuEventCreate"),
    GANTRY_ENTRY(destroy_event, "cuEventDestroy_v2"),
    GANTRY_ENTRY(record_event, "cuEventRecord"),
    GANTRY_ENTRY(record_event_with_flags, "cuEventRecordWithFlags"),
    GANTRY_ENTRY(synchronize_event, "cuEventSynchronize"),
    GANTRY_ENTRY(elapsed_ms, "cuEventElapsedTime"),
    GANTRY_ENTRY(load_module, "cuModuleLoadDataEx"),
    GANTRY_ENTRY(unload_module, "cuModuleUnload"),
    GANTRY_ENTRY(get_function, "cuModuleGetFunction"),
    GANTRY_ENTRY(function_attribute, "cuFuncGetAttribute"),
    GANTRY_ENTRY(launch, "cuLaunchKernel"),
};
#undef GANTRY_ENTRY
static_assert(sizeof(kEntryPoints) / sizeof(EntryPoint) == sizeof(Driver) / sizeof(void (*)()),
              "every member of Driver has its name");

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

#if defined(GANTRY_NO_DLOPEN)
Status load(Driver&) {
  return failure(
      GANTRY_INCOMPATIBLE,
      "this program is linked statically and cannot load NVIDIA's driver: use the gantry-device that is "
      "built for boards with a GPU (CMake preset cuda-device)");
}
#else
Status load(Driver& driver) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    return failure(GANTRY_INCOMPATIBLE, "NVIDIA's driver is not installed on this machine (%s)",
                   why == nullptr ? "libcuda.so.1 was not found" : why);
  }
  for (const EntryPoint& entry : kEntryPoints) {
    void* function = dlsym(library, entry.name);
    if (function == nullptr) {
      return failure(
          GANTRY_INCOMPATIBLE,
          "NVIDIA's driver on this machine is too old: it has no %s; gantry needs one for CUDA %s or newer",
          entry.name, version_text(kOldestDriver).c_str());
    }
    *reinterpret_cast<void**>(reinterpret_cast<char*>(&driver) + entry.offset) = function;
  }
  return Status();
}
#endif

Status start(Driver& driver) {
  GANTRY_TRY(load(driver));
  int version = 0;
  if (driver.driver_version(&version) == 0 && version < kOldestDriver) {
    return failure(
        GANTRY_INCOMPATIBLE,
        "NVIDIA's driver on this machine is too old: it is for CUDA %s, gantry needs one for CUDA %s or "
        "newer",
        version_text(version).c_str(), version_text(kOldestDriver).c_str());
  }
  int count = 0;
  ResultCode code = driver.init(0);
  if (code == 0) code = driver.device_count(&count);
  if (code == kErrorNoDevice || (code == 0 && count == 0)) {
    return failure(GANTRY_INCOMPATIBLE,
                   "NVIDIA's driver finds no GPU on this machine that this process may use");
  }
  if (code != 0) {
    return failure(GANTRY_INCOMPATIBLE, "NVIDIA's driver does not start: %s", driver.describe(code).c_str());
  }
  return Status();
}

}  // namespace

std::string Driver::describe(ResultCode code) const {
  const char* name = nullptr;
  const char* text = nullptr;
  if (error_name(code, &name) != 0 || name == nullptr) name = "unknown error";
  if (error_string(code, &text) != 0 || text == nullptr) text = "error";
  return format_text("%s (%s, code %d)", text, name, code);
}

Status Driver::check(ResultCode code, const char* what) const {
  if (code == 0) return Status();
  if (code == kErrorOutOfMemory) {
    return failure(GANTRY_OUT_OF_MEMORY,
                   "%s: the GPU has no memory left for it: use smaller inputs or a smaller model", what);
  }
  return failure(GANTRY_KERNEL_FAILED, "%s: %s", what, describe(code).c_str());
}

Result<const Driver*> driver() {
  static std::once_flag once;
  static Driver instance;
  static Status* status = new Status;
  std::call_once(once, [] { *status = start(instance); });
  if (!status->ok()) return *status;
  return static_cast<const Driver*>(&instance);
}

Result<int> device_count() {
  Result<const Driver*> loaded = driver();
  if (!loaded.ok()) return loaded.status();
  int count = 0;
  GANTRY_TRY((*loaded)->check((*loaded)->device_count(&count), "counting GPUs"));
  return count;
}

}  // namespace gantry::runtime::cuda
