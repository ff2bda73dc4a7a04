#include "host/cli/statistics/weighted_mean.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "host/support/error.h"

namespace gantry::cli {
namespace {

/// Less than any timing tells apart, squared: values that agree to the last digit are not known any better.
constexpr double kLeastVariance = 1e-10;
/// Steps towards the estimate from the median; each leaves a fraction of the distance.
constexpr int kSteps = 20;

/// They add up to one.
std::vector<double> weights_of(std::span<const double> variances) {
  const double between = std::max(kLeastVariance, median_of(variances));
  std::vector<double> weights;
  double sum = 0;
  for (double variance : variances) sum += weights.emplace_back(1 / (variance + between));
  for (double& weight : weights) weight /= sum;
  return weights;
}

/// 1 for a value in the middle, 0 for one out of reach; `distance` over the reach.
double nearness(double distance) {
  return std::max(0.0, 1 - distance * distance);
}

/// The biweight's location: values are weighed by their nearness, squared.
double located(std::span<const double> values, std::span<const double> weights, double reach) {
  double middle = median_of(values);
  for (int step = 0; step < kSteps; ++step) {
    double sum = 0, weighed = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const double near = nearness((values[i] - middle) / reach);
      weighed += weights[i] * near * near * values[i];
      sum += weights[i] * near * near;
    }
    middle = weighed / sum;
  }
  return middle;
}

}  // namespace

Estimate weighted_mean(std::span<const double> values, std::span<const double> variances) {
  internal_check(values.size() == variances.size() && values.size() >= kFewestTrimmed,
                 "a weighted mean of {} values with {} variances", values.size(), variances.size());
  const auto count = static_cast<double>(values.size());
  const std::vector<double> weights = weights_of(variances);
  const double reach = kReach * std::max(std::sqrt(kLeastVariance), robust_deviation(values));
  const double middle = located(values, weights, reach);
  double squares = 0, slope = 0, squared_weights = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double distance = values[i] - middle, near = nearness(distance / reach);
    const double influence = weights[i] * near * near * distance;
    squares += influence * influence;
    // Its derivative: with u for the distance over the reach, (1 - u^2) (1 - 5 u^2) where that is within
    // reach.
    slope += weights[i] * near * (5 * near - 4);
    squared_weights += weights[i] * weights[i];
  }
  // Where hardly anything lies near the middle, little is known.
  slope = std::max(slope, 1 / count);
  return {middle, squares / (slope * slope) * count / (count - 1), slope / squared_weights - 1};
}

}  // namespace gantry::cli
