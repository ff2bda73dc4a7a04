// Timings of one process: their median and how well they show it.
#pragma once

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

/// Logarithm of the process's median. User error naming `what` ("the first result") without samples, or where
/// the median is not a positive time.
double log_median(const ProcessSamples& process, const char* what);

/// Logarithm of the median of this process, as an estimate of the median that the same process would show if
/// it ran for ever: neighbouring samples resemble each other. It knows nothing of other processes. User error
/// for fewer than kFewestSamples.
Estimate log_median_within(const ProcessSamples& process, const char* what);

}  // namespace gantry::cli
