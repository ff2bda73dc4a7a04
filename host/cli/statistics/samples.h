// Timings of one process: their median, and how well they show it.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "host/cli/statistics/estimate.h"

namespace gantry::cli {

/// One process's samples, in the order taken (ms a run).
struct ProcessSamples {
  std::vector<double> samples_ms;
};

/// Least, mean and standard deviation (n - 1; 0 for one value) of values in any order, at least one.
struct Spread {
  double min = 0, mean = 0, stddev = 0;
};
Spread spread_of(std::span<const double> values);

/// Fewest samples that show the spread within a process.
inline constexpr size_t kFewestSamples = 5;

/// Logarithm of the median of times. User error naming `what` ("the first result") for none, or where one is
/// not a positive time.
double log_median(std::span<const double> times_ms, std::string_view what);

/// That of a process's samples, as an estimate of what this process would show if it ran for ever; other
/// processes may differ.
///
/// The variance is that of a median of independent samples by Price and Bonett, times what correlation
/// between neighbours adds. For samples like an AR(1) process with correlation r of neighbours, the mean of n
/// has the share g = (1 + 2 sum_k (1 - k / n) r^k) / n of one sample's variance, and the samples' spread
/// around their own mean has 1 - g of it, n / (n - 1) corrected: together the variance grows by g (n - 1) /
/// (1 - g), and 1 / g samples are worth something. For r the upper bound (90 %) of what is found is taken: it
/// is 0.8 to 0.9 for 5 samples whatever these are, so that few samples give wide intervals (of a scatter of 2
/// %: 13 % for 5 samples, 5 % for 10, 2 % for 20, 1 % for 50, 0.6 % for 100, where an interval that took
/// independence for granted would have 3 to 0.5 %). In simulations with r up to 0.8, skewed, bimodal and with
/// outliers, at most 4.5 % of intervals miss, for 0.9 6 %. User error for fewer than kFewestSamples.
Estimate log_median_within(const ProcessSamples& process, std::string_view what);

}  // namespace gantry::cli
