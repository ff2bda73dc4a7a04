// Programs that a tuner wants built, for whoever builds them: this machine, or compile hosts.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <future>
#include <memory>
#include <mutex>
#include <variant>
#include <vector>

#include "device_runtime/src/memory.h"
#include "host/tune/measurer.h"
#include "host/tune/task.h"

namespace gantry::cli {

/// A program by some choices.
struct TunedProgram {
  runtime::SharedBytes module;
  std::vector<std::vector<size_t>> steps;  ///< as of tune::BuiltNetwork
};
using TunedProgramPtr = std::shared_ptr<const TunedProgram>;
/// Or why there is none, which is the choices' fault.
using Built = std::variant<TunedProgramPtr, tune::Failure>;

/// One that is wanted. Whoever takes it finishes it, fails, or gives it back.
struct BuildJob {
  tune::Choices choices;
  size_t lost = 0;       ///< so many hosts have taken it and gone
  bool settled = false;  ///< the promise is kept
  std::promise<Built> promise = {};
};
using BuildJobPtr = std::shared_ptr<BuildJob>;

/// Jobs in their order. Hosts come first: this machine takes what no host is free for, and, with nothing else
/// to do, what a host has been at for too long. Then the first answer counts. Every function may be called by
/// any thread.
class BuildQueue {
 public:
  std::shared_future<Built> add(tune::Choices choices);
  /// What nobody has taken is not wanted any more: futures of it throw. What a host gives back from now on is
  /// neither.
  void clear();

  /// For this machine, by one thread: waits for a job that is its own to do. Null: none waits, and none is
  /// under way that could come back.
  BuildJobPtr take_here();
  /// For a host, which counts as free meanwhile: waits at most so long. Null: there was none. A job that
  /// several hosts have not survived is none for them. After `due` this machine may build it as well.
  BuildJobPtr take_elsewhere(std::chrono::milliseconds patience,
                             std::chrono::milliseconds due = std::chrono::hours(24));

  /// Nothing happens where another has finished it.
  void finish(const BuildJobPtr& job, Built built);
  /// As finish(); what went wrong is not the choices' fault, and is thrown where the program is used.
  void fail(const BuildJobPtr& job, std::exception_ptr why);
  /// The host is gone: it is the next one to be taken, unless this machine is at it.
  void give_back(const BuildJobPtr& job);
  /// As give_back(); by this machine.
  void give_back_here(const BuildJobPtr& job);

  /// Hosts that may be lost by a job.
  static constexpr size_t kMostLost = 2;

 private:
  using Clock = std::chrono::steady_clock;
  /// What only a host builds.
  struct Elsewhere {
    BuildJobPtr job;
    Clock::time_point due;
  };

  size_t for_hosts() const;
  BuildJobPtr take(std::deque<BuildJobPtr>::iterator job);
  bool take_back(const BuildJobPtr& job);
  void put_back(const BuildJobPtr& job, size_t losses);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<BuildJobPtr> waiting_;
  std::vector<Elsewhere> elsewhere_;
  size_t free_hosts_ = 0;
};

}  // namespace gantry::cli
