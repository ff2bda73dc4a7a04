#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "host/cli/bench_report.h"
#include "host/cli/json_values.h"
#include "host/cli/machine_json.h"
#include "host/cli/statistics/estimate.h"

namespace gantry::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kSchemaVersion = 2;

std::vector<std::string> split_origin(const std::string& origin) {
  std::vector<std::string> nodes;
  size_t start = 0;
  while (start < origin.size()) {
    const size_t end = std::min(origin.find(", ", start), origin.size());
    nodes.push_back(origin.substr(start, end - start));
    start = end + 2;
  }
  return nodes;
}

Json kernels_json(const rpc::BenchmarkResult& result) {
  double total = 0;
  for (const auto& kernel : result.kernels) total += kernel.total_ms;
  std::vector<rpc::KernelTiming> kernels = result.kernels;
  std::stable_sort(kernels.begin(), kernels.end(),
                   [](const auto& a, const auto& b) { return a.total_ms > b.total_ms; });
  Json list = Json::array();
  for (const auto& kernel : kernels) {
    const double seconds = kernel.total_ms / 1000;
    Json json;
    json["symbol"] = said(kernel.symbol);
    json["step"] = kernel.step;
    json["name"] = kernel.name;
    json["op"] = said(kernel.op);
    json["nodes"] = split_origin(kernel.origin);
    json["calls"] = kernel.calls;
    json["total_ms"] = kernel.total_ms;
    json["share"] = total > 0 ? kernel.total_ms / total : 0;
    json["flops"] = kernel.flops;
    json["bytes"] = kernel.bytes;
    json["gflop_per_s"] = seconds > 0 ? Json(kernel.flops / seconds / 1e9) : Json(nullptr);
    json["gb_per_s"] = seconds > 0 ? Json(kernel.bytes / seconds / 1e9) : Json(nullptr);
    list.push_back(std::move(json));
  }
  return list;
}

Json timeline_json(const std::optional<rpc::Timeline>& timeline) {
  if (!timeline) return nullptr;
  Json threads = Json::array(), steps = Json::array(), spans = Json::array();
  for (const auto& thread : timeline->threads)
    threads.push_back({{"name", thread.name}, {"cpu", shown(thread.cpu)}});
  for (size_t i = 0; i < timeline->steps.size(); ++i) {
    const auto& step = timeline->steps[i];
    steps.push_back({{"step", i}, {"begin_us", step.begin_us}, {"end_us", step.end_us}});
  }
  for (const auto& span : timeline->spans)
    spans.push_back(Json::array({span.thread, span.step, span.begin_us, span.end_us}));
  return {{"run_ms", timeline->run_ms}, {"threads", threads}, {"steps", steps}, {"spans", spans}};
}

Json options_json(const MeasureOptions& options, uint64_t seed) {
  return {{"duration_s", options.duration_s},
          {"precision_goal", options.precision_goal},
          {"processes", shown(options.processes)},
          {"warmup", shown(options.warmup)},
          {"repeat", shown(options.repeat)},
          {"number", shown(options.number)},
          {"min_repeat_ms", options.min_repeat_ms},
          {"cooldown_ms", options.cooldown_ms},
          {"cold", options.cold},
          {"profile", options.profile},
          {"streams", said(options.streams)},
          {"seed", seed}};
}

Json inputs_json(const std::vector<BenchInput>& inputs) {
  Json list = Json::array();
  for (const BenchInput& input : inputs) {
    Json chosen = Json::array();
    for (const ChosenSize& size : input.chosen) {
      chosen.push_back({{"dimension", size.symbol},
                        {"axis", size.axis},
                        {"meaning", said(size.meaning)},
                        {"size", size.size},
                        {"reason", said(size.reason)}});
    }
    list.push_back({{"name", input.name},
                    {"dtype", type_name(input.type)},
                    {"shape", input.shape},
                    {"source", input.source},
                    {"chosen", std::move(chosen)}});
  }
  return list;
}

