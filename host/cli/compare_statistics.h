// Is one set of timings faster than another?
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace gantry::cli {

enum class Verdict { kFaster, kSlower, kNoDifference };
std::string_view verdict_name(Verdict verdict);

struct Comparison {
  double base_median = 0, other_median = 0;
  double ratio = 1;                          ///< other_median / base_median: below 1, the other is faster
  double low = 1, high = 1;                  ///< 95 % confidence interval of the ratio
  Verdict verdict = Verdict::kNoDifference;  ///< of the other against the base, where the interval excludes 1
};

/// Fewest samples a side that an interval can be made from.
inline constexpr size_t kFewestSamples = 5;

/// Ratio of medians with a bootstrap interval (Efron and Tibshirani, "An Introduction to the Bootstrap",
/// 1993, chapter 13: percentiles of the resampled statistic). Consecutive timings resemble each other, so
/// resamples draw runs of about n^(1/3) neighbours (circular block bootstrap, Politis and Romano, 1992). The
/// same samples give the same result. User error with fewer than kFewestSamples, or a median that is not
/// positive.
Comparison compare_samples(std::span<const double> base, std::span<const double> other, uint64_t seed = 0);

/// Middle of the sorted values, mean of the two middle ones for an even count. Must not be empty.
double median_of(std::span<const double> values);
/// Linear interpolation between order statistics; `fraction` from 0 to 1. Must not be empty.
double percentile_of(std::span<const double> values, double fraction);

}  // namespace gantry::cli
