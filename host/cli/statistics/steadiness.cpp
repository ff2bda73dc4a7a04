#include "host/cli/statistics/steadiness.h"

#include <algorithm>
#include <cmath>

#include "host/cli/statistics/estimate.h"

namespace gantry::cli {
namespace {

constexpr size_t kFewestWindows = 5;
/// Clocks, and second cores of virtual machines, wake up within half a second.
constexpr double kLeastMs = 750;
/// Then a trend that noise hides is not waited for: of a curve with a time constant of 1 s that began at
/// twice the time, the following second has 0.8 %.
constexpr double kPatienceMs = 4300;
/// A change between quarters of so much leaves less than 1 % of such a curve to come.
constexpr double kTolerance = 0.0045;
constexpr double kConfidence = 0.95;

}  // namespace

void SteadinessDetector::add(double window_ms, double median_ms) {
  elapsed_ms_ += window_ms;
  log_medians_.push_back(std::log(median_ms));
}

SteadinessDetector::Change SteadinessDetector::change() const {
  // The newer half against itself: its first part and its last.
  const size_t part = std::max<size_t>(2, log_medians_.size() / 4);
  const std::span<const double> all(log_medians_);
  const Estimate estimate =
      difference(robust_mean(all.last(part)), robust_mean(all.last(2 * part).first(part)));
  return {estimate.value, t_quantile(kConfidence, estimate.degrees) * std::sqrt(estimate.variance)};
}

bool SteadinessDetector::steady() const {
  if (log_medians_.size() < kFewestWindows || elapsed_ms_ < kLeastMs) return false;
  const auto [value, half_width] = change();
  if (std::abs(value) + half_width <= kTolerance) return true;
  return elapsed_ms_ >= kPatienceMs && !trending();
}

bool SteadinessDetector::trending() const {
  if (log_medians_.size() < 4) return false;
  const auto [value, half_width] = change();
  return std::abs(value) > std::max(half_width, kTolerance);
}

}  // namespace gantry::cli
