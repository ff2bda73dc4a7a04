// How a tuner's trial fails on a machine: as exceptions, so that its rounds end.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <string>

#include "host/support/stopwatch.h"
#include "host/tune/measurer.h"
#include "rpc/error.h"

namespace gantry::cli {

/// What a trial has done.
struct TrialFailed {
  tune::Failure failure;
};

/// A request was answered, but its deadline, or gantry-device's own, left no time for what it was made for.
class OutOfTime : public rpc::Error {
 public:
  /// `machine`: its label; `what`: "time kernels".
  OutOfTime(const std::string& machine, const std::string& what)
      : rpc::Error(rpc::ErrorKind::kBoard,
                   fmt::format("{}: the deadline left no time to {}; where it is gantry-device's own "
                               "(--deadline), give it a longer one",
                               machine, what)) {}
};

/// `run` of the trial's process: what the board cannot do is the trial's fault (TrialFailed). Not so what it
/// could do later (kRetry), such as store a program where its disk is full. `deadline`: of each request.
template <typename Run>
auto of_trial(std::chrono::milliseconds deadline, const Run& run) {
  using records::Outcome;
  const Stopwatch taken;
  try {
    return run();
  } catch (const OutOfTime& error) {
    throw TrialFailed{{Outcome::kTimedOut, error.what()}};
  } catch (const rpc::Error& error) {
    if (error.kind() != rpc::ErrorKind::kBoard) throw;
    // The board says in words alone why it ended.
    const bool late = taken.seconds() * 1e3 > 0.9 * static_cast<double>(deadline.count());
    throw TrialFailed{{late ? Outcome::kTimedOut : Outcome::kCrashed, error.what()}};
  }
}

}  // namespace gantry::cli
