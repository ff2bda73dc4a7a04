#include "host/cli/trace_measurement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace gantry::cli {
namespace {

int64_t ns_of_ms(double ms) {
  return std::llround(ms * 1e6);
}
int64_t ns_of_us(double us) {
  return std::llround(us * 1e3);
}

/// What is said of a kernel beside its name; `ms`: of the run that is shown.
SpanArguments arguments_of(const rpc::KernelTiming& kernel, double ms) {
  SpanArguments arguments = {{"step", static_cast<double>(kernel.step)},
                             {"ops", kernel.name},
                             {"ONNX nodes", kernel.origin},
                             {"flops", kernel.flops},
                             {"bytes", kernel.bytes}};
  if (ms > 0) {
    arguments.emplace_back("GFLOP/s", kernel.flops / ms / 1e6);
    arguments.emplace_back("GB/s", kernel.bytes / ms / 1e6);
  }
  arguments.emplace_back("median_ms", kernel.total_ms);
  return arguments;
}

Span kernel_span(const rpc::KernelTiming& kernel, int64_t begin_ns, int64_t end_ns, double ms) {
  return {kernel.symbol.empty() ? kernel.name : kernel.symbol, "kernel", begin_ns, end_ns,
          arguments_of(kernel, ms)};
}

class TimelineTracks {
 public:
  TimelineTracks(const rpc::BenchmarkResult& result, int64_t begin_ns)
      : timeline_(*result.timeline), begin_ns_(begin_ns) {
    for (const rpc::KernelTiming& kernel : result.kernels) kernels_[kernel.step] = &kernel;
  }

  std::vector<TraceTrack> make() const {
    std::vector<TraceTrack> tracks{{"steps", {}}};
    for (uint32_t i = 0; i < timeline_.steps.size(); ++i)
      tracks[0].spans.push_back(span_of(i, timeline_.steps[i].begin_us, timeline_.steps[i].end_us));
    for (const rpc::Timeline::Thread& thread : timeline_.threads)
      tracks.push_back({thread.cpu ? fmt::format("{} (CPU {})", thread.name, *thread.cpu) : thread.name, {}});
    for (const rpc::Timeline::Span& span : timeline_.spans)
      tracks[span.thread + 1].spans.push_back(span_of(span.step, span.begin_us, span.end_us));
    return tracks;
  }

 private:
  Span span_of(uint32_t step, double begin_us, double end_us) const {
    const int64_t begin = begin_ns_ + ns_of_us(begin_us), end = begin_ns_ + ns_of_us(end_us);
    const auto kernel = kernels_.find(step);
    if (kernel == kernels_.end()) return {fmt::format("step {}", step), "kernel", begin, end, {}};
    const rpc::Timeline::Step& whole = timeline_.steps[step];
    return kernel_span(*kernel->second, begin, end, (whole.end_us - whole.begin_us) / 1e3);
  }

  const rpc::Timeline& timeline_;
  int64_t begin_ns_;
  std::map<uint32_t, const rpc::KernelTiming*> kernels_;
};

/// Loading, the first inference and warming up, which end where sampling begins.
void add_start(const ProcessMeasurement& process, int64_t& now, TraceTrack& track) {
  const auto add = [&](const char* name, double ms, SpanArguments arguments) {
    if (!(ms > 0)) return;
    const int64_t begin = now;
    now += ns_of_ms(ms);
    track.spans.push_back({name, "bench", begin, now, std::move(arguments)});
  };
  add("load", process.load_ms.value_or(0), {});
  add("first inference", process.first_inference_ms, {});
  add("warm-up", process.warm_up.ms, {{"runs", static_cast<double>(process.warm_up.runs)}});
}

double start_ms(const ProcessMeasurement& process) {
  return process.load_ms.value_or(0) + process.first_inference_ms + process.warm_up.ms;
}

class Counters {
 public:
  void add(const std::string& name, const char* unit, int64_t at_ns, const std::optional<double>& value) {
    if (!value || !std::isfinite(*value)) return;
    auto found = std::ranges::find(counters_, name, &TraceCounter::name);
    if (found == counters_.end()) {
      counters_.push_back({name, unit, {}});
      found = counters_.end() - 1;
    }
    found->values.push_back({std::max<int64_t>(at_ns, 0), *value});
  }
  std::vector<TraceCounter> take() { return std::move(counters_); }

