// The pulses of a benchmark: between its samples, seldom enough to cost nothing.
#pragma once

#include <optional>
#include <vector>

#include "device_runtime/src/core_pulse.h"

namespace gantry::runtime {

struct PulseReading {
  double at_ms = 0;  ///< when it was over, by CLOCK_MONOTONIC
  CorePulse::Value value;
};

/// Makes pulses on the thread that calls it, which is the one that runs the session. Keeps those of the whole
/// benchmark, however long it is: once there are kMostPulses, every second one is left out, and new ones come
/// half as often.
class PulseLog {
 public:
  static constexpr size_t kMostPulses = 8192;

  /// `pulse`: none where this machine shows nothing; all that follows then does nothing.
  explicit PulseLog(std::optional<CorePulse> pulse = std::nullopt) : pulse_(std::move(pulse)) {}

  /// Forgets what was, and makes a pulse: before the first sample.
  void begin();
  /// Makes a pulse where the last one was a hundred times ago what one takes; between samples.
  void look();
  /// Makes one; after the last sample.
  void finish() { beat(); }

  std::vector<PulseReading> take() { return std::move(readings_); }

 private:
  void beat();

  std::optional<CorePulse> pulse_;
  std::vector<PulseReading> readings_;
  double cost_ms_ = 0;  ///< of the cheapest; others waited for the system
  double sparse_ = 1;   ///< by how much rarer they have become
};

}  // namespace gantry::runtime
