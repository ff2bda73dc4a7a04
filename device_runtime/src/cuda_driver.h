// NVIDIA's driver API, as much of it as the runtime calls: found in libcuda.so.1 when a GPU is first asked
// for, so that neither building nor running gantry needs anything of CUDA but the driver of a machine that
// has a GPU. Values and signatures are those of the driver's documented ABI.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "device_runtime/src/status.h"

namespace gantry::runtime::cuda {

/// 0 is success.
using ResultCode = int;
using DeviceHandle = int;
using DevicePointer = uint64_t;
using Context = struct ContextTag*;
using ModuleHandle = struct ModuleTag*;
using Function = struct FunctionTag*;
using Stream = struct StreamTag*;
using Event = struct EventTag*;
using Graph = struct GraphTag*;
using GraphExec = struct GraphExecTag*;

inline constexpr ResultCode kErrorOutOfMemory = 2;
inline constexpr ResultCode kErrorNoDevice = 100;
inline constexpr ResultCode kErrorNotReady = 600;

/// Attributes of a device.
enum DeviceAttribute : int {
  kAttributeMaxThreadsPerBlock = 1,
  kAttributeMaxGridX = 5,
  kAttributeMaxGridY = 6,
  kAttributeMaxGridZ = 7,
  kAttributeClockRate = 13,  ///< kHz
  kAttributeMultiprocessors = 16,
  kAttributeL2Bytes = 38,
  kAttributeCapabilityMajor = 75,
  kAttributeCapabilityMinor = 76,
};
enum JitOption : int {
  kJitInfoLog = 3,
  kJitInfoLogBytes = 4,
  kJitErrorLog = 5,
  kJitErrorLogBytes = 6,
};
inline constexpr int kFunctionMaxThreadsPerBlock = 0;
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDefault = 0;
/// The record becomes a node of its own in a captured graph.
inline constexpr unsigned kEventRecordExternal = 1;
inline constexpr int kCaptureThreadLocal = 1;

/// The driver's entry points, each under its newest name whose signature is the one here.
struct Driver {
  ResultCode (*init)(unsigned flags);
  ResultCode (*driver_version)(int* version);
  ResultCode (*error_name)(ResultCode, const char** name);
  ResultCode (*error_string)(ResultCode, const char** text);
  ResultCode (*device_count)(int* count);
  ResultCode (*device)(DeviceHandle*, int index);
  ResultCode (*device_name)(char* name, int size, DeviceHandle);
  ResultCode (*device_attribute)(int* value, int attribute, DeviceHandle);
  ResultCode (*device_memory)(size_t* bytes, DeviceHandle);
  ResultCode (*device_bus_id)(char* id, int size, DeviceHandle);
  ResultCode (*retain_primary)(Context*, DeviceHandle);
  ResultCode (*release_primary)(DeviceHandle);
  ResultCode (*set_current)(Context);
  ResultCode (*memory_info)(size_t* free, size_t* total);
  ResultCode (*allocate)(DevicePointer*, size_t bytes);
  ResultCode (*release)(DevicePointer);
  ResultCode (*allocate_host)(void** data, size_t bytes, unsigned flags);
  ResultCode (*release_host)(void*);
  ResultCode (*copy_to_device)(DevicePointer, const void*, size_t, Stream);
  ResultCode (*copy_to_host)(void*, DevicePointer, size_t, Stream);
  ResultCode (*copy_on_device)(DevicePointer target, DevicePointer source, size_t, Stream);
  ResultCode (*fill)(DevicePointer, unsigned char value, size_t, Stream);
  ResultCode (*create_stream)(Stream*, unsigned flags);
  ResultCode (*destroy_stream)(Stream);
  ResultCode (*synchronize_stream)(Stream);
  ResultCode (*begin_capture)(Stream, int mode);
  ResultCode (*end_capture)(Stream, Graph*);
  ResultCode (*instantiate_graph)(GraphExec*, Graph, unsigned long long flags);
  ResultCode (*launch_graph)(GraphExec, Stream);
  ResultCode (*destroy_graph_exec)(GraphExec);
  ResultCode (*destroy_graph)(Graph);
  ResultCode (*create_event)(Event*, unsigned flags);
  ResultCode (*destroy_event)(Event);
  ResultCode (*record_event)(Event, Stream);
  ResultCode (*record_event_with_flags)(Event, Stream, unsigned flags);
  ResultCode (*synchronize_event)(Event);
  ResultCode (*elapsed_ms)(float* ms, Event start, Event end);
  ResultCode (*load_module)(ModuleHandle*, const void* image, unsigned options, int* names, void** values);
  ResultCode (*unload_module)(ModuleHandle);
  ResultCode (*get_function)(Function*, ModuleHandle, const char* name);
  ResultCode (*function_attribute)(int* value, int attribute, Function);
  ResultCode (*launch)(Function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                       unsigned block_y, unsigned block_z, unsigned shared_bytes, Stream, void** parameters,
                       void** extra);

  /// "illegal memory access (CUDA_ERROR_ILLEGAL_ADDRESS)"
  std::string describe(ResultCode code) const;
  /// A failed status for anything but success: "WHAT: …"; OUT_OF_MEMORY where the GPU has none left.
  Status check(ResultCode code, const char* what) const;
};

/// The driver, loaded and initialised on the first call. Never from a process that forks afterwards: the
/// child could not use the GPU. INCOMPATIBLE says why there is none: no libcuda.so.1, too old a driver, no
/// GPU, a program that is linked statically. Thread-safe.
Result<const Driver*> driver();

/// Number of GPUs; at least one. Errors: those of driver().
Result<int> device_count();

}  // namespace gantry::runtime::cuda
