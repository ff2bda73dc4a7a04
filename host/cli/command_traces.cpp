#include "host/cli/command_traces.h"

#include <algorithm>

#include "host/cli/trace_file.h"
#include "host/cli/trace_measurement.h"
#include "host/cli/turns/measuring_turn.h"

namespace gantry::cli {

Trace bench_trace(const BenchReport& report, const Invocation& invocation) {
  const Measurement& m = report.measurement;
  const SpanRecorder& clock = *invocation.spans;
  std::vector<int64_t> sampled;
  for (const ProcessMeasurement& process : m.processes)
    sampled.push_back(clock.since_start(process.sampled_at));
  Trace trace;
  trace.processes.push_back(recorded_tracks(invocation, "bench"));
  trace.processes.push_back(sample_tracks(m, "samples of " + report.model, sampled));
  if (m.last.kernels.empty()) return trace;
  // The traced runs are the last ones there.
  const double run_ms = m.last.timeline ? m.last.timeline->run_ms : 0;
  const int64_t begin = clock.since_start(m.profiled_at) - static_cast<int64_t>(run_ms * 1e6);
  trace.processes.push_back(kernel_tracks(m.last, "kernels of " + report.model, std::max<int64_t>(begin, 0)));
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
  const double run_ms = result.timeline ? result.timeline->run_ms : 0;
  const int64_t begin = spans.now() - static_cast<int64_t>(run_ms * 1e6);
  Trace trace;
  trace.processes.push_back(recorded_tracks(invocation, "run"));
  trace.processes.push_back(kernel_tracks(result, "kernels of " + choice.file, std::max<int64_t>(begin, 0)));
  return trace;
}

}  // namespace gantry::cli
