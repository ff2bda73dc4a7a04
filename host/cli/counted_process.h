// What a process executes, counted where that is the measure instead of time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "host/cli/machine.h"
#include "host/tune/measurer.h"

namespace gantry::cli {

/// The instructions of one run of one process.
struct CountedProcess {
  std::vector<uint64_t> steps;  ///< by index in the plan
  double run_ms = 0;            ///< what a run takes there; for deadlines
  int threads = 0;
  /// Those steps together; 1 at least.
  double of_steps(const std::vector<size_t>& some) const;
  double whole() const;
};

/// Runs some times, the last one counted. Throws what Machine::benchmark throws; OutOfTime where the deadline
/// (0: gantry-device's own) was over before that; a board error that names the machine and why where nothing
/// counts there.
CountedProcess count_process(Machine& machine, std::chrono::milliseconds deadline);

/// A fresh process of the base, and one of the trial.
struct CountedPair {
  CountedProcess base, trial;
};

/// Of amounts of as many processes of each side, at least one; all above 0. The same program executes the
/// same in each of them, or nearly: the interval reaches from the least to the greatest ratio that they have.
tune::Ratio ratio_of_counts(const std::vector<double>& base, const std::vector<double>& trial);

/// The ratios of the trials, and of the whole network. `base` and `other`: each task's steps in the two
/// programs. At least one pair.
tune::Batch batch_of(const std::vector<CountedPair>& pairs, const std::vector<tune::Trial>& trials,
                     const std::vector<std::vector<size_t>>& base,
                     const std::vector<std::vector<size_t>>& other);

}  // namespace gantry::cli
