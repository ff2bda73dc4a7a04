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

/// When a measurement that adds rounds (or processes) one by one ends.
struct StopRule {
  double goal = 0.01;  ///< relative half-width of the interval
  size_t least = 8;    ///< rounds or processes before precision is looked at
  double time_limit_s = 60;
  /// `half_width` is relative, as of the interval of all that was measured.
  std::optional<StopReason> after(size_t count, double half_width, double elapsed_s) const;
};

}  // namespace gantry::cli
