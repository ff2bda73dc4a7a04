#include "host/cli/recorded_result.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "host/cli/result_fields.h"

namespace gantry::cli {
namespace {

using Json = nlohmann::json;
using Path = std::filesystem::path;
using Numbers = std::vector<double>;

/// A hundred days: what is longer is no time of a run.
constexpr double kLongestMs = 100 * 86'400e3;

void check_times(const Numbers& times, const char* key, const Path& path) {
  for (const double ms : times) {
    if (!std::isfinite(ms) || ms < 0 || ms > kLongestMs)
      user_error("{}: field '{}' holds {}, which is no time", path.string(), key, ms);
  }
}

double time_of(const Json& json, const char* key, const Path& path) {
  const auto ms = field<double>(json, key, path);
  check_times({ms}, key, path);
  return ms;
}

const Json& object(const Json& json, const char* key, const Path& path) {
  if (!json.is_object()) user_error("{}: field '{}' has the wrong type", path.string(), key);
  return json;
}

rpc::ProbeReading reading_of(const Json& json, const Path& path) {
  rpc::ProbeReading reading;
  reading.at_ms = field<double>(object(json, "readings", path), "at_ms", path);
  if (!(std::abs(reading.at_ms) <= kLongestMs)) user_error("{}: a reading has no time", path.string());
  reading.clock_mhz = maybe<Numbers>(json, "clock_mhz", path).value_or(Numbers());
  reading.temperature_celsius = maybe<double>(json, "temperature_celsius", path);
  reading.power_watts = maybe<double>(json, "power_watts", path);
  reading.others_share = maybe<double>(json, "others_share", path);
  reading.steal_share = maybe<double>(json, "steal_share", path);
  reading.gpu_clock_mhz = maybe<double>(json, "gpu_clock_mhz", path);
  reading.gpu_temperature_celsius = maybe<double>(json, "gpu_temperature_celsius", path);
  reading.gpu_power_watts = maybe<double>(json, "gpu_power_watts", path);
  return reading;
}

ProcessMeasurement process_of(const Json& json, const Path& path) {
  ProcessMeasurement process;
  object(json, "processes", path);
  process.load_ms = maybe<double>(json, "load_ms", path);
  process.first_inference_ms = time_of(json, "first_inference_ms", path);
  const auto warm_up = field<Json>(json, "warm_up", path);
  process.warm_up.ms = time_of(object(warm_up, "warm_up", path), "ms", path);
  process.warm_up.runs = field<uint64_t>(warm_up, "runs", path);
  process.number = std::max(maybe<uint32_t>(json, "runs_per_sample", path).value_or(1), 1u);
  process.runs_per_second = maybe<double>(json, "runs_per_second", path);
  process.samples_ms = field<Numbers>(json, "samples_ms", path);
  process.started_ms = maybe<Numbers>(json, "started_ms", path).value_or(Numbers());
  check_times({process.load_ms.value_or(0)}, "load_ms", path);
  check_times(process.samples_ms, "samples_ms", path);
  check_times(process.started_ms, "started_ms", path);
  if (process.started_ms.size() != process.samples_ms.size()) process.started_ms.clear();
  for (const Json& reading : maybe<std::vector<Json>>(json, "readings", path).value_or(std::vector<Json>()))
    process.readings.push_back(reading_of(reading, path));
  return process;
}

/// Documents of version 1 hold one process, of which the samples are all that is known.
ProcessMeasurement only_process(const Json& json, const Path& path) {
  ProcessMeasurement process;
  process.samples_ms = field<Numbers>(json, "samples_ms", path);
  check_times(process.samples_ms, "samples_ms", path);
  return process;
}

rpc::KernelTiming kernel_of(const Json& json, uint32_t place, const Path& path) {
  rpc::KernelTiming kernel;
  object(json, "kernels", path);
  kernel.name = field<std::string>(json, "name", path);
  kernel.symbol = maybe<std::string>(json, "symbol", path).value_or("");
  kernel.step = maybe<uint32_t>(json, "step", path).value_or(place);
  kernel.origin = fmt::format(
      "{}",
      fmt::join(maybe<std::vector<std::string>>(json, "nodes", path).value_or(std::vector<std::string>()),
                ", "));
  kernel.total_ms = time_of(json, "total_ms", path);
  kernel.flops = maybe<double>(json, "flops", path).value_or(0);
  kernel.bytes = maybe<double>(json, "bytes", path).value_or(0);
  return kernel;
}

std::optional<rpc::Timeline> timeline_of(const Json& document, const Path& path) {
  const auto json = maybe<Json>(document, "timeline", path);
  if (!json) return std::nullopt;
  rpc::Timeline timeline;
  timeline.run_ms = time_of(object(*json, "timeline", path), "run_ms", path);
  for (const Json& thread : field<std::vector<Json>>(*json, "threads", path)) {
    object(thread, "threads", path);
    timeline.threads.push_back(
        {field<std::string>(thread, "name", path), maybe<int32_t>(thread, "cpu", path)});
  }
  for (const Json& step : field<std::vector<Json>>(*json, "steps", path)) {
    object(step, "steps", path);
    timeline.steps.push_back({time_of(step, "begin_us", path), time_of(step, "end_us", path)});
    if (field<size_t>(step, "step", path) + 1 != timeline.steps.size())
      user_error("{}: the timeline's steps are not in the plan's order", path.string());
  }
  for (const auto& span : field<std::vector<Numbers>>(*json, "spans", path)) {
    check_times(span, "spans", path);
    if (span.size() != 4 || span[0] >= static_cast<double>(timeline.threads.size()) ||
        span[1] >= static_cast<double>(timeline.steps.size()))
      user_error("{}: a span of the timeline is no thread, step, begin and end", path.string());
    timeline.spans.push_back(
        {static_cast<uint32_t>(span[0]), static_cast<uint32_t>(span[1]), span[2], span[3]});
  }
  return timeline;
}

}  // namespace

RecordedResult read_recorded_result(const Path& path) {
  const Json json = read_result_document(path);
  RecordedResult result;
  result.model = field<std::string>(json, "model", path);
  const auto board = field<Json>(json, "board", path);
  result.board = maybe<std::string>(object(board, "board", path), "name", path).value_or("");
  Measurement& measurement = result.measurement;
  const bool one = field<int>(json, "schema_version", path) == 1;
  if (one) measurement.processes.push_back(only_process(json, path));
  const auto processes = one ? std::vector<Json>() : field<std::vector<Json>>(json, "processes", path);
  for (const Json& process : processes) measurement.processes.push_back(process_of(process, path));
  if (const auto machine = maybe<Json>(json, "machine", path); machine && machine->is_object())
    measurement.reading_cpus =
        maybe<std::vector<int32_t>>(*machine, "cpus", path).value_or(std::vector<int32_t>());
  for (const Json& kernel : maybe<std::vector<Json>>(json, "kernels", path).value_or(std::vector<Json>()))
    measurement.last.kernels.push_back(
        kernel_of(kernel, static_cast<uint32_t>(measurement.last.kernels.size()), path));
  std::ranges::stable_sort(measurement.last.kernels, {}, &rpc::KernelTiming::step);
  measurement.last.timeline = timeline_of(json, path);
  return result;
}

}  // namespace gantry::cli
