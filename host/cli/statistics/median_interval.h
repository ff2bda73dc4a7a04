// What bench reports of a program's time, and when it has measured enough.
#pragma once

#include <optional>
#include <span>

#include "host/cli/statistics/samples.h"

namespace gantry::cli {

struct MedianInterval {
  double median_ms = 0;
  double low_ms = 0, high_ms = 0;
  size_t processes = 0;
  bool blind_to_processes = false;  ///< one process: another may differ by more than the interval
  /// Half the width over the median.
  double relative_half_width() const { return (high_ms - low_ms) / 2 / median_ms; }
};

/// Median time over processes.
MedianInterval median_interval(std::span<const ProcessSamples> processes, double confidence = 0.95);

enum class StopReason { kPrecision, kTimeLimit };

struct StopGoal {
  double half_width = 0.01;  ///< of the interval, relative
  double time_limit_s = 60;
};

/// When a measurement that adds rounds (or processes) one by one ends.
class StopRule {
 public:
  explicit StopRule(const StopGoal& goal) : goal_(goal) {}
  /// After each round: `count` of them by now, `half_width` (relative) of the interval from all of them.
  std::optional<StopReason> after(size_t count, double half_width, double elapsed_s);

 private:
  StopGoal goal_;
  size_t enough_ = 0;  ///< rounds to stop at; 0: not known yet
};
inline constexpr size_t kFewestForPrecision = 8;

}  // namespace gantry::cli
