#include "host/cli/statistics/comparison.h"

#include <algorithm>
#include <cmath>

#include "host/cli/statistics/weighted_mean.h"
#include "host/support/error.h"

namespace gantry::cli {
namespace {

/// Least standard deviation between processes: timings that agree to the last digit of a coarse clock do not
/// show that they are equal.
constexpr double kLeastSpread = 1e-4;

Verdict verdict_of(const Comparison& c, double smallest_effect) {
  if (c.low >= 1 - smallest_effect && c.high <= 1 + smallest_effect) return Verdict::kSame;
  if (std::abs(c.ratio - 1) < smallest_effect) return Verdict::kNotShown;
  if (c.high < 1) return Verdict::kFaster;
  return c.low > 1 ? Verdict::kSlower : Verdict::kNotShown;
}

void conclude(Comparison& c, const Estimate& log_ratio, const CompareOptions& options) {
  const Interval interval = t_interval(log_ratio, options.confidence);
  c.ratio = std::exp(log_ratio.value);
  c.low = std::exp(interval.low);
  c.high = std::exp(interval.high);
  c.verdict = verdict_of(c, options.smallest_effect);
  if (std::min(c.base_processes, c.other_processes) < kFewProcesses)
    c.widened.push_back(Widening::kFewProcesses);
}

double checked_log_ratio(const SegmentPair& pair) {
  const bool times =
      pair.base_ms > 0 && pair.other_ms > 0 && std::isfinite(pair.base_ms) && std::isfinite(pair.other_ms);
  if (!times) user_error("a segment's median is not a positive time: take more runs a segment");
  return std::log(pair.other_ms / pair.base_ms);
}

std::vector<double> log_ratios_of(const Round& round) {
  if (round.pairs.empty()) user_error("a round of the comparison has no segments: give it more time");
  std::vector<double> ratios;
  for (const SegmentPair& pair : round.pairs) ratios.push_back(checked_log_ratio(pair));
  return ratios;
}

/// Of the median of normally distributed values, over that of their mean, for standard errors.
constexpr double kMedianError = 1.2533;

/// Of a round's log ratio, from how far its pairs agree.
double variance_within(std::span<const double> pairs) {
  const double error = kMedianError * robust_deviation(pairs);
  return error * error / static_cast<double>(pairs.size());
}

/// Few rounds do not say whom to trust: they count alike.
Estimate mean_of_rounds(std::span<const double> log_ratios, std::span<const double> variances) {
  return log_ratios.size() < kFewestTrimmed ? robust_mean(log_ratios) : weighted_mean(log_ratios, variances);
}

/// One side of a comparison of processes.
struct Side {
  Estimate log_median;
  std::vector<double> medians;  ///< logarithms, one a process
  bool single() const { return medians.size() == 1; }
};

Side side_of(std::span<const ProcessSamples> processes, std::string_view which) {
  if (processes.empty()) user_error("{} has no processes", which);
  Side side;
  for (const ProcessSamples& process : processes)
    side.medians.push_back(log_median(process.samples_ms, which));
  side.log_median = side.single() ? log_median_within(processes.front(), which) : robust_mean(side.medians);
  return side;
}

double processes_of(const Side& side) {
  return static_cast<double>(side.medians.size());
}

/// A side of one process differs from other processes of its own program by as much as is assumed, or by what
/// the other side shows where that is more.
void assume_spread(Side& side, const Side& opposite) {
  if (!side.single()) return;
  double variance = kAssumedProcessSpread * kAssumedProcessSpread;
  if (!opposite.single())
    variance = std::max(variance, robust_mean(opposite.medians).variance * processes_of(opposite));
  side.log_median = with_known_variance(side.log_median, variance);
}

/// Where a side shows less spread than both together, it is taken to have theirs: Welch's interval errs in 10
/// % of comparisons of 2 processes with 10, which a small spread of the two by chance makes too narrow.
void share_spread(Side& a, Side& b) {
  if (a.single() || b.single()) return;
  const double of_a = a.log_median.variance * processes_of(a), of_b = b.log_median.variance * processes_of(b);
  const double degrees_a = a.log_median.degrees, degrees_b = b.log_median.degrees;
  const double pooled = (of_a * degrees_a + of_b * degrees_b) / (degrees_a + degrees_b);
  a.log_median.variance = std::max(of_a, pooled) / processes_of(a);
  b.log_median.variance = std::max(of_b, pooled) / processes_of(b);
}

}  // namespace

std::string_view verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kFaster:
      return "faster";
    case Verdict::kSlower:
      return "slower";
    case Verdict::kSame:
      return "same";
    case Verdict::kNotShown:
      break;
  }
  return "not shown";
}

std::string_view widening_text(Widening widening) {
  switch (widening) {
    case Widening::kFewProcesses:
      return "fewer than 5 processes a side";
    case Widening::kAssumedProcessSpread:
      return "a side of one process: processes of one program are assumed to differ by 2 %";
    case Widening::kExtraSpread:
      break;
  }
  return "what else differed between both results";
}

double round_ratio(const Round& round) {
  return std::exp(median_of(log_ratios_of(round)));
}

Comparison compare_rounds(std::span<const Round> rounds, const CompareOptions& options) {
  if (rounds.size() < kFewestRounds) {
    user_error("a comparison needs at least {} rounds, {} were measured: give it more time", kFewestRounds,
               rounds.size());
  }
  Comparison result;
  result.base_processes = result.other_processes = rounds.size();
  std::vector<double> log_ratios, variances, base, other;
  for (const Round& round : rounds) {
    const std::vector<double> pairs = log_ratios_of(round);
    std::vector<double> base_ms, other_ms;
    for (const SegmentPair& pair : round.pairs) {
      base_ms.push_back(pair.base_ms);
      other_ms.push_back(pair.other_ms);
    }
    log_ratios.push_back(median_of(pairs));
    variances.push_back(variance_within(pairs));
    base.push_back(median_of(base_ms));
    other.push_back(median_of(other_ms));
  }
  result.base_median_ms = median_of(base);
  result.other_median_ms = median_of(other);
  const double least = kLeastSpread * kLeastSpread / static_cast<double>(rounds.size());
  conclude(result, with_known_variance(mean_of_rounds(log_ratios, variances), least), options);
  return result;
}

Comparison compare_processes(std::span<const ProcessSamples> base, std::span<const ProcessSamples> other,
                             const CompareOptions& options, double extra_spread) {
  Side first = side_of(base, "the first result"), second = side_of(other, "the second result");
  Comparison result;
  result.base_processes = base.size();
  result.other_processes = other.size();
  result.base_median_ms = std::exp(median_of(first.medians));
  result.other_median_ms = std::exp(median_of(second.medians));
  if (first.single() || second.single()) result.widened.push_back(Widening::kAssumedProcessSpread);
  if (extra_spread > 0) result.widened.push_back(Widening::kExtraSpread);
  assume_spread(first, second);
  assume_spread(second, first);
  share_spread(first, second);
  const double added = 2 * (kLeastSpread * kLeastSpread + extra_spread * extra_spread);
  conclude(result, with_known_variance(difference(second.log_median, first.log_median), added), options);
  return result;
}

}  // namespace gantry::cli
