// The analytic model of a GPU: how long a launch takes. Rules compare their knobs with it.
#pragma once

#include <cstdint>
#include <string>

#include "host/machine/target.h"

namespace gantry::cuda {

/// What one launch does, as far as the model cares.
struct LaunchWork {
  int64_t blocks = 1;
  int64_t threads = 128;     ///< a block
  int64_t registers = 32;    ///< a thread
  int64_t shared_bytes = 0;  ///< a block
  double issue_cycles = 0;   ///< a block alone on a multiprocessor, all units busy as they can be
  double chain_cycles = 0;   ///< a block's longest chain of dependent steps: latencies that nothing hides
  double l2_bytes = 0;       ///< moved between multiprocessors and the second-level cache, all blocks
  double memory_bytes = 0;   ///< moved to and from memory, all blocks
};

/// Blocks of a launch that a multiprocessor holds at once; 0 if not even one fits.
int64_t resident_blocks(const LaunchWork& work, const GpuModel& gpu);
/// Seconds from the launch's start to its end, without the launch itself: the slowest of arithmetic in waves of
/// resident blocks, the second-level cache and memory. Infinite for what cannot run.
double predicted_seconds(const LaunchWork& work, const GpuModel& gpu);

}  // namespace gantry::cuda
