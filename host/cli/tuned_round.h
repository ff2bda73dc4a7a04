// One round of a trial: a process of the base and one of the trial, whose kernels are timed in turns.
#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

#include "host/cli/machine.h"
#include "host/cli/statistics/comparison.h"
#include "host/cli/statistics/rounds.h"
#include "host/support/random.h"

namespace gantry::cli {

/// The kernels of one process.
struct ProfiledProcess {
  double run_ms = 0;            ///< of the whole network
  std::vector<double> step_ms;  ///< by index in the plan
  int threads = 0;
  /// Of a run, those steps together. Above 0.
  double ms_of(const std::vector<size_t>& steps) const;
};
/// Warms up and times each step. Throws what Machine::benchmark throws, and OutOfTime where gantry-device's
/// deadline left no time for the steps.
ProfiledProcess profile_process(Machine& machine);

/// Runs once; a board error where it takes longer. (Machine::run has no deadline.)
void run_until(Machine& machine, std::chrono::milliseconds deadline);

/// Both machines: fresh processes with their program and its inputs, which the caller times step by step, so
/// that it knows whose failure is whose. Throws what Machine::benchmark throws, and OutOfTime where a
/// deadline left no time for the steps. Deadlines are of each request.
class TunedRound {
 public:
  /// `thorough`: more pairs. The machines and `random` are not used once the round is over.
  TunedRound(Machine& base, Machine& trial, Random& random, bool thorough)
      : sides_{&base, &trial}, random_(&random), shape_(thorough ? kThoroughTrial : kQuickTrial) {}

  void warm_up_base() { warm_up(0, {}); }
  void warm_up_trial(std::chrono::milliseconds deadline) { warm_up(1, deadline); }

  /// Both are warm: until there are enough pairs.
  bool wants_more() const;
  /// Who goes first in the next pair, by chance.
  bool next_is_trial() { return random_->uniform() < 0.5; }
  void time_base() { time(0, {}); }
  void time_trial(std::chrono::milliseconds deadline) { time(1, deadline); }

  Round of_steps(const std::vector<size_t>& base, const std::vector<size_t>& trial) const;
  Round whole() const;

  /// That one request asks for at most.
  static constexpr int kMostRuns = 100;

 private:
  void warm_up(size_t side, std::chrono::milliseconds deadline);
  void time(size_t side, std::chrono::milliseconds deadline);
  size_t pairs() const;

  Machine* sides_[2];
  Random* random_;
  RoundShape shape_;
  double run_ms_[2] = {0, 0};
  std::vector<ProfiledProcess> segments_[2];  ///< pairs
};

}  // namespace gantry::cli
