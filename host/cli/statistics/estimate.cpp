#include "host/cli/statistics/estimate.h"

#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "host/support/error.h"

namespace gantry::cli {
namespace {

std::vector<double> sorted(std::span<const double> values) {
  std::vector<double> copy(values.begin(), values.end());
  std::sort(copy.begin(), copy.end());
  return copy;
}

double interpolated(const std::vector<double>& sorted, double q) {
  const double position = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(position);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (position - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

/// Standard deviations of a normal distribution in its median distance from the middle: 1 over its 75 %
/// quantile.
constexpr double kDeviationsPerDistance = 1.4826022185056018;
/// Samples expected beyond a quantile for it to say something.
constexpr double kFewestBeyond = 5;
/// Beyond so many degrees of freedom Student's t is the normal distribution to six digits.
constexpr double kManyDegrees = 1e7;
constexpr double kFewestDegrees = 1;

}  // namespace

double median_of(std::span<const double> values) {
  return interpolated(sorted(values), 0.5);
}

double robust_deviation(std::span<const double> values) {
  const double middle = median_of(values);
  std::vector<double> distances;
  distances.reserve(values.size());
  for (double value : values) distances.push_back(std::abs(value - middle));
  return kDeviationsPerDistance * median_of(distances);
}

std::optional<double> percentile(std::span<const double> values, double q) {
  const double beyond = static_cast<double>(values.size()) * std::min(q, 1 - q);
  if (!(beyond > kFewestBeyond - 1e-9)) return std::nullopt;
  return interpolated(sorted(values), q);
}

Estimate robust_mean(std::span<const double> values) {
  std::vector<double> ordered = sorted(values);
  const size_t count = ordered.size();
  const size_t cut = count < kFewestTrimmed ? 0 : count / 6;
  const auto kept = static_cast<double>(count - 2 * cut);
  double mean = 0;
  for (size_t i = cut; i < count - cut; ++i) mean += ordered[i] / kept;
  // Winsorized: what was cut off counts as the outermost value that was kept.
  for (size_t i = 0; i < cut; ++i) {
    ordered[i] = ordered[cut];
    ordered[count - 1 - i] = ordered[count - 1 - cut];
  }
  double winsorized_mean = 0, squares = 0;
  for (double value : ordered) winsorized_mean += value / static_cast<double>(count);
  for (double value : ordered) squares += (value - winsorized_mean) * (value - winsorized_mean);
  return {mean, squares / (kept * (kept - 1)), kept - 1 - static_cast<double>(cut)};
}

Estimate difference(const Estimate& a, const Estimate& b) {
  const double variance = a.variance + b.variance;
  const double share = a.variance * a.variance / a.degrees + b.variance * b.variance / b.degrees;
  const double degrees = share > 0 ? variance * variance / share : std::numeric_limits<double>::infinity();
  return {a.value - b.value, variance, degrees};
}

Estimate with_known_variance(Estimate a, double variance) {
  return difference(a, {0, variance, std::numeric_limits<double>::infinity()});
}

double t_quantile(double confidence, double degrees) {
  internal_check(confidence > 0 && confidence < 1, "an interval of confidence {}", confidence);
  const double tail = (1 - confidence) / 2;
  using boost::math::complement;
  // Fewer than one tell no more than that nothing is known; boost must not throw for them.
  degrees = std::max(kFewestDegrees, degrees);
  if (degrees > kManyDegrees) return quantile(complement(boost::math::normal(), tail));
  return quantile(complement(boost::math::students_t(degrees), tail));
}

Interval t_interval(const Estimate& estimate, double confidence) {
  const double level = 1 - (1 - confidence) * kStoppingAllowance;
  const double half = t_quantile(level, estimate.degrees) * std::sqrt(estimate.variance);
  return {estimate.value - half, estimate.value + half};
}

}  // namespace gantry::cli
