#include "rpc/server/benchmarks.h"

#include <algorithm>

#include "device_runtime/src/benchmark.h"
#include "device_runtime/src/statistics.h"
#include "device_runtime/src/streams.h"
#include "module_generated.h"
#include "rpc/server/probe_reading.h"
#include "rpc/server/runtime_status.h"

namespace gantry::rpc {
namespace {

void add_memory(wire::BenchmarkFinishedT& out, const runtime::SessionMemory& memory) {
  out.workspace_bytes = memory.workspace_bytes;
  out.weights_bytes = memory.weights_bytes;
  out.io_bytes = memory.io_bytes;
  out.device_workspace_bytes = memory.device_workspace_bytes;
  out.device_weights_bytes = memory.device_weights_bytes;
  out.device_io_bytes = memory.device_io_bytes;
}

void add_statistics(wire::BenchmarkFinishedT& out, const runtime::Statistics& s) {
  out.min_ms = s.min, out.median_ms = s.median, out.mean_ms = s.mean;
  out.p90_ms = s.p90, out.p99_ms = s.p99, out.stddev_ms = s.stddev;
}

std::unique_ptr<wire::KernelTimingT> to_wire(const runtime::KernelProfile& kernel) {
  auto row = std::make_unique<wire::KernelTimingT>();
  row->name = kernel.ops;
  row->origin = kernel.origin;
  row->calls = static_cast<std::uint64_t>(kernel.calls);
  row->total_ms = kernel.median_ns / 1e6;
  row->flops = kernel.flops;
  row->bytes = kernel.bytes;
  row->symbol = kernel.symbol;
  row->step = kernel.step;
  row->op = kernel.op;
  return row;
}

std::unique_ptr<wire::TimelineT> to_wire(const runtime::RunTimeline& timeline) {
  auto result = std::make_unique<wire::TimelineT>();
  result->run_ns = timeline.run_ns;
  for (const auto& thread : timeline.threads) {
    auto& row = *result->threads.emplace_back(std::make_unique<wire::TimelineThreadT>());
    row.name = thread.name;
    row.cpu = thread.cpu;
  }
  for (const auto& step : timeline.steps) result->steps.emplace_back(step.begin_ns, step.end_ns);
  for (const auto& span : timeline.spans)
    result->spans.emplace_back(span.thread, span.step, span.begin_ns, span.end_ns);
  return result;
}

// ---- results longer than a control frame ----

/// What a result holds beside samples, kernels, readings and pulses.
constexpr std::uint64_t kOtherBytes = 8192;
/// A time and two values each; left out for those that take no data.
constexpr std::uint64_t kPulseBytes = 3 * sizeof(double) * runtime::PulseLog::kMostPulses;

std::uint64_t encoded_bytes(const wire::BenchmarkFinishedT& result) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(wire::BenchmarkFinished::Pack(builder, &result));
  return builder.GetSize();
}

/// Of the table of kernels, before they have been timed.
std::uint64_t bytes_of_kernels(runtime::Session& session) {
  check(session.prepare());  // the executor knows its steps from then on
  const runtime::Executor& executor = session.executor();
  wire::BenchmarkFinishedT table;
  for (std::size_t i = 0; i < executor.step_count(); ++i) {
    const runtime::StepLabel& label = executor.label(i);
    // No figure is 0, which would take no room.
    table.kernels.push_back(to_wire(runtime::KernelProfile{1, label.symbol, label.ops, label.op, label.origin,
                                                           /*calls=*/1, 1, 1, 1, 1}));
  }
  return encoded_bytes(table);
}

std::size_t count_of_steps(runtime::Session& session) {
  check(session.prepare());
  return session.executor().step_count();
}

/// Refuses what the client could not be told. One that takes no data gets the samples at least.
void check_length(runtime::Session& session, const wire::BenchmarkT& request) {
  const std::uint64_t most = request.long_result ? kMaxResultBytes : kMaxControlBytes;
  const std::uint64_t kernels = request.profile ? bytes_of_kernels(session) : 0;
  if (kernels + 2 * kOtherBytes > most)
    throw Error(ErrorKind::kRequest,
                "the times of " + std::to_string(session.executor().step_count()) +
                    " kernels are a longer result than " +
                    (request.long_result ? "the protocol allows; leave the profile out"
                                         : "this client takes; leave the profile out, or update gantry"));
  const std::uint64_t counts =
      request.count_instructions ? sizeof(std::uint64_t) * count_of_steps(session) : 0;
  const std::uint64_t others = kOtherBytes + kernels + counts + (request.long_result ? kPulseBytes : 0);
  const std::uint64_t samples =
      (most - std::min(most, others)) / (sizeof(double) * (request.long_result ? 2 : 1));
  if (request.streams == 0 && request.repeat > samples)
    throw Error(ErrorKind::kRequest,
                "the result of " + std::to_string(request.repeat) + " samples is longer than " +
                    (request.long_result ? "the protocol allows" : "this client takes") +
                    "; a repeat of at most " + std::to_string(samples) + " fits" +
                    (request.long_result ? "" : ", or update gantry, which then takes more"));
}

/// Leaves out what does not fit a control frame: pulses, the starts of samples, the readings, then every
/// second sample.
void shorten(wire::BenchmarkFinishedT& result) {
  constexpr std::uint64_t kRoom = kMaxControlBytes - 1024;  // around it is a response
  if (encoded_bytes(result) > kRoom) {
    result.pulse_at_ms.clear();
    result.pulse_values.clear();
    result.pulse_lowest.clear();
  }
  if (encoded_bytes(result) > kRoom) result.started_ms.clear();
  if (encoded_bytes(result) > kRoom) result.readings.clear();
  while (encoded_bytes(result) > kRoom && result.samples_ms.size() > 1) {
    if (result.samples_taken == 0) result.samples_taken = result.samples_ms.size();
    std::size_t kept = 0;
    for (std::size_t i = 0; i < result.samples_ms.size(); i += 2)
      result.samples_ms[kept++] = result.samples_ms[i];
    result.samples_ms.resize(kept);
  }
}

Answer answer_with(wire::BenchmarkFinishedT result, bool takes_data) {
  if (!takes_data) {
    result.timeline.reset();  // which those clients do not know
    shorten(result);
    return {make_response(std::move(result)), {}};
  }
  // Samples and kernels were asked for; the rest may have no room beside them.
  if (result.timeline && encoded_bytes(result) + kOtherBytes > kMaxResultBytes) result.timeline.reset();
  wire::ResponseT whole = make_response(std::move(result));
  const Bytes bytes = encode_long_result(whole);
  if (bytes.size() <= kMaxControlBytes) return {std::move(whole), {}};
  wire::BenchmarkFinishedT announcement;
  announcement.byte_size = bytes.size();
  return {
      make_response(std::move(announcement)),
      sealed_copy(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size(), "a benchmark's result")};
}

// ---- measuring ----

/// After how long no more is begun: what has been measured is still to be summarised and sent before the
/// deadline, at which this process is killed.
double time_to_measure_ms(const wire::BenchmarkT& request) {
  constexpr double kShare = 0.25, kMost = 2000, kLongest = 1e8;
  return std::min(request.deadline_ms - std::min(kShare * request.deadline_ms, kMost), kLongest);
}

/// Sessions of their own beside the loaded one, which rests meanwhile, with the inputs that it was given.
wire::BenchmarkFinishedT run_streams(const Loaded& loaded, const wire::BenchmarkT& request,
                                     std::uint64_t memory_bytes,
                                     const std::function<bool(double)>& progress) {
  runtime::StreamsOptions options;
  options.streams = static_cast<int>(request.streams);
  options.threads = loaded.threads;
  options.cpus = loaded.cpus;
  options.memory_limit = memory_bytes / request.streams;
  options.duration_ms = request.duration_ms;
  options.deadline_ms = time_to_measure_ms(request);
  options.progress = progress;
  const auto set_inputs = [&loaded](runtime::Session& session) {
    for (const auto& [index, input] : loaded.inputs) {
      if (runtime::Status status = give_input(session, index, input); !status.ok()) return status;
    }
    return runtime::Status();
  };
  const runtime::StreamsResult result =
      take(runtime::run_streams(loaded.session->shared_module(), set_inputs, options));
  wire::BenchmarkFinishedT out;
  out.samples_ms = result.samples_ms;
  out.started_ms = result.started_ms;
  if (result.runs > result.samples_ms.size()) out.samples_taken = result.runs;
  out.reached_deadline = !result.complete;
  out.elapsed_ms = result.elapsed_ms;
  out.runs_per_second = result.runs_per_second;
  out.number = 1;
  out.threads = result.threads;
  out.target = loaded.session->module().variant().target()->str();
  out.peak_resident_bytes = runtime::peak_resident_memory_bytes();
  add_statistics(out, runtime::summarize(result.samples_ms));
  add_memory(out, result.memory);
  add_machine(result, out);
  return out;
}

wire::BenchmarkFinishedT run_alone(runtime::Session& session, const wire::BenchmarkT& request,
                                   const std::function<bool(double)>& progress) {
  runtime::BenchmarkOptions options;
  options.warmup = static_cast<int>(request.warmup);
  options.number = static_cast<int>(request.number);
  options.repeat = static_cast<int>(request.repeat);
  options.min_repeat_ms = request.min_repeat_ms;
  options.cooldown_ms = request.cooldown_ms;
  options.flush_cache = request.flush_cache;
  options.profile = request.profile;
  options.count_instructions = request.count_instructions;
  options.deadline_ms = time_to_measure_ms(request);
  options.progress = progress;
  const runtime::BenchmarkResult result = take(runtime::run_benchmark(session, options));
  wire::BenchmarkFinishedT out;
  out.samples_ms = result.samples_ms;
  out.started_ms = result.started_ms;
  for (const runtime::PulseReading& pulse : result.pulses) {
    out.pulse_at_ms.push_back(pulse.at_ms);
    out.pulse_values.push_back(pulse.value.highest);
    out.pulse_lowest.push_back(pulse.value.lowest);
  }
  out.reached_deadline = !result.complete;
  out.number = static_cast<std::uint32_t>(result.number);
  add_statistics(out, result.statistics);
  for (const runtime::KernelProfile& kernel : result.kernels) out.kernels.push_back(to_wire(kernel));
  if (result.timeline) out.timeline = to_wire(*result.timeline);
  out.step_instructions = result.step_instructions;
  out.instructions_problem = result.instructions_problem;
  add_memory(out, result.memory);
  out.peak_resident_bytes = result.peak_resident_bytes;
  out.threads = result.threads;
  out.target = session.module().variant().target()->str();
  add_machine(result, out);
  return out;
}

}  // namespace

Answer serve_benchmark(Loaded& loaded, const wire::BenchmarkT& request, std::uint64_t memory_bytes,
                       const std::function<bool(double)>& progress) {
  check_length(*loaded.session, request);
  return answer_with(request.streams > 0 ? run_streams(loaded, request, memory_bytes, progress)
                                         : run_alone(*loaded.session, request, progress),
                     request.long_result);
}

}  // namespace gantry::rpc
