#include "host/cli/statistics/median_interval.h"

#include <cmath>

#include "host/support/error.h"

namespace gantry::cli {
namespace {

/// After the look that was precise enough, one more round for so many that there were.
constexpr size_t kExtraShare = 4;

}  // namespace

MedianInterval median_interval(std::span<const ProcessSamples> processes, double confidence) {
  if (processes.empty()) user_error("the result has no processes");
  MedianInterval result;
  result.processes = processes.size();
  result.blind_to_processes = processes.size() == 1;
  Estimate estimate;
  if (result.blind_to_processes) {
    estimate = log_median_within(processes.front(), "the result");
  } else {
    std::vector<double> medians;
    for (const ProcessSamples& process : processes)
      medians.push_back(log_median(process.samples_ms, "the result"));
    estimate = robust_mean(medians);
  }
  const Interval interval = t_interval(estimate, confidence);
  result.median_ms = std::exp(estimate.value);
  result.low_ms = std::exp(interval.low);
  result.high_ms = std::exp(interval.high);
  return result;
}

std::optional<StopReason> StopRule::after(size_t count, double half_width, double elapsed_s) {
  if (enough_ == 0 && count >= kFewestForPrecision && half_width <= goal)
    enough_ = count + (count + kExtraShare - 1) / kExtraShare;
  if (enough_ > 0 && count >= enough_) return StopReason::kPrecision;
  if (elapsed_s >= time_limit_s) return StopReason::kTimeLimit;
  return std::nullopt;
}

}  // namespace gantry::cli
