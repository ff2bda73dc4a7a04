// What bench and compare say of what they measured.
#pragma once

#include "host/cli/bench_report.h"
#include "host/cli/compare_run.h"
#include "host/cli/execution.h"

namespace gantry::cli {

/// The report of an execution, without its measurement.
BenchReport report_of(const ExecutionOptions& choice, const MeasureOptions& options,
                      const Execution& execution, const Invocation& invocation);
/// What about a live comparison should be taken with care, and which circumstances the two do not share.
std::vector<std::string> live_warnings(const BenchReport& first, const BenchReport& second,
                                       const LiveComparison& live, const CompareMeasureOptions& options);

}  // namespace gantry::cli
