// Which CPUs threads run on.
#pragma once

#include <pthread.h>
#include <sched.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "device_runtime/src/status.h"

namespace gantry::runtime {

/// Lets a thread run on one CPU only; INVALID_ARGUMENT with its number if that is not possible.
Status pin_thread(pthread_t thread, int cpu);
Status pin_this_thread(int cpu);

/// Keeps the thread that calls `set` on one CPU as long as it lives. Of a thread's pins the newest that is
/// left counts, whatever the order in which they end; after the last of them the thread has the affinity from
/// before the first.
class CallerPin {
 public:
  CallerPin() = default;
  CallerPin(const CallerPin&) = delete;
  CallerPin& operator=(const CallerPin&) = delete;
  /// On any thread; but on another than the pinned one it leaves that where it is.
  ~CallerPin();
  /// Once. As pin_this_thread.
  Status set(int cpu);

 private:
  friend std::optional<cpu_set_t> affinity_before_pins();

  CallerPin* older_ = nullptr;  ///< of any thread
  uint32_t thread_ = 0;         ///< 0: has nothing to give back
  cpu_set_t before_{};          ///< the thread's affinity without this pin
};

/// What the calling thread had before its first CallerPin; nothing where it has none.
std::optional<cpu_set_t> affinity_before_pins();

/// A CPU of each core that this process may use (CpuInfo::core_cpus), in their order from the one whose core
/// the calling thread is on, round to the one before.
std::vector<int> cores_from_this_one();

}  // namespace gantry::runtime
