// What former commands know of a machine's pulses, beside what this one sees.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "host/cli/measurement.h"
#include "host/cli/pulse_memory.h"

namespace gantry::cli {

/// Of one machine, for one command.
class FormerPulses {
 public:
  /// `cpus`: where threads are pinned, as given.
  FormerPulses(PulseMemory memory, std::string cpus) : memory_(std::move(memory)), cpus_(std::move(cpus)) {}

  /// The level of undisturbed pulses of measurements of this command and of former ones. None: not known, or
  /// no pulses were made.
  std::optional<double> level(std::span<const Measurement* const> measurements);
  /// Keeps what this command has seen for those that follow.
  void remember(std::span<const Measurement* const> measurements);

  /// What a measurement's pulses belong to (pulse_machine): of another, a level says nothing.
  std::string machine_of(const Measurement& measurement) const;

 private:
  PulseMemory memory_;
  std::string cpus_;
  std::optional<std::vector<double>> levels_;
};

}  // namespace gantry::cli
