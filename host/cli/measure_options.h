// The options of `bench` and `profile` that say how to measure.
#pragma once

#include "host/cli/measurement.h"

namespace CLI {
class App;
}

namespace gantry::cli {

void add_measure_options(CLI::App& command, MeasureOptions& options);

}  // namespace gantry::cli
