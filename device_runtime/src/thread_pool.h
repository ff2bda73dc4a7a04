// Threads that share the iterations of kernels' parallel loops.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "device_runtime/src/memory.h"
#include "device_runtime/src/status.h"
#include "gantry/kernel_abi.h"

namespace gantry::runtime {

/// A fixed set of threads; the thread that calls parallel_for works too.
///
/// Every loop gives each thread one contiguous range, the same one every time, so that a thread finds in its
/// cache what it wrote before; on cores of unlike speed the ranges are as long as the cores are fast. A
/// thread works through its range in pieces that get smaller, and then helps the others with the ends of
/// theirs: no core waits while another has more than a small piece to do, and a thread that another process
/// keeps from running delays nobody. Idle threads spin for some microseconds, then sleep; one that notices
/// that it was preempted while it spun sleeps at once.
///
/// Workers compute in the floating-point mode (rounding, denormals) of the thread that calls, so that results
/// do not depend on the number of threads. One loop at a time: not for use by several callers at once.
/// Threads do not survive fork(): create the pool in the child.
class ThreadPool {
 public:
  /// `threads` >= 1 in all; thread i > 0 is pinned to cpus[i] where there is one (the caller's thread, number
  /// 0, is the caller's to pin); others run where the caller's may without its CallerPins. INVALID_ARGUMENT
  /// for a CPU that cannot be used; OUT_OF_MEMORY when threads run out.
  static Result<std::unique_ptr<ThreadPool>> create(int threads, std::span<const int> cpus);
  /// One thread on each core that this process may use. A worker whose core the caller's thread comes to,
  /// moves to the core that the caller has left. Errors: as create.
  static Result<std::unique_ptr<ThreadPool>> create_on_all_cores();
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(slots_.size()); }
  /// Runs body(closure, begin, end) on ranges that cover [0, count), and waits. Returns the first error code
  /// seen, 0 if none. A call from inside a body runs there, unsplit.
  int32_t parallel_for(GantryLoopBody body, void* closure, int64_t count);
  /// Runs the iterations [0, rounds * count), where each thread's range is the same part of every round.
  int32_t parallel_rounds(GantryLoopBody body, void* closure, int64_t rounds, int64_t count);
  /// Runs body(closure, i, i + 1) on thread i, for every thread of the pool, and waits: nobody takes
  /// another's part. Returns the first error code seen, 0 if none; not for use from inside a body.
  int32_t run_on_each_thread(GantryLoopBody body, void* closure);
  /// Where each thread is now, by asking it: CPUs' numbers, -1 where not known. Wakes the workers.
  std::vector<int> thread_cpus();
  /// Which of its pool's threads calls: 0 for all that are no pool's workers.
  static size_t calling_thread();
  /// The calling thread's memory for kernels (see GantryKernelHost); kept for the pool's life. Null: none
  /// left.
  void* thread_memory(int64_t bytes);
  /// What kernels get. Lives as long as the pool.
  const GantryKernelHost* host() const { return &host_; }

  /// bounds[i]: how many of `units` belong to the threads before i, up to `units` at the end; proportional to
  /// `weights`, which are positive.
  static void partition(std::span<const uint32_t> weights, uint32_t units, std::vector<uint32_t>& bounds);

 private:
  /// What the threads are told of a loop and what is left of one thread's range, on one cache line: its
  /// thread waits on `range` and then has all it needs. A loop's `range` is (number of the loop, first unit,
  /// end unit); whoever succeeds in changing it has units of a loop that is not over, so that what it read of
  /// the loop before is true.
  struct alignas(64) Slot {
    std::atomic<uint64_t> range{0};
    std::atomic<GantryLoopBody> body{nullptr};
    std::atomic<void*> closure{nullptr};
    std::atomic<int64_t> count{0};
    std::atomic<uint32_t> units{0};
    std::atomic<uint32_t> rounds{1};
    std::atomic<uint32_t> float_mode{0};
    std::atomic<uint32_t> each_thread{0};
    ThreadPool* pool = nullptr;
    uint32_t index = 0;
  };
  struct Loop {
    GantryLoopBody body;
    void* closure;
    int64_t count;             ///< of all rounds
    uint32_t units;            ///< that the iterations are dealt out in
    uint32_t rounds;           ///< if more than one, a unit is an iteration
    bool each_thread = false;  ///< one unit a thread, which nobody else takes
  };
  struct Units {
    uint32_t begin = 0, end = 0;  ///< counted from the first of their owner's
  };

  ThreadPool();
  static void* worker_main(void* slot);
  void work(Slot& self);
  void keep_clear_of_caller();
  void publish(const Loop& loop);
  uint32_t await_loop(const Slot& self, uint32_t seen);
  void take_part(uint32_t self, uint32_t number, const Loop& loop);
  static bool claim(Slot& slot, uint32_t number, bool owner, uint32_t least, Units& claimed);
  void run(const Loop& loop);
  static int32_t run_range(const Loop& loop, int64_t begin, int64_t end);
  int32_t run_units(const Loop& loop, uint32_t owner, Units units) const;
  void await_units(uint32_t units);

  GantryKernelHost host_;
  std::vector<std::unique_ptr<Slot>> slots_;  ///< the caller's, then one a worker
  std::vector<pthread_t> workers_;
  std::vector<uint32_t> weights_;
  std::vector<uint32_t> bounds_;  ///< of the last loop's units, in a round; most loops have the same
  std::vector<int> core_cpus_;    ///< of thread i, where workers give way to the caller; else empty
  int caller_cpu_ = -1;           ///< in the last loop, where workers give way to the caller
  std::atomic<int32_t> error_{0};
  std::atomic<bool> stop_{false};
  // Each on a cache line of its own: one is written by the caller, the other by the workers.
  alignas(64) std::atomic<uint32_t> number_{0};  ///< of the loop; what sleeping workers wait for
  std::atomic<uint32_t> sleepers_{0};
  alignas(64) std::atomic<uint32_t> done_{0};  ///< units of the loop
  std::atomic<uint32_t> caller_sleeps_{0};
  std::vector<AlignedBuffer> memory_;  ///< one a thread
};

}  // namespace gantry::runtime
