// Threads that share the iterations of kernels' parallel loops.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "device_runtime/src/status.h"
#include "gantry/kernel_abi.h"

namespace gantry::runtime {

/// A fixed set of threads; the thread that calls parallel_for works too. Every loop is split into one
/// contiguous range a thread, always the same, so that a thread finds in its cache what it wrote before. Idle
/// threads spin for some microseconds, then sleep. One loop at a time: not for use by several callers at
/// once. Threads do not survive fork(): create the pool in the child.
class ThreadPool {
 public:
  /// `threads` >= 1 in all; thread i > 0 is pinned to cpus[i] where there is one (the caller's thread, number
  /// 0, is the caller's to pin). INVALID_ARGUMENT for a CPU that cannot be used; OUT_OF_MEMORY when threads
  /// run out.
  static Result<std::unique_ptr<ThreadPool>> create(int threads, std::span<const int> cpus);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }
  /// Runs body(closure, begin, end) on ranges that cover [0, count), and waits. Returns the first error code
  /// seen, 0 if none. A call from inside a body runs there, unsplit.
  int32_t parallel_for(GantryLoopBody body, void* closure, int64_t count);
  /// What kernels get. Lives as long as the pool.
  const GantryKernelHost* host() const { return &host_; }

 private:
  struct Worker {
    ThreadPool* pool = nullptr;
    int index = 0;
    pthread_t thread{};
  };
  ThreadPool();
  static void* worker_main(void* worker);
  void work(int index);
  void run_part(int index);
  uint32_t await_loop(uint32_t seen);
  void await_workers();

  GantryKernelHost host_;
  std::vector<std::unique_ptr<Worker>> workers_;
  // The loop that runs now; written by the caller before epoch_ moves on.
  GantryLoopBody body_ = nullptr;
  void* closure_ = nullptr;
  int64_t count_ = 0;
  std::atomic<int32_t> error_{0};
  bool stop_ = false;
  // Each on a cache line of its own: one is written by the caller, the other by the workers.
  alignas(64) std::atomic<uint32_t> epoch_{0};
  std::atomic<uint32_t> sleepers_{0};
  alignas(64) std::atomic<uint32_t> pending_{0};
  std::atomic<uint32_t> caller_sleeps_{0};
};

/// Pins the calling thread to a CPU; INVALID_ARGUMENT with its number if that is not possible.
Status pin_this_thread(int cpu);

}  // namespace gantry::runtime
