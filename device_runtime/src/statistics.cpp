#include "device_runtime/src/statistics.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace gantry::runtime {
namespace {

double quantile(const std::vector<double>& sorted, double q) {
  const double position = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(position);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (position - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

}  // namespace

Statistics summarize(std::span<const double> samples) {
  Statistics result;
  if (samples.empty()) return result;
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  const auto count = static_cast<double>(sorted.size());
  for (double sample : sorted) result.mean += sample / count;
  for (double sample : sorted) result.stddev += (sample - result.mean) * (sample - result.mean);
  result.stddev = sorted.size() > 1 ? std::sqrt(result.stddev / (count - 1)) : 0;
  result.min = sorted.front();
  result.max = sorted.back();
  result.median = quantile(sorted, 0.5);
  result.p90 = quantile(sorted, 0.9);
  result.p99 = quantile(sorted, 0.99);
  return result;
}

double median(std::span<const double> samples) {
  return summarize(samples).median;
}

}  // namespace gantry::runtime