 private:
  std::vector<TraceCounter> counters_;  ///< in the order of their first values
};

void add_reading(const rpc::ProbeReading& reading, int64_t at, const std::vector<int32_t>& cpus,
                 Counters& counters) {
  for (size_t i = 0; i < reading.clock_mhz.size(); ++i) {
    const std::string cpu = i < cpus.size() ? std::to_string(cpus[i]) : fmt::format("#{}", i);
    counters.add("clock of CPU " + cpu, "MHz", at, reading.clock_mhz[i]);
  }
  const auto percent = [](const std::optional<double>& share) {
    return share ? std::optional(100 * *share) : std::nullopt;
  };
  counters.add("temperature of the CPU", "°C", at, reading.temperature_celsius);
  counters.add("power", "W", at, reading.power_watts);
  counters.add("CPU time of other processes", "%", at, percent(reading.others_share));
  counters.add("CPU time of other machines", "%", at, percent(reading.steal_share));
  counters.add("clock of the GPU", "MHz", at, reading.gpu_clock_mhz);
  counters.add("temperature of the GPU", "°C", at, reading.gpu_temperature_celsius);
  counters.add("power of the GPU", "W", at, reading.gpu_power_watts);
}

/// Samples from `begin` on, and when the last of them ends.
int64_t add_samples(const ProcessMeasurement& process, int64_t begin, TraceTrack& track, Counters& counters) {
  int64_t end = begin;
  for (size_t i = 0; i < process.samples_ms.size(); ++i) {
    const double ms = process.samples_ms[i];
    const int64_t at = process.started_ms.empty() ? end : begin + ns_of_ms(process.started_ms[i]);
    const int64_t until = at + ns_of_ms(ms * process.number);
    counters.add("time of a run", "ms", at, ms);
    if (!process.runs_per_second) {
      track.spans.push_back(
          {"sample", "sample", at, until, {{"run_ms", ms}, {"runs", static_cast<double>(process.number)}}});
    }
    end = std::max(end, until);
  }
  return end;
}

}  // namespace

TraceProcess kernel_tracks(const rpc::BenchmarkResult& result, const std::string& name, int64_t begin_ns) {
  if (result.timeline) return {name, TimelineTracks(result, begin_ns).make(), {}};
  TraceProcess process{name, {}, {}};
  if (result.kernels.empty()) return process;
  TraceTrack& track = process.tracks.emplace_back();
  track.name = "kernels by their medians, one after another";
  for (const rpc::KernelTiming& kernel : result.kernels) {
    const int64_t end = begin_ns + ns_of_ms(kernel.total_ms);
    track.spans.push_back(kernel_span(kernel, begin_ns, end, kernel.total_ms));
    begin_ns = end;
  }
  return process;
}

TraceProcess sample_tracks(const Measurement& measurement, const std::string& name,
                           const std::vector<int64_t>& sampled_ns) {
  TraceProcess result{name, {}, {}};
  Counters counters;
  int64_t now = 0;
  for (size_t i = 0; i < measurement.processes.size(); ++i) {
    const ProcessMeasurement& process = measurement.processes[i];
    TraceTrack& track = result.tracks.emplace_back();
    track.name = fmt::format("process {}", i + 1);
    if (i < sampled_ns.size()) now = std::max<int64_t>(sampled_ns[i] - ns_of_ms(start_ms(process)), 0);
    add_start(process, now, track);
    const int64_t sampled = i < sampled_ns.size() ? sampled_ns[i] : now;
    for (const rpc::ProbeReading& reading : process.readings)
      add_reading(reading, sampled + ns_of_ms(reading.at_ms), measurement.reading_cpus, counters);
    now = add_samples(process, sampled, track, counters);
  }
  result.counters = counters.take();
  return result;
}

int64_t end_of(const TraceProcess& process) {
  int64_t end = 0;
  for (const TraceTrack& track : process.tracks) {
    for (const Span& span : track.spans) end = std::max(end, span.end_ns);
  }
  return end;
}

}  // namespace gantry::cli
