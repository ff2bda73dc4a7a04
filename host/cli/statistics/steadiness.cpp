#include "host/cli/statistics/steadiness.h"

#include <algorithm>
#include <cmath>

#include "host/cli/statistics/estimate.h"

namespace gantry::cli {
namespace {

constexpr size_t kFewestWindows = 5;
constexpr double kLeastMs =
    750;  ///< clocks and second cores of virtual machines wake up within half a second
constexpr double kPatienceMs = 4300;  ///< then a trend that noise hides is not waited for
constexpr double kTolerance = 0.005;
constexpr double kConfidence = 0.95;

}  // namespace

void SteadinessDetector::add(double window_ms, double median_ms) {
  elapsed_ms_ += window_ms;
  log_medians_.push_back(std::log(median_ms));
}

bool SteadinessDetector::steady() const {
  if (log_medians_.size() < kFewestWindows || elapsed_ms_ < kLeastMs) return false;
  // The newer half against itself: its first part and its last.
  const size_t part = std::max<size_t>(2, log_medians_.size() / 4);
  const std::span<const double> all(log_medians_);
  const Estimate change =
      difference(robust_mean(all.last(part)), robust_mean(all.last(2 * part).first(part)));
  const double half_width = t_quantile(kConfidence, change.degrees) * std::sqrt(change.variance);
  if (std::abs(change.value) + half_width <= kTolerance) return true;
  return elapsed_ms_ >= kPatienceMs && std::abs(change.value) <= std::max(half_width, kTolerance);
}

}  // namespace gantry::cli
