// The measuring loop of `gantry bench`.
#pragma once

#include <functional>

#include "host/cli/execution.h"
#include "host/cli/former_pulses.h"
#include "host/cli/measurement.h"

namespace gantry::cli {

/// `share` of the time that it may take at most, 0 to 1.
using MeasureProgress = std::function<void(const std::string& what, double share)>;

/// Measures in one process after another: each loads the module, infers once, warms up until steady and is
/// sampled for a while. Ends when the interval of the median over processes is narrow, or the time is up. The
/// first process is the execution's; the others are started as it was (`restart`, which says how many seconds
/// it waited for others who measure: they do not count). At least one process is measured, whatever the time.
/// Processes that were disturbed (leave_out_disturbed) are followed by others until the time is up.
Measurement measure(Execution& execution, const MeasureOptions& options,
                    const std::function<double(Execution&)>& restart, const MeasureProgress& progress,
                    FormerPulses& former);

}  // namespace gantry::cli
