/* What a compiled kernel and its host agree on. A code image imports nothing: all it needs arrives here. */
#ifndef GANTRY_KERNEL_ABI_H
#define GANTRY_KERNEL_ABI_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * 2 appended gpu_checker, 3 thread_memory, 4 parallel_rounds, 5 is_first_range; kernels built for earlier
 * versions run too.
 */
#define GANTRY_KERNEL_ABI_VERSION 5

/** Iterations [begin, end) of a parallel loop. Returns 0, or an error code that stops the kernel. */
typedef int32_t (*GantryLoopBody)(void* closure, int64_t begin, int64_t end);

/** What kernels return, beside what the host's functions gave them. */
#define GANTRY_KERNEL_CHECK_FAILED 0x6763 /**< the checker knows what is wrong */
#define GANTRY_KERNEL_NEEDS_CHECKER \
  0x676e /**< the kernel was built to report, and the host does not listen */

#define GANTRY_KERNEL_NEEDS_THREAD_MEMORY 0x746d /**< the host has no thread_memory, or no memory left */

/** Kinds of access, or'ed. */
#define GANTRY_ACCESS_LOAD 0
#define GANTRY_ACCESS_STORE 1

/** Kinds of buffer, or'ed. */
#define GANTRY_BUFFER_SHARED 1    /**< of a block's shared memory: undefined when a block begins */
#define GANTRY_BUFFER_UNDEFINED 2 /**< output or scratch: undefined when the kernel begins */
#define GANTRY_BUFFER_READ_ONLY 4 /**< no launch of the kernel stores to it */

/**
 * Listens to GPU kernels that run on a CPU. A kernel is told of one call at a time, from one thread: its
 * buffers, then for each launch its blocks one after another, and what their threads do. A function that does
 * not return 0 ends the kernel.
 */
typedef struct GantryGpuChecker {
  uint32_t struct_size; /**< bytes of this struct */
  void* context;        /**< passed back to the functions below */
  int32_t (*begin_kernel)(void* context, int32_t buffer_count);
  /** `id`: 0 to buffer_count - 1. `name` stays valid while the kernel runs. */
  int32_t (*add_buffer)(void* context, int32_t id, const char* name, int64_t element_count, int32_t kind);
  int32_t (*begin_launch)(void* context, int64_t threads);
  int32_t (*begin_block)(void* context, int64_t x, int64_t y, int64_t z);
  int32_t (*barrier)(void* context);
  /**
   * Before an access of `count` elements at index, index + stride, … by `thread`, or by all threads of the
   * block if `thread` is -1.
   */
  int32_t (*access)(void* context, int32_t id, int32_t kind, int64_t thread, int64_t index, int64_t stride,
                    int32_t count);
} GantryGpuChecker;

/** Services of the host, valid while the kernel runs. Newer versions append members. */
typedef struct GantryKernelHost {
  uint32_t abi_version; /**< GANTRY_KERNEL_ABI_VERSION */
  uint32_t struct_size; /**< bytes of this struct */
  void* context;        /**< passed back to the functions below */
  /** Splits [0, count) into ranges, runs `body` on them, on several threads or on one, and waits. */
  int32_t (*parallel_for)(void* context, GantryLoopBody body, void* closure, int64_t count);
  const GantryGpuChecker* gpu_checker; /**< null: nobody listens */
  /**
   * At least `bytes` of memory at a multiple of 64 that belong to the calling thread until it asks again or
   * the kernel ends, whichever is first; undefined at first, but in one parallel loop a thread that asks for
   * as much again gets the same with what it has written there. Null when there is no memory left.
   */
  void* (*thread_memory)(void* context, int64_t bytes);
  /**
   * As parallel_for of rounds * count iterations, but each thread gets the same part of every round: of the
   * iterations round * count + i those with some i, in order. For rounds that read the same data and differ
   * in what is computed from them.
   */
  int32_t (*parallel_rounds)(void* context, GantryLoopBody body, void* closure, int64_t rounds,
                             int64_t count);
  /** Called by the body of a parallel loop: 1 in the first range that the calling thread runs of it, else 0.
   */
  int32_t (*is_first_range)(void* context);
} GantryKernelHost;

/**
 * Entry of a kernel. `buffers`: inputs, outputs, scratch, in the order of the plan's step; `dims`: the
 * symbolic dimensions that the kernel was compiled with, in its order. Returns 0 or an error code.
 */
typedef int32_t (*GantryKernelFn)(const GantryKernelHost* host, void* const* buffers, const int64_t* dims);

#ifdef __cplusplus
}
#endif
#endif
