// Makes runs cold: before each of them, every thread of a session drives from the caches of its core what
// they hold of the model.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "device_runtime/src/cpu_info.h"
#include "device_runtime/src/memory.h"
#include "device_runtime/src/status.h"
#include "device_runtime/src/thread_pool.h"

namespace gantry::runtime {

/// Bytes that each thread has to sweep; caches[i] are those of thread i's core, empty where not known.
///
/// Twice the largest cache that a core sees, and no less than 16 MiB: Linux does not show every cache (a
/// board's last-level cache behind the cores, all of them with some old firmware). Where that is more than
/// `limit` for all threads together, threads share the work on what they share: each sweeps twice its part of
/// every cache, so that each cache still sees twice its size. OUT_OF_MEMORY where that is too much as well: a
/// run that is not cold is not called so.
Result<std::vector<uint64_t>> plan_sweep(std::span<const std::vector<CacheInfo>> caches, uint64_t limit);

/// Sweeps the caches of a pool's threads. Each has a buffer of its own in memory near its core; a sweep
/// changes a word in every line of it. Words are read before they are written: stores of whole lines, as
/// memset makes them, bypass the caches of many CPUs once they come in a stream. Of the instruction caches, a
/// sweep reaches what they share with data: the unified caches below the first level.
///
/// Threads that may move leave behind what their former cores cached: pinned threads are swept for sure.
class CacheSweep {
 public:
  /// Provides the buffers, at most 1 GiB and a quarter of the memory that is available; errors of plan_sweep.
  /// The pool must live longer.
  static Result<std::unique_ptr<CacheSweep>> create(ThreadPool& pool);

  /// Sweeps on every thread at once, and waits. KERNEL_FAILED if the pool is running something.
  Status sweep();
  uint32_t sweeps() const { return sweeps_; }  ///< so far; what the first word of every line was last set to
  /// What thread i writes: a word at every multiple of `stride` bytes.
  std::span<const std::byte> buffer(int thread) const;
  uint64_t stride() const { return stride_; }

 private:
  explicit CacheSweep(ThreadPool& pool) : pool_(pool) {}
  static int32_t sweep_part(void* self, int64_t thread, int64_t end);

  ThreadPool& pool_;
  std::vector<AlignedBuffer> buffers_;  ///< one a thread
  std::vector<uint64_t> bytes_;
  uint64_t stride_ = 64;
  uint32_t sweeps_ = 0;
};

}  // namespace gantry::runtime
