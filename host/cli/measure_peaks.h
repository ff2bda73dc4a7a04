// Measures a machine's roofs with a module that is compiled for it.
#pragma once

#include <optional>
#include <string>

#include "host/cli/execution.h"
#include "host/cli/machine_peaks.h"
#include "host/cli/measurement.h"

namespace gantry::cli {

struct PeaksResult {
  std::optional<MachinePeaks> peaks;
  std::string note;  ///< why there are none
};

/// Measures the roofs where and as the execution's module ran: its target, precision, threads and CPUs.
/// `ran`: what was measured of it, which says how fast the machine is about, and how its cores are
/// undisturbed. Takes about a second, and the place of the module on the machine. What fails costs the peaks
/// alone.
PeaksResult measure_peaks(Execution& execution, const ExecutionOptions& options, const Measurement& ran);

}  // namespace gantry::cli
