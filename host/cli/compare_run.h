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
};

struct CompareMeasureOptions {
  CompareOptions statistics;
  double duration_s = 30;          ///< new rounds begin until then at most
  std::optional<uint32_t> rounds;  ///< exactly so many; none: until the interval is narrow
  MeasureOptions measure;          ///< cold, cool-down and warm-up; the rest does not count
  uint64_t seed = 0;               ///< of the order
};

struct LiveComparison {
  Comparison comparison;
  Measurement first, second;  ///< every process's samples
  StopReason stopped = StopReason::kPrecision;
  double elapsed_s = 0;
};

/// Rounds of one fresh process of each program. In a round both are warmed up until steady, then sampled in
/// turns, some 50 ms each, in random order. Ends when the half-width of the ratio's interval is at most the
/// smallest effect (never by what the ratio is, which would claim differences where there are none), or the
/// time is up; at least kFewestRounds are made. What was disturbed does not count, by one rule for both
/// (choose_rounds), and is measured again while there is time.
LiveComparison compare_live(Contestant first, Contestant second, const CompareMeasureOptions& options,
                            const MeasureProgress& progress, FormerPulses& former);

}  // namespace gantry::cli
