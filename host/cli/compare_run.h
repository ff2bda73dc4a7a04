// The measuring loop of `gantry compare`: two programs in turns.
#pragma once

#include <functional>

#include "host/cli/bench_run.h"
#include "host/cli/statistics/comparison.h"
#include "host/cli/statistics/median_interval.h"

namespace gantry::cli {

/// One of the two programs, and how it gets a fresh process.
struct Contestant {
  Execution& execution;
  std::function<double(Execution&)> restart;  ///< the seconds that it waited for others who measure
  FormerPulses& former;                       ///< of its machine
};

struct CompareMeasureOptions {
  CompareOptions statistics;
  double duration_s = 30;          ///< new rounds begin until then at most
  std::optional<uint32_t> rounds;  ///< exactly so many; none: until the interval is narrow
  MeasureOptions measure;          ///< cold, cool-down and warm-up; the rest does not count
  uint64_t seed = 0;               ///< of the order
};

/// One that was measured, of a process of each side.
struct PlayedRound {
  double ratio = 1;      ///< round_ratio: of what counts in it; of a round that does not count, of all
  bool counts = true;    ///< false: too much of it was disturbed
  double began_ms[2]{};  ///< when each side's first sample was asked for, since the first of all
};

struct LiveComparison {
  Comparison comparison;
  std::vector<PlayedRound> rounds;  ///< each of the processes with the same index
  Measurement first, second;        ///< every process's samples
  StopReason stopped = StopReason::kPrecision;
  double elapsed_s = 0;
};

/// Rounds of one fresh process of each program. In a round both are warmed up until steady, then sampled in
/// turns, some 50 ms each, in random order. Ends when the half-width of the ratio's interval is at most the
/// smallest effect (never by what the ratio is, which would claim differences where there are none), or the
/// time is up; at least kFewestRounds are made. What was disturbed does not count, by one rule for both
/// (choose_rounds) and, where machine, threads and CPUs are the same, one level of pulses; it is measured
/// again while there is time.
LiveComparison compare_live(Contestant first, Contestant second, const CompareMeasureOptions& options,
                            const MeasureProgress& progress);

}  // namespace gantry::cli
