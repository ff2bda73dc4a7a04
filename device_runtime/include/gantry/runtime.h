/**
 * The gantry runtime: load a module file, give it inputs, run it, read outputs, see what each kernel costs.
 *
 * Threading: a GantryModule may be shared between threads; a GantrySession belongs to one thread at a time.
 * Errors: every function that can fail returns a GantryStatus; gantry_last_error() then holds a message of
 * the calling thread, which says what failed and what to do. Nothing throws across this interface.
 *
 * Growing: a program runs with a library that is older or newer than its header. Functions stay as they are.
 * A struct begins with struct_size, which the caller sets to sizeof, before every call; later versions append
 * members. A struct that the library fills is filled as far as the caller's reaches; what the library does
 * not know is 0. Of one that it reads, members that the caller's lacks are 0, and one that the library does
 * not know must be. The elements of an array have no size each: the function is told theirs. The structs of
 * "Version 0.1" below, which have no size, stay as they are.
 */
#ifndef GANTRY_RUNTIME_H
#define GANTRY_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#include "gantry/dlpack.h"

#if defined(__GNUC__)
#define GANTRY_API __attribute__((visibility("default")))
#else
#define GANTRY_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum GantryStatus {
  GANTRY_OK = 0,
  GANTRY_INVALID_ARGUMENT = 1, /**< the caller's request is wrong: fix it */
  GANTRY_INVALID_MODULE = 2,   /**< the module file is damaged or not one: compile it again */
  GANTRY_INCOMPATIBLE = 3,     /**< no code for this machine, or a newer format */
  GANTRY_OUT_OF_MEMORY = 4,
  GANTRY_IO_ERROR = 5,
  GANTRY_KERNEL_FAILED = 6, /**< a kernel reported an error */
  GANTRY_INTERNAL = 7
} GantryStatus;

typedef struct GantryModule GantryModule;
typedef struct GantrySession GantrySession;

/** Message of this thread's last failure; "" if none. Valid until the thread's next call. */
GANTRY_API const char* gantry_last_error(void);
/** "0.1.0" */
GANTRY_API const char* gantry_version(void);

/**
 * Maps a module file and loads the best code for this CPU; code for other devices is loaded when a session
 * asks for one. Where none of its code for CPUs runs here it fails with GANTRY_INCOMPATIBLE, unless there is
 * code for GPUs: then a session that asks for the CPU does. Release with gantry_module_release. The first
 * call asks Linux for the tile registers of AMX where the CPU has them, for all threads of the process;
 * alternate signal stacks must then hold at least getauxval(AT_MINSIGSTKSZ) bytes (11 KiB). Where one is
 * smaller or a sandbox refuses, code that needs AMX is not chosen.
 */
GANTRY_API GantryStatus gantry_module_load(const char* path, GantryModule** out);
/** As load, from memory; the bytes are copied. */
GANTRY_API GantryStatus gantry_module_load_memory(const void* bytes, size_t size, GantryModule** out);
/** As load_memory without a copy: the bytes begin at a multiple of 64 and stay as they are until the release. */
GANTRY_API GantryStatus gantry_module_load_in_place(const void* bytes, size_t size, GantryModule** out);
GANTRY_API void gantry_module_release(GantryModule* module);

/**
 * The variant chosen for this CPU, such as "x86-64-v4"; of a module without code for it its first variant.
 * Lives as long as the module.
 */
GANTRY_API const char* gantry_module_target(const GantryModule* module);

GANTRY_API int32_t gantry_input_count(const GantryModule* module);
GANTRY_API int32_t gantry_output_count(const GantryModule* module);

#define GANTRY_MAX_RANK 16
typedef struct GantryTensorDescription {
  uint32_t struct_size; /**< sizeof(GantryTensorDescription) */
  int32_t rank;
  const char* name; /**< lives as long as the module */
  DLDataType dtype;
  int64_t shape[GANTRY_MAX_RANK]; /**< -1: symbolic, known when inputs are set; where data say it, after a run */
} GantryTensorDescription;
GANTRY_API GantryStatus gantry_describe_input(const GantryModule* module, int32_t index,
                                              GantryTensorDescription* out);
GANTRY_API GantryStatus gantry_describe_output(const GantryModule* module, int32_t index,
                                               GantryTensorDescription* out);

typedef struct GantrySessionOptions {
  uint32_t struct_size; /**< sizeof(GantrySessionOptions) */
  int32_t threads;      /**< 0: one a physical CPU allowed to this process */
  /**
   * Pin thread i to cpus[i], 0 being the caller's, until the session is released; of several sessions that
   * pin the same thread the one that was made last counts. Null: where there is a thread for each core that
   * the process may use, those beside the caller's are pinned to the other cores; fewer or more threads are
   * Linux's to place. More of them than `threads`, where that is not 0, are GANTRY_INVALID_ARGUMENT.
   */
  const int32_t* cpus;
  int32_t cpu_count;
  /** "cpu", "cuda" (the first GPU; "cuda:1": the second) or "cuda-emulated"; null: cpu. */
  const char* device;
} GantrySessionOptions;
/** Workspace and threads to run a module. `options` may be null. Release with gantry_session_release. */
GANTRY_API GantryStatus gantry_session_create(GantryModule* module, const GantrySessionOptions* options,
                                              GantrySession** out);
