// Finds threads of a launch that touch the same element without a barrier between. Private to the evaluator.
#pragma once

#include <cstdint>

namespace gantry {

/// Who touches memory now, while a kernel made by emulate_launches(…, true) runs.
struct RunningThread {
  int64_t launch = 0;
  int64_t block = 0;    ///< counts over all launches
  int64_t epoch = 0;    ///< barriers so far
  int64_t thread = -1;  ///< -1: what the block does as one
};

/// The last accesses of one element.
class ElementAccess {
 public:
  /// False if it races with an earlier access.
  bool load(const RunningThread& now) {
    if (now.thread < 0) return true;
    bool fine = !conflicts(store_, now);
    several_ = conflicts(load_, now) || (several_ && same_epoch(load_, now));
    load_ = now;
    return fine;
  }
  bool store(const RunningThread& now) {
    if (now.thread < 0) return true;
    bool fine = !conflicts(store_, now) && !conflicts(load_, now) && !(several_ && same_epoch(load_, now));
    store_ = now;
    return fine;
  }

 private:
  static bool same_epoch(const RunningThread& a, const RunningThread& b) {
    return a.launch == b.launch && (a.block != b.block || a.epoch == b.epoch);
  }
  static bool conflicts(const RunningThread& earlier, const RunningThread& now) {
    if (earlier.thread < 0 || !same_epoch(earlier, now)) return false;
    return earlier.block != now.block || earlier.thread != now.thread;
  }
  RunningThread load_, store_;
  bool several_ = false;  ///< other threads than load_'s have read it too
};

}  // namespace gantry
