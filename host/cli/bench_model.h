// All of `gantry bench` but its files and tables.
#pragma once

#include "host/cli/bench_report.h"
#include "host/cli/bench_run.h"
#include "host/cli/execution.h"

namespace gantry::cli {

/// Compiles where it is a model, measures, reports. `hear` hears of the measuring's progress too; may be
/// empty. Errors: those of prepare_execution and measure.
BenchReport bench_model(const ExecutionOptions& choice, const MeasureOptions& options,
                        const Invocation& invocation, const MeasureProgress& hear = {});

}  // namespace gantry::cli
