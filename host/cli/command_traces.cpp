#include "host/cli/command_traces.h"

#include <algorithm>

#include "host/cli/trace_file.h"
#include "host/cli/trace_measurement.h"
#include "host/cli/turns/measuring_turn.h"

namespace gantry::cli {
namespace {

/// Of the run that was timed kernel by kernel, which ended at `end_ns`.
TraceProcess kernels_until(int64_t end_ns, const rpc::BenchmarkResult& result, const std::string& model) {
  const double run_ms = result.timeline ? result.timeline->run_ms : 0;
  const int64_t begin = end_ns - static_cast<int64_t>(run_ms * 1e6);
  return kernel_tracks(result, "kernels of " + model, std::max<int64_t>(begin, 0));
}

}  // namespace

Trace bench_trace(const BenchReport& report, const Invocation& invocation) {
  const Measurement& m = report.measurement;
  const SpanRecorder& clock = *invocation.spans;
  const std::string command = invocation.command.empty() ? "bench" : invocation.command;
  std::vector<int64_t> sampled;
  for (const ProcessMeasurement& process : m.processes)
    sampled.push_back(clock.since_start(process.sampled_at));
  Trace trace;
  trace.processes.push_back(recorded_tracks(invocation, command));
  trace.processes.push_back(sample_tracks(m, "samples of " + report.model, sampled));
  if (m.last.kernels.empty()) return trace;
  // The traced runs are the last ones there.
  trace.processes.push_back(kernels_until(clock.since_start(m.profiled_at), m.last, report.model));
  return trace;
}

Trace run_trace(const ExecutionOptions& choice, Execution& execution, const Invocation& invocation) {
  SpanRecorder& spans = *invocation.spans;
  rpc::BenchmarkOptions benchmark;
  benchmark.warmup = 0;
  benchmark.repeat = 1;
  benchmark.profile = true;
  rpc::BenchmarkResult result;
  {
    Progress progress(invocation.verbosity());
    const auto turn =
        take_turn(choice, {}, invocation, [&](const std::string& what) { progress.update(what, -1); });
    turn->join(*execution.machine);
    const TimedSpan span(&spans, "machine", "run again, timing the kernels");
    result = execution.machine->benchmark(benchmark, {});
  }
  const int64_t end = spans.now();
  Trace trace;
  trace.processes.push_back(recorded_tracks(invocation, "run"));
  trace.processes.push_back(kernels_until(end, result, choice.file));
  return trace;
}

}  // namespace gantry::cli