GANTRY_API void gantry_session_release(GantrySession* session);

/**
 * Gives an input. Copied if `borrow` is 0; else the tensor's memory is read by every following run and must
 * stay valid; one that is strided or does not start at a multiple of 64 bytes is copied at every run. Dense
 * row-major or strided CPU tensors of the model's dtype; other shapes than the model's are errors.
 */
GANTRY_API GantryStatus gantry_set_input(GantrySession* session, int32_t index, const DLTensor* tensor,
                                         int borrow);
/** Runs once. All inputs must have been set. */
GANTRY_API GantryStatus gantry_run(GantrySession* session);
/** View of an output of the last run; valid until the next run, set_input with another shape, or release. */
GANTRY_API GantryStatus gantry_get_output(GantrySession* session, int32_t index, DLTensor* out);
/**
 * As get_output, as an owning tensor that outlives the session (call its deleter, from any thread). On a CPU
 * it is the session's memory itself, not a copy; the following runs write elsewhere.
 */
GANTRY_API GantryStatus gantry_take_output(GantrySession* session, int32_t index, DLManagedTensor** out);

/** An element of an array: see gantry_time_steps for its size. */
typedef struct GantryStepTime {
  const char* symbol; /**< the kernel's name; "" for a copy. This and all texts live as long as the module. */
  const char* ops;    /**< of the kernel; "copy" */
  const char* origin; /**< the user's ONNX nodes, separated by ", " */
  int64_t nanoseconds;
  double flops;
  double bytes; /**< compulsory memory traffic */
} GantryStepTime;
/**
 * Runs once with a clock around every step. `steps` receives up to `capacity` elements of `step_size` bytes
 * each, which is sizeof(GantryStepTime); `count` the number of steps that there are.
 */
GANTRY_API GantryStatus gantry_time_steps(GantrySession* session, GantryStepTime* steps, size_t step_size,
                                          int32_t capacity, int32_t* count);

/** A session's memory; what is on a GPU is 0 for other devices. */
typedef struct GantrySessionMemory {
  uint32_t struct_size;     /**< sizeof(GantrySessionMemory) */
  uint64_t workspace_bytes; /**< for the shapes bound now; 0 before inputs are set on a symbolic model */
  uint64_t weights_bytes;   /**< mapped constants */
  uint64_t io_bytes;        /**< inputs and outputs that the session holds */
  uint64_t device_workspace_bytes; /**< on the GPU, for the shapes bound now */
  uint64_t device_weights_bytes;   /**< on the GPU, shared by all sessions of the module there */
  uint64_t device_io_bytes;        /**< inputs and outputs on the GPU */
} GantrySessionMemory;
GANTRY_API GantryStatus gantry_session_memory(const GantrySession* session, GantrySessionMemory* out);

/* Version 0.1: for programs that were written for it. They learn no more than it did. */

typedef struct GantryDeviceMemoryInfo {
  uint32_t struct_size;     /**< sizeof(GantryDeviceMemoryInfo) */
  uint64_t workspace_bytes; /**< for the shapes bound now */
  uint64_t weights_bytes;   /**< shared by all sessions of the module on that GPU */
  uint64_t io_bytes;        /**< inputs and outputs */
} GantryDeviceMemoryInfo;
/** A session's memory on a GPU; all 0 for other devices. */
GANTRY_API GantryStatus gantry_device_memory_info(const GantrySession* session, GantryDeviceMemoryInfo* out);

typedef struct GantryMemoryInfo {
  uint64_t workspace_bytes;
  uint64_t weights_bytes;
  uint64_t io_bytes;
} GantryMemoryInfo;
/** As gantry_session_memory, of the host. */
GANTRY_API GantryStatus gantry_memory_info(const GantrySession* session, GantryMemoryInfo* out);

typedef struct GantryTensorInfo {
  const char* name;
  DLDataType dtype;
  int32_t rank;
  int64_t shape[GANTRY_MAX_RANK];
} GantryTensorInfo;
/** As gantry_describe_input and gantry_describe_output. */
GANTRY_API GantryStatus gantry_input_info(const GantryModule* module, int32_t index, GantryTensorInfo* out);
GANTRY_API GantryStatus gantry_output_info(const GantryModule* module, int32_t index, GantryTensorInfo* out);

typedef struct GantryStepProfile {
  const char* kernel; /**< ops of the kernel */
  const char* origin;
  int64_t nanoseconds;
  double flops;
  double bytes;
} GantryStepProfile;
/** As gantry_time_steps. */
GANTRY_API GantryStatus gantry_run_profiled(GantrySession* session, GantryStepProfile* steps,
                                            int32_t capacity, int32_t* count);

#ifdef __cplusplus
}
#endif
#endif
