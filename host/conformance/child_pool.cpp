#include "host/conformance/child_pool.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <thread>

#include "host/support/child_pipes.h"
#include "host/support/start_thread.h"

namespace gantry::conformance {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// More than any test says.
constexpr size_t kMostLines = 1000;
/// How soon a process is ended after another's result has stopped the work.
constexpr milliseconds kGlance{200};

class Pool {
 public:
  Pool(size_t count, milliseconds limit, const std::function<std::vector<std::string>(size_t)>& command,
       const std::function<void(size_t, const ChildEnd&)>& ended)
      : count_(count), limit_(limit), command_(command), ended_(ended) {}

  /// One of the threads.
  void work() {
    try {
      for (size_t index; take(index);) {
        ChildEnd end;
        if (!run(index, end)) return;
        const std::scoped_lock lock(mutex_);
        if (!failed_) ended_(index, end);
      }
    } catch (...) {
      const std::scoped_lock lock(mutex_);
      if (!failed_) failed_ = std::current_exception();
    }
  }
  void finish() {
    if (failed_) std::rethrow_exception(failed_);
  }

 private:
  bool take(size_t& index) {
    const std::scoped_lock lock(mutex_);
    index = next_++;
    return !failed_ && index < count_;
  }
  bool stopped() {
    const std::scoped_lock lock(mutex_);
    return failed_ != nullptr;
  }

  /// False where the work has been stopped.
  bool run(size_t index, ChildEnd& end) {
    const auto began = Clock::now();
    ChildPipes child(command_(index), cleanup::Child::Group::kOwn, "gantry conformance");
    child.close_input();
    for (std::string line;;) {
      if (stopped()) return false;
      const auto left = std::chrono::duration_cast<milliseconds>(began + limit_ - Clock::now());
      end.killed = left.count() <= 0;
      if (end.killed) break;
      const ChildPipes::Next next = child.next_line(line, std::min(left, kGlance));
      if (next == ChildPipes::Next::kEnd) break;
      if (next == ChildPipes::Next::kLine && end.lines.size() < kMostLines) end.lines.push_back(line);
    }
    end.exit_code = child.finish(end.killed ? milliseconds(0) : milliseconds(5000));
    end.words = child.words();
    end.seconds = std::chrono::duration<double>(Clock::now() - began).count();
    return true;
  }

  const size_t count_;
  const milliseconds limit_;
  const std::function<std::vector<std::string>(size_t)>& command_;
  const std::function<void(size_t, const ChildEnd&)>& ended_;
  std::mutex mutex_;
  size_t next_ = 0;
  std::exception_ptr failed_;
};

}  // namespace

void run_in_children(size_t count, size_t parallel, milliseconds limit,
                     const std::function<std::vector<std::string>(size_t)>& command,
                     const std::function<void(size_t, const ChildEnd&)>& ended) {
  if (count == 0) return;
  Pool pool(count, limit, command, ended);
  std::vector<std::thread> threads;
  const size_t others = std::clamp<size_t>(parallel, 1, count) - 1;
  while (threads.size() < others && start_thread(threads, [&] { pool.work(); })) {
  }
  pool.work();
  for (std::thread& thread : threads) thread.join();
  pool.finish();
}

}  // namespace gantry::conformance
