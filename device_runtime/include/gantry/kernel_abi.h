/* What a compiled kernel and its host agree on. A code image imports nothing: all it needs arrives here. */
#ifndef GANTRY_KERNEL_ABI_H
#define GANTRY_KERNEL_ABI_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GANTRY_KERNEL_ABI_VERSION 1

/** Iterations [begin, end) of a parallel loop. Returns 0, or an error code that stops the kernel. */
typedef int32_t (*GantryLoopBody)(void* closure, int64_t begin, int64_t end);

/** Services of the host, valid while the kernel runs. Newer versions append members. */
typedef struct GantryKernelHost {
  uint32_t abi_version; /**< GANTRY_KERNEL_ABI_VERSION */
  uint32_t struct_size; /**< bytes of this struct */
  void* context;        /**< passed back to the functions below */
  /** Splits [0, count) into contiguous ranges, one a thread at most, runs `body` on them, and waits. */
  int32_t (*parallel_for)(void* context, GantryLoopBody body, void* closure, int64_t count);
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
