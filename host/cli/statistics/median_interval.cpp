#include "host/cli/statistics/median_interval.h"

#include <cmath>
#include <vector>

#include "host/support/error.h"

namespace gantry::cli {
namespace {

/// After the look that was precise enough, one more round for so many that there were.
constexpr size_t kExtraShare = 4;

/// Processes that show a drift, and how sure it must be.
constexpr size_t kFewestForDrift = 8;
constexpr double kDriftConfidence = 0.99;

/// Of each process, in their order.
std::vector<double> log_medians(std::span<const ProcessSamples> processes) {
  std::vector<double> medians;
  for (const ProcessSamples& process : processes)
    medians.push_back(log_median(process.samples_ms, "the result"));
  return medians;
}

}  // namespace

MedianInterval median_interval(std::span<const ProcessSamples> processes, double unseen_spread,
                               double confidence) {
  if (processes.empty()) user_error("the result has no processes");
  MedianInterval result;
  result.processes = processes.size();
  result.blind_to_processes = processes.size() == 1 && unseen_spread == 0;
  Estimate estimate;
  if (processes.size() == 1) {
    estimate = with_known_variance(log_median_within(processes.front(), "the result"),
                                   unseen_spread * unseen_spread);
  } else {
    estimate = robust_mean(log_medians(processes));
  }
  const Interval interval = t_interval(estimate, confidence);
  result.median_ms = std::exp(estimate.value);
  result.low_ms = std::exp(interval.low);
  result.high_ms = std::exp(interval.high);
  return result;
}

std::optional<double> drift_between_processes(std::span<const ProcessSamples> processes) {
  if (processes.size() < kFewestForDrift) return std::nullopt;
  const std::vector<double> medians = log_medians(processes);
  const std::span<const double> all(medians);
  const size_t half = all.size() / 2;
  const Estimate change = difference(robust_mean(all.last(half)), robust_mean(all.first(half)));
  const double noise = t_quantile(kDriftConfidence, change.degrees) * std::sqrt(change.variance);
  if (std::abs(change.value) <= noise) return std::nullopt;
  return std::expm1(change.value);
}

std::optional<StopReason> StopRule::after(size_t count, double half_width, double elapsed_s) {
  if (enough_ == 0 && count >= kFewestForPrecision && half_width <= goal)
    enough_ = count + (count + kExtraShare - 1) / kExtraShare;
  if (enough_ > 0 && count >= enough_) return StopReason::kPrecision;
  if (elapsed_s >= time_limit_s) return StopReason::kTimeLimit;
  return std::nullopt;
}

}  // namespace gantry::cli