Json reading_json(const rpc::ProbeReading& reading) {
  Json json;
  json["at_ms"] = reading.at_ms;
  json["clock_mhz"] = said(reading.clock_mhz);
  json["temperature_celsius"] = shown(reading.temperature_celsius);
  json["throttle_events"] = shown(reading.throttle_events);
  json["throttled"] = shown(reading.throttled);
  json["energy_joules"] = shown(reading.energy_joules);
  json["power_watts"] = shown(reading.power_watts);
  json["others_share"] = shown(reading.others_share);
  json["steal_share"] = shown(reading.steal_share);
  json["gpu_clock_mhz"] = shown(reading.gpu_clock_mhz);
  json["gpu_temperature_celsius"] = shown(reading.gpu_temperature_celsius);
  json["gpu_power_watts"] = shown(reading.gpu_power_watts);
  json["gpu_throttled"] = shown(reading.gpu_throttled);
  return json;
}

Json beside_json(const std::vector<rpc::OtherWork>& beside) {
  Json list = Json::array();
  for (const rpc::OtherWork& work : beside) {
    list.push_back({{"key", said(work.key)},
                    {"address", said(work.address)},
                    {"runs", work.runs.count},
                    {"run_ms", work.runs.ms},
                    {"loads", work.loads.count},
                    {"load_ms", work.loads.ms},
                    {"transfers", work.transfers.count},
                    {"transfer_ms", work.transfers.ms}});
  }
  return list;
}

Json turns_json(const std::optional<TurnRecord>& turns) {
  if (!turns) return nullptr;
  return {{"count", turns->turns}, {"waited_s", turns->waited_s}, {"beside", said(turns->beside)}};
}

Json process_json(const ProcessMeasurement& process) {
  Json json;
  json["load_ms"] = shown(process.load_ms);
  json["first_inference_ms"] = process.first_inference_ms;
  json["warm_up"] = {
      {"runs", process.warm_up.runs}, {"ms", process.warm_up.ms}, {"steady", shown(process.warm_up.steady)}};
  const std::vector<double> used = process.used_samples_ms();
  json["median_ms"] = median_of(used.empty() ? process.samples_ms : used);
  json["runs_per_sample"] = process.number;
  json["runs_per_second"] = shown(process.runs_per_second);
  json["peak_resident_bytes"] = said(process.peak_resident_bytes);
  json["samples_ms"] = process.samples_ms;
  json["started_ms"] = said(process.started_ms);
  json["readings"] = Json::array();
  for (const rpc::ProbeReading& reading : process.readings) json["readings"].push_back(reading_json(reading));
  json["pulses"] = Json::array();
  for (const rpc::CorePulse& pulse : process.pulses)
    json["pulses"].push_back(Json::array({pulse.at_ms, pulse.value}));
  json["beside"] = beside_json(process.beside);
  json["disturbed"] = shown(process.disturbed);
  json["used_samples"] = used.size();
  return json;
}

void add_statistics(Json& json, const Measurement& measurement) {
  const std::vector<double> samples = measurement.samples_ms();
  const Spread s = spread_of(samples);
  std::vector<double> medians;
  for (const auto& process : measurement.processes) medians.push_back(median_of(process.samples_ms));
  const bool streams = measurement.processes.front().runs_per_second.has_value();
  json["median_ms"] = streams ? median_of(medians) : measurement.speed_ms();
  const bool has_interval = !streams && measurement.interval;
  json["interval_ms"] =
      has_interval ? Json({measurement.interval->low_ms, measurement.interval->high_ms}) : Json(nullptr);
  json["confidence"] = 0.95;
  json["reached_goal"] = measurement.reached_goal;
  json["elapsed_s"] = measurement.elapsed_s;
  json["min_ms"] = s.min;
  json["mean_ms"] = s.mean;
  json["p90_ms"] = shown(percentile(samples, 0.9));
  json["p99_ms"] = shown(percentile(samples, 0.99));
  json["stddev_ms"] = samples.size() > 1 ? Json(s.stddev) : Json(nullptr);
  json["runs_per_second"] = 1000 / measurement.speed_ms();
  json["runs_per_second_interval"] =
      measurement.interval ? Json({1000 / measurement.interval->high_ms, 1000 / measurement.interval->low_ms})
                           : Json(nullptr);
  uint64_t taken = 0;
  for (const ProcessMeasurement& process : measurement.processes) taken += process.taken();
  json["sample_count"] = taken;
}

/// Medians over processes of what happens once in each.
void add_starting(Json& json, const Measurement& measurement) {
  std::vector<double> loads, firsts;
  for (const ProcessMeasurement& process : measurement.processes) {
    if (process.load_ms) loads.push_back(*process.load_ms);
    firsts.push_back(process.first_inference_ms);
  }
  json["load_ms"] = loads.empty() ? Json(nullptr) : Json(median_of(loads));
  json["first_inference_ms"] = median_of(firsts);
}

