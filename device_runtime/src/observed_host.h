// What stands between kernels and their host while one run lasts, to see what they do.
#pragma once

#include <cstdint>

#include "device_runtime/src/thread_pool.h"
#include "gantry/kernel_abi.h"

namespace gantry::runtime {

/// A host that passes all calls on to another, and tells an Observer, which derives from it, of loops. An
/// Observer befriends it and has
///
///   bool& is_inside(size_t thread);         whether that thread is in the body of a loop
///   void enter_loop(), leave_loop();        of the thread that runs the session
///   int32_t run(size_t thread, const Loop&, int64_t begin, int64_t end);  calls Loop::run() for the range
///
/// A loop in a loop's body is a part of that: nothing is told of it. The thread that runs the session calls
/// enter_loop() and leave_loop(); run() is called by each thread for its ranges. The Observer stays where it
/// is while a host is observed.
template <typename Observer>
class ObservedHost {
 public:
  /// What kernels are to be given in the place of the host.
  const GantryKernelHost& host() const { return observed_; }

 protected:
  struct Loop {
    Observer* observer;
    GantryLoopBody body;
    void* closure;

    int32_t run(int64_t begin, int64_t end) const { return body(closure, begin, end); }
  };

  void observe(const GantryKernelHost& host) {
    inner_ = observed_ = host;
    observed_.context = static_cast<Observer*>(this);
    observed_.parallel_for = parallel_for;
    observed_.parallel_rounds = parallel_rounds;
    observed_.thread_memory = thread_memory;
    observed_.is_first_range = is_first_range;
  }

 private:
  static const GantryKernelHost& inner_of(const void* context) {
    return static_cast<const ObservedHost*>(static_cast<const Observer*>(context))->inner_;
  }

  static int32_t observed_body(void* closure, int64_t begin, int64_t end) {
    const Loop& loop = *static_cast<const Loop*>(closure);
    const auto thread = static_cast<size_t>(ThreadPool::calling_thread());
    loop.observer->is_inside(thread) = true;
    const int32_t error = loop.observer->run(thread, loop, begin, end);
    loop.observer->is_inside(thread) = false;
    return error;
  }

  /// `start(body, closure)` has the host run them.
  template <typename Start>
  static int32_t around(void* context, GantryLoopBody body, void* closure, const Start& start) {
    auto& observer = *static_cast<Observer*>(context);
    if (observer.is_inside(static_cast<size_t>(ThreadPool::calling_thread()))) return start(body, closure);
    Loop loop{&observer, body, closure};
    observer.enter_loop();
    const int32_t error = start(observed_body, &loop);
    observer.leave_loop();
    return error;
  }

  static int32_t parallel_for(void* context, GantryLoopBody body, void* closure, int64_t count) {
    const GantryKernelHost& inner = inner_of(context);
    return around(context, body, closure, [&](GantryLoopBody ranges, void* of) {
      return inner.parallel_for(inner.context, ranges, of, count);
    });
  }
  static int32_t parallel_rounds(void* context, GantryLoopBody body, void* closure, int64_t rounds,
                                 int64_t count) {
    const GantryKernelHost& inner = inner_of(context);
    return around(context, body, closure, [&](GantryLoopBody ranges, void* of) {
      return inner.parallel_rounds(inner.context, ranges, of, rounds, count);
    });
  }
  static void* thread_memory(void* context, int64_t bytes) {
    const GantryKernelHost& inner = inner_of(context);
    return inner.thread_memory(inner.context, bytes);
  }
  static int32_t is_first_range(void* context) {
    const GantryKernelHost& inner = inner_of(context);
    return inner.is_first_range(inner.context);
  }

  GantryKernelHost inner_{}, observed_{};
};

}  // namespace gantry::runtime
