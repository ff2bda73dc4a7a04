// What bench reports of a program's time, and when a measurement is precise enough to end.
#pragma once

#include <optional>
#include <span>

#include "host/cli/statistics/samples.h"

namespace gantry::cli {

struct MedianInterval {
  double median_ms = 0;
  double low_ms = 0, high_ms = 0;
  size_t processes = 0;
  bool blind_to_processes = false;  ///< from one process: others may differ by more than it says

  /// Half the width over the median: what StopRule looks at.
  double relative_half_width() const { return (high_ms - low_ms) / 2 / median_ms; }
};

/// The time that a process of this program takes: the geometric mean of the processes' medians (robust_mean
/// of their logarithms), with Student's interval between processes. Not the median of medians: for 2 to 10
/// processes that has no such interval. One process: its median and log_median_within, which holds for that
/// process alone, or, where `unseen_spread` is not 0, for processes whose logarithms differ by that standard
/// deviation. User error for no processes, a single one with fewer than kFewestSamples, or samples that are
/// not positive times.
MedianInterval median_interval(std::span<const ProcessSamples> processes, double unseen_spread = 0,
                               double confidence = 0.95);

/// By how much the later half of the processes took longer than the earlier one (relative; negative: less),
/// where that stands out from their scatter at 99 % (Welch's test of the robust means): the machine itself
/// became slower or faster, as virtual machines do whose neighbours change, and the interval, which takes
/// processes for independent, promises too much. Nothing where it does not stand out, or of fewer than 8
/// processes.
std::optional<double> drift_between_processes(std::span<const ProcessSamples> processes);

enum class StopReason { kPrecision, kTimeLimit };

/// Rounds or processes before precision is looked at.
inline constexpr size_t kFewestForPrecision = 8;

/// When a measurement that adds rounds (or processes) one by one ends: on its precision, never on its
/// verdict, since who may stop whenever the interval excludes 1 finds a difference sooner or later (Armitage,
/// McPherson and Rowe, "Repeated significance tests on accumulating data", JRSS A 132, 1969). Stopping on
/// precision still picks moments at which the scatter looks small, so that fixed-width sequential intervals
/// cover less than they say (Anscombe, "Sequential estimation", JRSS B 15, 1953): with looks after each round
/// from the third, 10 % of comparisons of identical programs claim a difference, from the eighth 7.6 %. Here
/// looks begin at kFewestForPrecision, a quarter more rounds follow the look that was good enough, which
/// dilutes the chance, and t_interval makes an allowance: at most 5.0 % on a quiet machine, segments that
/// follow each other alike (AR(1), 0.8) included; other load was not simulated with this rule.
struct StopRule {
  double goal = 0.01;  ///< half-width of the interval, relative
  double time_limit_s = 60;

  /// After each round, in order: `count` of them by now, `half_width` (relative) of the interval from all.
  std::optional<StopReason> after(size_t count, double half_width, double elapsed_s);

 private:
  size_t enough_ = 0;  ///< rounds to stop at; 0: not known yet
};

}  // namespace gantry::cli
