#include "host/cli/former_pulses.h"

#include <algorithm>

#include "host/cli/statistics/disturbance.h"

namespace gantry::cli {

std::string FormerPulses::machine_of(const Measurement& measurement) const {
  return pulse_machine(measurement.board, measurement.last.threads, cpus_);
}

std::optional<double> FormerPulses::level(std::span<const Measurement* const> measurements) {
  const bool any = std::ranges::any_of(measurements, [](const Measurement* measurement) {
    return std::ranges::any_of(measurement->processes,
                               [](const ProcessMeasurement& process) { return !process.pulses.empty(); });
  });
  if (!any) return std::nullopt;
  if (!levels_) levels_ = memory_.levels(machine_of(*measurements.front()));
  return level_with_former(level_of(measurements), *levels_);
}

void FormerPulses::remember(std::span<const Measurement* const> measurements) {
  if (const std::optional<double> seen = level_of(measurements))
    memory_.remember(machine_of(*measurements.front()), *seen);
}

}  // namespace gantry::cli
