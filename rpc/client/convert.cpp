#include "rpc/client/convert.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "device_runtime/src/module_format.h"
#include "rpc/visible_text.h"

namespace gantry::rpc {
namespace {

// A board's text reaches terminals, tables and error messages: it cannot move their cursor or begin a line.
std::string shown_text(const std::string& text) {
  return visible_text(text, Lines::kOne);
}

std::vector<std::string> shown_texts(const std::vector<std::string>& texts) {
  std::vector<std::string> result;
  for (const std::string& text : texts) result.push_back(shown_text(text));
  return result;
}

// Names stay as they are in the module: inputs are found by them.
std::vector<TensorDescription> from_wire(std::vector<std::unique_ptr<wire::TensorDescriptionT>>& tensors) {
  std::vector<TensorDescription> result;
  for (auto& tensor : tensors)
    result.push_back(
        {std::move(tensor->name), {tensor->type->code(), tensor->type->bits()}, std::move(tensor->shape)});
  return result;
}

constexpr std::size_t kMaxReadings = 100'000;
constexpr std::size_t kMaxNotes = 1000;

[[noreturn]] void refuse_readings(std::string_view why) {
  throw Error(ErrorKind::kBug, "the board's report of a benchmark makes no sense: " + std::string(why));
}

/// A figure that may be absent (nan); infinite ones mean nothing.
std::optional<double> shown(double value) {
  if (std::isnan(value)) return std::nullopt;
  if (!std::isfinite(value)) refuse_readings("it holds an infinite reading");
  return value;
}

/// Times and amounts of work: what is computed from them must be numbers again.
void check_amounts(std::span<const double> figures, std::string_view what) {
  if (!std::ranges::all_of(figures, [](double figure) { return std::isfinite(figure) && figure >= 0; }))
    refuse_readings(std::string(what) + " is negative or no number");
}

CpuState from_wire(std::unique_ptr<wire::CpuStateT>& state) {
  CpuState result;
  if (!state) return result;
  check_amounts(state->frequency_mhz, "a clock");
  result.frequency_mhz = std::move(state->frequency_mhz);
  result.governor = shown_text(state->governor);
  result.temperature_celsius = shown(state->temperature_celsius);
  if (state->throttle_events >= 0)
    result.throttle_events = static_cast<std::uint64_t>(state->throttle_events);
  return result;
}

GpuState from_wire(const std::unique_ptr<wire::GpuStateT>& state) {
  GpuState result;
  if (!state) return result;
  result.clock_mhz = shown(state->clock_mhz);
  result.temperature_celsius = shown(state->temperature_celsius);
  result.power_watts = shown(state->power_watts);
  if (state->throttled >= 0) result.throttled = state->throttled != 0;
  return result;
}

std::optional<bool> shown_flag(std::int8_t value) {
  return value < 0 ? std::nullopt : std::optional(value != 0);
}

void check_amounts(const wire::BenchmarkFinishedT& wire) {
  check_amounts(wire.samples_ms, "a sample");
  check_amounts(wire.started_ms, "the start of a sample");
  const double whole[] = {wire.min_ms, wire.median_ms, wire.mean_ms,    wire.p90_ms,
                          wire.p99_ms, wire.stddev_ms, wire.elapsed_ms, wire.runs_per_second};
  check_amounts(whole, "a statistic");
  for (const auto& kernel : wire.kernels) {
    const double work[] = {kernel->total_ms, kernel->flops, kernel->bytes};
    check_amounts(work, "a kernel's time or work");
  }
}

ProbeReading from_wire(wire::ProbeReadingT& wire, std::size_t cpus) {
  ProbeReading reading;
  if (!std::isfinite(wire.at_ms)) refuse_readings("a reading has no time");
  reading.at_ms = wire.at_ms;
  if (!wire.clock_mhz.empty() && wire.clock_mhz.size() != cpus)
    refuse_readings("a reading does not show the clock of each CPU");
  if (!std::ranges::all_of(wire.clock_mhz, [](double mhz) { return std::isfinite(mhz); }))
    refuse_readings("a clock is no number");
  reading.clock_mhz = std::move(wire.clock_mhz);
  reading.temperature_celsius = shown(wire.temperature_celsius);
  if (wire.throttle_events >= 0) reading.throttle_events = wire.throttle_events;
  reading.throttled = shown_flag(wire.throttled);
  reading.energy_joules = shown(wire.energy_joules);
  reading.power_watts = shown(wire.power_watts);
  reading.others_share = shown(wire.others_share);
  reading.steal_share = shown(wire.steal_share);
  reading.gpu_clock_mhz = shown(wire.gpu_clock_mhz);
  reading.gpu_temperature_celsius = shown(wire.gpu_temperature_celsius);
  reading.gpu_power_watts = shown(wire.gpu_power_watts);
  reading.gpu_throttled = shown_flag(wire.gpu_throttled);
  return reading;
}

void take_pulses(const wire::BenchmarkFinishedT& wire, BenchmarkResult& result) {
  if (wire.pulse_at_ms.size() != wire.pulse_values.size() ||
      wire.pulse_lowest.size() != wire.pulse_values.size() || wire.pulse_values.size() > kMaxReadings)
    refuse_readings("its pulses have not a time and two values each, or are too many");
  for (std::size_t i = 0; i < wire.pulse_values.size(); ++i) {
    const CorePulse pulse{wire.pulse_at_ms[i], wire.pulse_values[i], wire.pulse_lowest[i]};
    const bool later = i == 0 || pulse.at_ms >= wire.pulse_at_ms[i - 1];
    const bool valued = pulse.lowest > 0 && pulse.value >= pulse.lowest && std::isfinite(pulse.value);
    if (!std::isfinite(pulse.at_ms) || !valued || !later)
      refuse_readings("a pulse has no value, or not the time after the one before");
    result.pulses.push_back(pulse);
  }
}

void take_readings(wire::BenchmarkFinishedT& wire, BenchmarkResult& result) {
  if (wire.readings.size() > kMaxReadings || wire.reading_cpus.size() > kMaxCpus ||
      wire.probe_notes.size() > kMaxNotes)
    refuse_readings("it holds too many readings");
  for (auto& reading : wire.readings)
    result.readings.push_back(from_wire(*reading, wire.reading_cpus.size()));
  result.reading_cpus = std::move(wire.reading_cpus);
  result.probe_notes = shown_texts(wire.probe_notes);
}

constexpr std::size_t kMaxTimelineSpans = std::size_t{1} << 18;
/// A hundred days: no run is longer, and microseconds of it are exact.
constexpr std::int64_t kMaxRunNs = std::int64_t{100} * 86'400 * 1'000'000'000;

double microseconds(std::int64_t nanoseconds) {
  return static_cast<double>(nanoseconds) / 1e3;
}

void check_timeline(const wire::TimelineT& wire) {
  if (wire.threads.size() > kMaxCpus || wire.steps.size() > kMaxTimelineSpans ||
      wire.spans.size() > kMaxTimelineSpans)
    refuse_readings("its timeline is too long");
  if (wire.run_ns < 0 || wire.run_ns > kMaxRunNs) refuse_readings("its timeline is of no time");
  const auto within = [&](const auto& part) {
    return part.begin_ns() >= 0 && part.begin_ns() <= part.end_ns() && part.end_ns() <= wire.run_ns;
  };
  if (!std::ranges::all_of(wire.steps, within)) refuse_readings("a step lies outside of its run");
  for (std::size_t i = 0; i < wire.spans.size(); ++i) {
    const wire::TimelineSpan& span = wire.spans[i];
    if (span.thread() >= wire.threads.size() || span.step() >= wire.steps.size())
      refuse_readings("its timeline names a thread or step that there is not");
    if (!within(span)) refuse_readings("a thread computed outside of its run");
    if (i == 0 || span.thread() > wire.spans[i - 1].thread()) continue;
    if (span.thread() < wire.spans[i - 1].thread() || span.begin_ns() < wire.spans[i - 1].end_ns())
      refuse_readings("a thread did two things at once");
  }
}

std::optional<Timeline> from_wire(const std::unique_ptr<wire::TimelineT>& wire) {
  if (!wire) return std::nullopt;
  check_timeline(*wire);
  Timeline timeline;
  timeline.run_ms = static_cast<double>(wire->run_ns) / 1e6;
  for (const auto& thread : wire->threads)
    timeline.threads.push_back(
        {shown_text(thread->name), thread->cpu < 0 ? std::nullopt : std::optional(thread->cpu)});
  for (const wire::TimelineStep& step : wire->steps)
    timeline.steps.push_back({microseconds(step.begin_ns()), microseconds(step.end_ns())});
  for (const wire::TimelineSpan& span : wire->spans)
    timeline.spans.push_back(
        {span.thread(), span.step(), microseconds(span.begin_ns()), microseconds(span.end_ns())});
  return timeline;
}

}  // namespace

std::chrono::milliseconds to_time(std::uint64_t ms) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::min(ms, std::uint64_t{1} << 40)));
}

