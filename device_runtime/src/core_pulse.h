// How much of their speed the cores give right now, seen from inside: what shares a core's units with a
// thread (the core's other hardware thread, another virtual machine there) slows it without any counter
// showing it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "device_runtime/src/thread_pool.h"

namespace gantry::runtime {

/// A short burst of independent multiplications and additions, as many as the core's units take, on every
/// thread of a pool at the same moment; then a line of memory that goes from thread to thread; and beside
/// that, on the same threads, a chain of multiplications of which each waits for the one before. Who shares
/// the core delays the burst; a hypervisor that moves threads to cores without a cache in common delays the
/// handing on (on an EPYC from 25 to 155 ns, and small networks to 1.45 times their time). Neither touches
/// the chain, whose units wait anyway, and a changed clock changes all alike. A pulse's value, the time of a
/// turn of the burst's loop and of its share of the handovers over that of one multiplication of the chain,
/// is thus a number of the machine's model and of how many threads there are, and grows where others use the
/// cores or the threads lie apart. What only uses caches and memory does not show in it.
class CorePulse {
 public:
  struct Value {
    double highest = 0;  ///< of the threads: a run waits for its slowest
    /// Of the threads, where each has a core of its own and these are alike: what the number is of a core
    /// that nobody else uses is seen sooner on one of many than on all at once. Else as `highest`.
    double lowest = 0;
  };

  /// Finds lengths that last some ten microseconds here. Nothing where pulses would mean nothing: under an
  /// emulator, which computes a vector's elements one by one, and where threads wander between unlike cores.
  /// The pool must live longer.
  static std::optional<CorePulse> create(ThreadPool& pool);

  /// One pulse on every thread, and waits; each thread's is the least of a few tries, so that an interrupt
  /// does not count. Positive and finite; none where the pool is running something. Some 0.1 to 0.4 ms on a
  /// machine of today.
  std::optional<Value> beat();
  /// Of each thread, of the last beat.
  std::span<const double> by_thread() const { return values_; }

 private:
  CorePulse(ThreadPool& pool, bool alike);

  ThreadPool* pool_;
  bool alike_;             ///< the cores
  int64_t turns_, links_;  ///< of the burst's loop; of the chain
  std::vector<double> values_;
  std::vector<double> link_ns_;  ///< of the chain, by thread
  std::vector<int> cpus_;        ///< where the threads were
};

}  // namespace gantry::runtime
