// What bench and compare say of what they measured.
#pragma once

#include "host/cli/bench_report.h"
#include "host/cli/compare_run.h"
#include "host/cli/execution.h"

namespace gantry::cli {

/// The report of an execution, without its measurement.
BenchReport report_of(const ExecutionOptions& choice, const MeasureOptions& options,
                      const Execution& execution, const Invocation& invocation);
/// Adds the machine's roofs, measured now: what was loaded there is dropped.
void add_peaks(BenchReport& report, const ExecutionOptions& choice, Execution& execution,
               const Invocation& invocation);
/// Adds the plan that ran, as the module tells it, and the compiler where it was kept.
void add_program(BenchReport& report, const ExecutionOptions& choice, const Execution& execution);
/// What about a live comparison should be taken with care, and which circumstances the two do not share.
std::vector<std::string> live_warnings(const BenchReport& first, const BenchReport& second,
                                       const LiveComparison& live, const CompareMeasureOptions& options);

}  // namespace gantry::cli