BoardInfo from_wire(wire::BoardDescriptionT&& board) {
  BoardInfo info;
  info.version = shown_text(board.version);
  info.hostname = shown_text(board.hostname);
  info.system = shown_text(board.system);
  info.architecture = shown_text(board.architecture);
  info.cpu = shown_text(board.cpu);
  info.llvm_cpu = shown_text(board.llvm_cpu);
  info.features = shown_texts(board.features);
  info.logical_cpus = board.logical_cpus;
  info.physical_cores = board.physical_cores;
  info.memory_bytes = board.memory_bytes;
  info.memory_available_bytes = board.memory_available_bytes;
  info.session_memory_bytes = board.session_memory_bytes;
  info.deadline_ms = board.deadline_ms;
  info.gpu_problem = shown_text(board.gpu_problem);
  for (auto& gpu : board.gpus) {
    info.gpus.push_back({shown_text(gpu->name), gpu->compute_capability, gpu->multiprocessors, gpu->clock_mhz,
                         gpu->memory_bytes, gpu->memory_free_bytes, gpu->l2_bytes, gpu->cuda_version,
                         shown_text(gpu->driver)});
  }
  return info;
}

LoadedModule from_wire(wire::ModuleLoadedT&& module) {
  LoadedModule loaded{
      module.handle, shown_text(module.target), from_wire(module.inputs), from_wire(module.outputs), {}};
  if (module.nanoseconds >= 0) loaded.load_time = std::chrono::nanoseconds(module.nanoseconds);
  loaded.precision = shown_text(module.precision);
  return loaded;
}

