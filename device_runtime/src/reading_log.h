// The readings of a run, as many as are worth keeping, and what they come to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "device_runtime/src/probes.h"

namespace gantry::runtime {

/// Of a whole run; what no reading shows is absent.
struct ReadingSummary {
  std::optional<double> mean_clock_mhz;  ///< over the CPUs and the time
  std::optional<double> highest_temperature_c;
  std::optional<int64_t> throttle_events;  ///< counted during the run
  std::optional<bool> throttled;           ///< at some time
  std::optional<double> energy_j;
  std::optional<double> others_share, steal_share;  ///< means over the time
};

/// Keeps readings of the whole run, however long it is: once there are as many as a report has room for,
/// every second one is left out, and new ones come half as often. A reading that is left out hands on to the
/// next what it says of the time before it. The summary is of all that were added.
class ReadingLog {
 public:
  /// `cpus`: how many clocks a reading has.
  explicit ReadingLog(size_t cpus);

  /// Whether the next reading is due: 100 ms or more after the last one, and no more than a twentieth of the
  /// time spent on them.
  bool is_due(double now_ms) const { return readings_.empty() || now_ms >= next_ms_; }
  /// `started_ms` and `now_ms`: when the reading began and was done, by the caller's clock.
  void add(ProbeReading reading, double started_ms, double now_ms);

  const std::vector<ProbeReading>& readings() const { return readings_; }
  std::vector<ProbeReading> take() { return std::move(readings_); }
  ReadingSummary summary() const;
  size_t capacity() const { return capacity_; }

 private:
  void count(const ProbeReading& reading);
  void thin_out();

  /// A mean over time: each value stands for the time since the one before.
  struct Mean {
    double sum = 0, weight = 0, last_ms = 0;
    std::optional<double> first;
    void add(double value, double at_ms);
    std::optional<double> value() const;
  };

  size_t capacity_;
  double interval_ms_ = 100;
  double next_ms_ = 0;
  std::vector<ProbeReading> readings_;
  Mean clock_, others_, steal_;
  std::optional<int64_t> first_count_;
  ReadingSummary summary_;
};

}  // namespace gantry::runtime
