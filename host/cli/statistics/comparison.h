// Is one program faster than another? Intervals and verdicts that hold for identical programs too.
//
// What scatters. Runs of one process scatter, and neighbours resemble each other. Processes of the very same
// program differ by 1 to 2 % as well: pages, huge pages and threads fall elsewhere, and stay there for the
// life of the process. More runs of one process do not show that. The unit of every interval here is
// therefore the process (or the round, a process of each side), and its degrees of freedom count processes.
//
// Standard errors. A hierarchical bootstrap that draws rounds with replacement and the pairs within each
// without (strategy 1 of Davison and Hinkley, "Bootstrap Methods and their Application", 1997, section 3.8;
// drawing both with replacement counts the scatter within twice) has for a mean of rounds a variance in
// closed form: that of the rounds over their number, times (n - 1) / n. That is computed, without the factor,
// which makes intervals of few rounds too narrow, and of robust means what corresponds to it; nothing is
// drawn, so the same measurements give the same result. Student's t serves few rounds: from 3 on the interval
// is honest, if wide.
//
// Claims. Faster or slower is claimed where the interval excludes 1 and the ratio differs from 1 by at least
// the smallest effect; the same where the whole interval lies within it. In simulations of identical programs
// (independent and AR(1) samples up to 0.8, processes that differ by 0.5 to 2 %, 5 to 100 samples with a
// scatter of 0.5 to 5 % and slow outliers, 1 to 10 processes a side; 3 to 20 rounds, also with a second
// program on half of the time; with rounds added until they are precise enough only on a quiet machine) at
// most 6 % of comparisons claim a difference.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "host/cli/statistics/samples.h"

namespace gantry::cli {

/// Medians of two segments next to each other in time (ms a run), one of each side.
struct SegmentPair {
  double base_ms = 0, other_ms = 0;
};

/// One process of each side, measured in turns. Whoever measures takes turns with the order, too: what goes
/// first in each pair of one round goes second in some other.
struct Round {
  std::vector<SegmentPair> pairs;
};

/// What a round says of the other over the base: the median over its pairs. User error for a round without
/// pairs, or a median that is not a positive time.
double round_ratio(const Round& round);

struct CompareOptions {
  double smallest_effect = 0.01;  ///< relative; a smaller difference is not claimed
  double confidence = 0.95;       ///< of the interval, two-sided
};

/// Of the other against the base.
enum class Verdict {
  kFaster,
  kSlower,
  kSame,      ///< shown to lie within the smallest effect
  kNotShown,  ///< the measurement cannot tell
};
/// "faster", "slower", "same", "not shown".
std::string_view verdict_name(Verdict verdict);

/// What made an interval wider than the scatter that was measured.
enum class Widening {
  kFewProcesses,          ///< fewer than kFewProcesses rounds or processes of a side: Student's t is wide
  kAssumedProcessSpread,  ///< a side of one process: kAssumedProcessSpread
  kExtraSpread,           ///< the caller's, for circumstances that differed
};
/// A phrase for people, to follow "wider because of".
std::string_view widening_text(Widening widening);
inline constexpr size_t kFewProcesses = 5;

struct Comparison {
  double base_median_ms = 0, other_median_ms = 0;  ///< of the medians of the processes
  double ratio = 1;                                ///< other over base: below 1, the other is faster
  double low = 1, high = 1;                        ///< interval of the ratio
  Verdict verdict = Verdict::kNotShown;
  size_t base_processes = 0, other_processes = 0;
  std::vector<Widening> widened;

  /// Half the interval's width over the ratio: what StopRule looks at.
  double relative_half_width() const { return (high - low) / 2 / ratio; }
};

/// Fewest rounds that an interval is made from.
inline constexpr size_t kFewestRounds = 3;

/// A live comparison. A round's ratio is the median over its pairs (of median, interquartile mean and mean it
/// scatters least where another program slows single segments by 30 to 100 %); their logarithms are averaged,
/// from kFewestTrimmed rounds on by weighted_mean: a round whose pairs disagree counts less, and one of
/// twelve that was spoiled as a whole does not decide. The ratio is that of neighbours in time, and need not
/// be exactly that of the two medians. User error for fewer than kFewestRounds, a round without pairs, or a
/// median that is not a positive time.
Comparison compare_rounds(std::span<const Round> rounds, const CompareOptions& options = {});

/// By how much (standard deviation, relative) processes of one program are assumed to differ where a side has
/// one.
inline constexpr double kAssumedProcessSpread = 0.02;

/// Two results that were measured apart, one or more processes each.
/// Sides of several processes: Welch's interval of their log medians, where neither side is taken to scatter
/// less than both together, since of two processes that happen to agree it cannot be said that they always
/// do. A side of one process: kAssumedProcessSpread, or the spread of the other side where that is larger,
/// and the uncertainty within the process (log_median_within). `extra_spread` (standard deviation, relative)
/// is added to each side, for what differed between both besides the program: another machine of the same
/// kind, another day, another load. User error for a side without processes, a process without samples, a
/// side's only process with fewer than kFewestSamples, or samples that are not positive times.
Comparison compare_processes(std::span<const ProcessSamples> base, std::span<const ProcessSamples> other,
                             const CompareOptions& options = {}, double extra_spread = 0);

}  // namespace gantry::cli