BenchmarkResult from_wire(wire::BenchmarkFinishedT&& wire) {
  check_amounts(wire);
  BenchmarkResult result;
  result.samples_ms = std::move(wire.samples_ms);
  result.started_ms = std::move(wire.started_ms);
  if (result.started_ms.size() != result.samples_ms.size()) result.started_ms.clear();
  result.samples_taken = std::max<std::uint64_t>(wire.samples_taken, result.samples_ms.size());
  result.number = std::max(wire.number, 1u);
  result.elapsed_ms = wire.elapsed_ms;
  result.runs_per_second = wire.runs_per_second;
  result.reached_deadline = wire.reached_deadline;
  result.statistics = {wire.min_ms, wire.median_ms, wire.mean_ms, wire.p90_ms, wire.p99_ms, wire.stddev_ms};
  for (auto& kernel : wire.kernels) {
    // Boards that do not number the steps send one entry a step, in order.
    const auto place = static_cast<std::uint32_t>(result.kernels.size());
    const std::uint32_t step = kernel->symbol.empty() ? place : kernel->step;
    if (step >= module_format::kMaxTableEntries)
      refuse_readings("a kernel stands at a step that no plan has");
    result.kernels.push_back({shown_text(kernel->name), shown_text(kernel->origin), kernel->calls,
                              kernel->total_ms, kernel->flops, kernel->bytes, shown_text(kernel->symbol),
                              step, shown_text(kernel->op)});
  }
  result.timeline = from_wire(wire.timeline);
  if (wire.step_instructions.size() > kMaxTimelineSpans)
    refuse_readings("it counts the instructions of too many steps");
  result.step_instructions = std::move(wire.step_instructions);
  result.instructions_problem = shown_text(wire.instructions_problem);
  result.workspace_bytes = wire.workspace_bytes;
  result.weights_bytes = wire.weights_bytes;
  result.io_bytes = wire.io_bytes;
  result.peak_resident_bytes = wire.peak_resident_bytes;
  result.device_workspace_bytes = wire.device_workspace_bytes;
  result.device_weights_bytes = wire.device_weights_bytes;
  result.device_io_bytes = wire.device_io_bytes;
  result.gpu_before = from_wire(wire.gpu_before);
  result.gpu_after = from_wire(wire.gpu_after);
  result.threads = wire.threads;
  result.target = shown_text(wire.target);
  result.cpu_before = from_wire(wire.cpu_before);
  result.cpu_during = from_wire(wire.cpu_during);
  result.cpu_after = from_wire(wire.cpu_after);
  take_readings(wire, result);
  take_pulses(wire, result);
  return result;
}

