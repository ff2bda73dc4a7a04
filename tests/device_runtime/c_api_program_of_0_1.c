/*
 * A program of version 0.1: these declarations are those of its header, and stay as they are. It stands for
 * one that was compiled then and runs with later libraries.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "gantry/dlpack.h"

typedef enum GantryStatus { GANTRY_OK = 0 } GantryStatus;
typedef struct GantryModule GantryModule;
typedef struct GantrySession GantrySession;
GantryStatus gantry_module_load_memory(const void* bytes, size_t size, GantryModule** out);
void gantry_module_release(GantryModule* module);

#define GANTRY_MAX_RANK 16
typedef struct GantryTensorInfo {
  const char* name; /**< lives as long as the module */
  DLDataType dtype;
  int32_t rank;
  int64_t shape[GANTRY_MAX_RANK]; /**< -1: symbolic, known when inputs are set */
} GantryTensorInfo;
GantryStatus gantry_input_info(const GantryModule* module, int32_t index, GantryTensorInfo* out);
GantryStatus gantry_output_info(const GantryModule* module, int32_t index, GantryTensorInfo* out);

typedef struct GantrySessionOptions {
  uint32_t struct_size; /**< sizeof(GantrySessionOptions) */
  int32_t threads;      /**< 0: one a physical CPU allowed to this process */
  const int32_t* cpus;
  int32_t cpu_count;
  const char* device;
} GantrySessionOptions;
GantryStatus gantry_session_create(GantryModule* module, const GantrySessionOptions* options,
                                   GantrySession** out);
void gantry_session_release(GantrySession* session);
GantryStatus gantry_set_input(GantrySession* session, int32_t index, const DLTensor* tensor, int borrow);

typedef struct GantryStepProfile {
  const char* kernel; /**< ops of the kernel; lives as long as the module */
  const char* origin; /**< the user's ONNX nodes, separated by ", " */
  int64_t nanoseconds;
  double flops;
  double bytes; /**< compulsory memory traffic */
} GantryStepProfile;
GantryStatus gantry_run_profiled(GantrySession* session, GantryStepProfile* steps, int32_t capacity,
                                 int32_t* count);

typedef struct GantryMemoryInfo {
  uint64_t workspace_bytes; /**< for the shapes bound now; 0 before inputs are set on a symbolic model */
  uint64_t weights_bytes;   /**< mapped constants */
  uint64_t io_bytes;        /**< inputs and outputs that the session holds */
} GantryMemoryInfo;
GantryStatus gantry_memory_info(const GantrySession* session, GantryMemoryInfo* out);

typedef struct GantryDeviceMemoryInfo {
  uint32_t struct_size;
  uint64_t workspace_bytes;
  uint64_t weights_bytes;
  uint64_t io_bytes;
} GantryDeviceMemoryInfo;
GantryStatus gantry_device_memory_info(const GantrySession* session, GantryDeviceMemoryInfo* out);

/* Each result with a word behind it that no library may touch. */
enum { kGuard = 0x5a };
typedef struct {
  GantryTensorInfo tensor;
  uint64_t after_tensor;
  GantryStepProfile step;
  uint64_t after_step;
  GantryMemoryInfo memory;
  uint64_t after_memory;
  GantryDeviceMemoryInfo device;
  uint64_t after_device;
} Results;

static int is_untouched(const uint64_t* guard) {
  for (size_t i = 0; i < sizeof *guard; ++i) {
    if (((const unsigned char*)guard)[i] != kGuard) return 0;
  }
  return 1;
}

static const char* use(GantryModule* module, GantrySession* session) {
  Results r;
  memset(&r, kGuard, sizeof r);
  if (gantry_input_info(module, 0, &r.tensor) != GANTRY_OK) return "gantry_input_info failed";
  if (strcmp(r.tensor.name, "in") != 0 || r.tensor.rank != 2 || r.tensor.shape[0] != 2 ||
      r.tensor.shape[1] != 3 || r.tensor.shape[2] != 0 || r.tensor.dtype.bits != 32)
    return "gantry_input_info says something else";
  if (gantry_output_info(module, 0, &r.tensor) != GANTRY_OK || strcmp(r.tensor.name, "out") != 0)
    return "gantry_output_info says something else";
  float values[6] = {1, 2, 3, 4, 5, 6};
  int64_t shape[2] = {2, 3};
  DLTensor input = {values, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, NULL, 0};
  if (gantry_set_input(session, 0, &input, 0) != GANTRY_OK) return "gantry_set_input failed";
  int32_t count = 0;
  if (gantry_run_profiled(session, &r.step, 1, &count) != GANTRY_OK || count != 1)
    return "gantry_run_profiled failed";
  if (strcmp(r.step.kernel, "test.add_one") != 0 || strcmp(r.step.origin, "Add_0") != 0 ||
      r.step.nanoseconds < 0)
    return "gantry_run_profiled says something else";
  if (gantry_memory_info(session, &r.memory) != GANTRY_OK || r.memory.io_bytes != 48)
    return "gantry_memory_info says something else";
  r.device.struct_size = sizeof r.device;
  if (gantry_device_memory_info(session, &r.device) != GANTRY_OK || r.device.io_bytes != 0)
    return "gantry_device_memory_info says something else";
  if (!is_untouched(&r.after_tensor) || !is_untouched(&r.after_step) || !is_untouched(&r.after_memory) ||
      !is_untouched(&r.after_device))
    return "a struct was filled beyond its end";
  return NULL;
}

/* What went wrong; null: nothing. */
const char* program_of_0_1(const void* bytes, size_t size) {
  GantryModule* module = NULL;
  GantrySession* session = NULL;
  GantrySessionOptions options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.threads = 1;
  const char* trouble = "the module or the session was refused";
  if (gantry_module_load_memory(bytes, size, &module) == GANTRY_OK &&
      gantry_session_create(module, &options, &session) == GANTRY_OK)
    trouble = use(module, session);
  gantry_session_release(session);
  gantry_module_release(module);
  return trouble;
}
