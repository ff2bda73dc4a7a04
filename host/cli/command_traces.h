// Traces of what commands did, with what the machine did for them at its times: of --trace, and of Python's.
#pragma once

#include "host/cli/bench_report.h"
#include "host/cli/execution.h"
#include "host/trace/trace.h"

namespace gantry::cli {

/// Of bench_model, with the samples, and the kernels where they were timed. `invocation`: whose spans were
/// recorded meanwhile (begin_trace), and whose command the tracks of them are named after; without one they
/// are bench's.
Trace bench_trace(const BenchReport& report, const Invocation& invocation);
/// Of a run: runs again, with every kernel timed on its threads, when no other measures on the machine.
/// Throws what Machine::benchmark throws.
Trace run_trace(const ExecutionOptions& choice, Execution& execution, const Invocation& invocation);

}  // namespace gantry::cli