wire::BenchmarkT to_wire(std::uint32_t handle, const BenchmarkOptions& options) {
  wire::BenchmarkT request;
  request.handle = handle;
  request.warmup = options.warmup;
  request.number = options.number;
  request.repeat = options.repeat;
  request.min_repeat_ms = options.min_repeat_ms;
  request.cooldown_ms = options.cooldown_ms;
  request.flush_cache = options.flush_cache;
  request.profile = options.profile;
  request.count_instructions = options.count_instructions;
  request.deadline_ms = to_deadline(options.deadline);
  request.streams = options.streams;
  request.duration_ms = options.duration_ms;
  request.long_result = true;
  return request;
}

std::uint32_t to_deadline(std::chrono::milliseconds deadline) {
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(deadline.count(), 0, UINT32_MAX));
}

MeasuringQueue from_wire(wire::LeaseQueueT&& queue) {
  const auto entry = [](const wire::LeaseEntryT& row) {
    LeaseEntry result{shown_text(row.key), shown_text(row.address), shown_text(row.purpose)};
    result.priority = static_cast<LeasePriority>(std::min(row.priority, kMaxLeasePriority));
    result.since = to_time(row.since_ms);
    return result;
  };
  MeasuringQueue result;
  if (queue.holder) result.holder = entry(*queue.holder);
  result.measuring = queue.measuring;
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  result.turn_left = std::chrono::milliseconds(std::clamp(queue.turn_left_ms, -kMost, kMost));
  result.turn = to_time(queue.turn_ms);
  for (const auto& row : queue.waiting) result.waiting.push_back(entry(*row));
  result.waiting_count = queue.waiting_count;
  result.position = queue.position;
  result.sessions = queue.sessions;
  return result;
}

std::vector<OtherWork> from_wire(wire::MeasuredBesideT&& beside) {
  std::vector<OtherWork> result;
  for (const auto& row : beside.others) {
    const double times[] = {row->run_ms, row->load_ms, row->transfer_ms};
    check_amounts(times, "what others did beside it");
    result.push_back({shown_text(row->key),
                      shown_text(row->address),
                      {row->runs, row->run_ms},
                      {row->loads, row->load_ms},
                      {row->transfers, row->transfer_ms}});
  }
  return result;
}

}  // namespace gantry::rpc
