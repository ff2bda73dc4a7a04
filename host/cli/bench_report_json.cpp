#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "host/cli/bench_report.h"
#include "host/cli/machine_json.h"
#include "host/support/error.h"
#include "host/support/input_file.h"

namespace gantry::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kSchema = "gantry-bench";
constexpr int kSchemaVersion = 1;

Json cpu_state_json(const rpc::CpuState& state) {
  Json json = Json::object();
  json["frequency_mhz"] = state.frequency_mhz;
  json["temperature_celsius"] = state.temperature_celsius ? Json(*state.temperature_celsius) : Json(nullptr);
  json["throttle_events"] = state.throttle_events ? Json(*state.throttle_events) : Json(nullptr);
  json["governor"] = state.governor;
  return json;
}

Json gpu_state_json(const rpc::GpuState& state) {
  const auto shown = [](const auto& value) { return value ? Json(*value) : Json(nullptr); };
  Json json = Json::object();
  json["clock_mhz"] = shown(state.clock_mhz);
  json["temperature_celsius"] = shown(state.temperature_celsius);
  json["power_watts"] = shown(state.power_watts);
  json["throttled"] = shown(state.throttled);
  return json;
}

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
    json["name"] = kernel.name;
    json["nodes"] = split_origin(kernel.origin);
    json["calls"] = kernel.calls;
    json["total_ms"] = kernel.total_ms;
    json["share"] = total > 0 ? kernel.total_ms / total : 0;
    json["flops"] = kernel.flops;
    json["bytes"] = kernel.bytes;
    json["gflop_per_s"] = seconds > 0 ? kernel.flops / seconds / 1e9 : 0;
    json["gb_per_s"] = seconds > 0 ? kernel.bytes / seconds / 1e9 : 0;
    list.push_back(std::move(json));
  }
  return list;
}

Json options_json(const rpc::BenchmarkOptions& options) {
  Json json;
  json["warmup"] = options.warmup;
  json["number"] = options.number;
  json["repeat"] = options.repeat;
  json["min_repeat_ms"] = options.min_repeat_ms;
  json["cooldown_ms"] = options.cooldown_ms;
  json["flush_cache"] = options.flush_cache;
  json["profile"] = options.profile;
  return json;
}

Json inputs_json(const std::vector<BenchInput>& inputs) {
  Json list = Json::array();
  for (const BenchInput& input : inputs) {
    Json json;
    json["name"] = input.name;
    json["dtype"] = type_name(input.type);
    json["shape"] = input.shape;
    json["source"] = input.source;
    list.push_back(std::move(json));
  }
  return list;
}

void add_statistics(Json& json, const rpc::BenchmarkResult& result) {
  const rpc::BenchmarkStatistics& s = result.statistics;
  json["median_ms"] = s.median_ms;
  json["min_ms"] = s.min_ms;
  json["mean_ms"] = s.mean_ms;
  json["p90_ms"] = s.p90_ms;
  json["p99_ms"] = s.p99_ms;
  json["stddev_ms"] = s.stddev_ms;
  json["runs_per_second"] = s.median_ms > 0 ? 1000 / s.median_ms : 0;
  json["runs_per_sample"] = result.number;
  json["samples_ms"] = result.samples_ms;
}

/// A field that must be there, of the type asked for.
template <typename T>
T field(const Json& json, const char* key, const std::filesystem::path& path) {
  const auto found = json.find(key);
  if (found == json.end())
    user_error("{}: no field '{}'; is it written by `gantry bench --json`?", path.string(), key);
  try {
    return found->get<T>();
  } catch (const Json::exception&) {
    user_error("{}: field '{}' has the wrong type", path.string(), key);
  }
}

Json parse_document(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) cannot_read(path, errno);
  Json json = Json::parse(file, nullptr, false);
  if (json.is_discarded() || !json.is_object()) {
    user_error("{}: not a bench result; write one with `gantry bench MODEL --json FILE`", path.string());
  }
  if (field<std::string>(json, "schema", path) != kSchema) {
    user_error("{}: schema '{}' where '{}' is wanted", path.string(), json["schema"].dump(), kSchema);
  }
  const auto version = field<int>(json, "schema_version", path);
  if (version < 1 || version > kSchemaVersion) {
    user_error("{}: schema version {}; this gantry reads {}", path.string(), version, kSchemaVersion);
  }
  return json;
}

}  // namespace