Json memory_json(const Measurement& measurement) {
  const rpc::BenchmarkResult& r = measurement.last;
  uint64_t peak = 0;
  for (const ProcessMeasurement& process : measurement.processes)
    peak = std::max(peak, process.peak_resident_bytes);
  const bool on_gpu = r.device_workspace_bytes + r.device_weights_bytes + r.device_io_bytes > 0;
  const auto device = [&](uint64_t bytes) { return on_gpu ? Json(bytes) : Json(nullptr); };
  return {{"workspace_bytes", r.workspace_bytes},
          {"weights_bytes", r.weights_bytes},
          {"io_bytes", r.io_bytes},
          {"peak_resident_bytes", said(peak)},
          {"device_workspace_bytes", device(r.device_workspace_bytes)},
          {"device_weights_bytes", device(r.device_weights_bytes)},
          {"device_io_bytes", device(r.device_io_bytes)}};
}

Json machine_json(const Measurement& measurement) {
  const MachineSummary s = summarise_machine(measurement);
  Json json;
  json["cpus"] = said(measurement.reading_cpus);
  json["notes"] = measurement.probe_notes;
  json["clock_mhz_mean"] = shown(s.clock_mhz_mean);
  json["clock_mhz_min"] = shown(s.clock_mhz_min);
  json["clock_mhz_max"] = shown(s.clock_mhz_max);
  json["temperature_celsius_max"] = shown(s.temperature_celsius_max);
  json["throttle_events"] = shown(s.throttle_events);
  json["throttled"] = shown(s.throttled);
  json["energy_joules"] = shown(s.energy_joules);
  json["power_watts"] = shown(s.power_watts);
  json["others_share"] = shown(s.others_share);
  json["steal_share"] = shown(s.steal_share);
  json["gpu_clock_mhz"] = shown(s.gpu_clock_mhz);
  json["gpu_temperature_celsius_max"] = shown(s.gpu_temperature_celsius_max);
  json["gpu_power_watts"] = shown(s.gpu_power_watts);
  json["gpu_throttled"] = shown(s.gpu_throttled);
  json["disturbed_share"] = shown(measurement.disturbed_share());
  json["undisturbed_pulse"] = shown(measurement.undisturbed_pulse);
  return json;
}

}  // namespace

std::string report_to_json(const BenchReport& report) {
  const Measurement& m = report.measurement;
  Json json;
  json["schema"] = "gantry-bench";
  json["schema_version"] = kSchemaVersion;
  json["gantry_version"] = report.gantry_version;
  json["date"] = report.date;
  json["command"] = report.command;
  json["model"] = report.model;
  json["module_digest"] = report.module_digest;
  json["module_bytes"] = report.module_bytes;
  json["opt_level"] = report.opt_level >= 0 ? Json(report.opt_level) : Json(nullptr);
  json["optimize"] = said(report.optimize);
  json["precision"] = said(report.precision);
  json["target"] = m.last.target;
  json["specialized"] = said(report.program_choice.sizes);
  json["specializations"] = report.program_choice.specialized;
  json["device"] = report.device;
  json["threads"] = m.last.threads;
  json["inputs"] = inputs_json(report.inputs);
  json["options"] = options_json(report.options, report.seed);
  add_statistics(json, m);
  add_starting(json, m);
  json["memory"] = memory_json(m);
  Json board = board_info_json(m.board);
  board["name"] = report.board;
  board["address"] = said(report.address);
  json["board"] = std::move(board);
  json["machine"] = machine_json(m);
  json["turns"] = turns_json(m.turns);
  json["processes"] = Json::array();
  for (const ProcessMeasurement& process : m.processes) json["processes"].push_back(process_json(process));
  json["warnings"] = report.warnings;
  json["timeline"] = timeline_json(m.last.timeline);
  json["kernels"] = report.options.profile ? kernels_json(m.last) : Json(nullptr);
  json["program"] = report.program ? program_json(*report.program) : Json(nullptr);
  json["peaks"] = report.peaks ? peaks_json(*report.peaks) : Json(nullptr);
  json["peaks_note"] = said(report.peaks_note);
  return document_text(json);
}

}  // namespace gantry::cli
