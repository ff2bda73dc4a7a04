// Summaries of timing samples.
#pragma once

#include <span>

namespace gantry::runtime {

struct Statistics {
  double min = 0, median = 0, mean = 0, p90 = 0, p99 = 0, max = 0;
  double stddev = 0;  ///< of the samples (n - 1); 0 for a single one
};

/// All zero for no samples. Quantiles interpolate linearly between the two nearest samples.
Statistics summarize(std::span<const double> samples);
/// Median of samples in any order; 0 for none.
double median(std::span<const double> samples);

}  // namespace gantry::runtime