std::string report_to_json(const BenchReport& report) {
  const rpc::BenchmarkResult& r = report.result;
  Json json;
  json["schema"] = kSchema;
  json["schema_version"] = kSchemaVersion;
  json["gantry_version"] = report.gantry_version;
  json["date"] = report.date;
  json["command"] = report.command;
  json["model"] = report.model;
  json["module_digest"] = report.module_digest;
  json["module_bytes"] = report.module_bytes;
  json["opt_level"] = report.opt_level >= 0 ? Json(report.opt_level) : Json(nullptr);
  json["target"] = r.target;
  json["device"] = report.device;
  json["threads"] = r.threads;
  json["inputs"] = inputs_json(report.inputs);
  json["options"] = options_json(report.options);
  add_statistics(json, r);
  json["memory"] = {{"workspace_bytes", r.workspace_bytes},
                    {"weights_bytes", r.weights_bytes},
                    {"io_bytes", r.io_bytes},
                    {"peak_resident_bytes", r.peak_resident_bytes}};
  if (r.device_workspace_bytes + r.device_weights_bytes + r.device_io_bytes > 0) {
    json["memory"]["device_workspace_bytes"] = r.device_workspace_bytes;
    json["memory"]["device_weights_bytes"] = r.device_weights_bytes;
    json["memory"]["device_io_bytes"] = r.device_io_bytes;
    json["gpu_state"] = {{"before", gpu_state_json(r.gpu_before)}, {"after", gpu_state_json(r.gpu_after)}};
  }
  Json board = board_info_json(r.board);
  board["name"] = report.board;
  board["address"] = report.address;
  json["board"] = std::move(board);
  json["cpu_state"] = {{"before", cpu_state_json(r.cpu_before)},
                       {"during", cpu_state_json(r.cpu_during)},
                       {"after", cpu_state_json(r.cpu_after)}};
  json["warnings"] = report.warnings;
  if (report.options.profile) json["kernels"] = kernels_json(r);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

ReportSummary read_report(const std::filesystem::path& path) {
  const Json json = parse_document(path);
  ReportSummary summary;
  summary.path = path;
  summary.samples_ms = field<std::vector<double>>(json, "samples_ms", path);
  summary.model = field<std::string>(json, "model", path);
  summary.device = field<std::string>(json, "device", path);
  summary.target = field<std::string>(json, "target", path);
  summary.module_digest = field<std::string>(json, "module_digest", path);
  summary.date = field<std::string>(json, "date", path);
  summary.threads = field<int64_t>(json, "threads", path);
  const auto board = field<Json>(json, "board", path);
  summary.board = field<std::string>(board, "hostname", path);
  summary.cpu = field<std::string>(board, "cpu", path);
  for (const Json& input : field<std::vector<Json>>(json, "inputs", path)) {
    const auto shape = field<std::vector<int64_t>>(input, "shape", path);
    summary.inputs[field<std::string>(input, "name", path)] =
        field<std::string>(input, "dtype", path) + " " + shape_text(shape);
  }
  return summary;
}

std::vector<std::string> comparability_warnings(const ReportSummary& base, const ReportSummary& other) {
  std::vector<std::string> warnings;
  auto compare = [&](const char* what, const std::string& a, const std::string& b) {
    if (a != b) warnings.push_back(fmt::format("measured with another {}: {} and {}", what, a, b));
  };
  compare("board", base.board, other.board);
  compare("CPU", base.cpu, other.cpu);
  compare("device", base.device, other.device);
  compare("number of threads", std::to_string(base.threads), std::to_string(other.threads));
  auto shapes = [](const ReportSummary& report) {
    std::string text;
    for (const auto& [name, type] : report.inputs) text += (text.empty() ? "" : ", ") + name + ": " + type;
    return text;
  };
  compare("input", shapes(base), shapes(other));
  for (const ReportSummary* report : {&base, &other}) {
    if (report->samples_ms.size() < 10) {
      warnings.push_back(fmt::format("{}: only {} samples; the interval is rough", report->path.string(),
                                     report->samples_ms.size()));
    }
  }
  return warnings;
}

}  // namespace gantry::cli
