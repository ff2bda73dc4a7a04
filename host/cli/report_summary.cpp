#include "host/cli/report_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "host/cli/result_fields.h"
#include "host/support/error.h"

namespace gantry::cli {
namespace {

using Json = nlohmann::json;

// How much two results of one program may differ beside what differs between their processes, of each side:
/// because another time of the day is another state of the machine;
constexpr double kApartSpread = 0.01;
/// because boards of one kind differ in their silicon and cooling;
constexpr double kOtherBoardSpread = 0.03;
/// because a clock was held down for some of the time;
constexpr double kThrottledSpread = 0.05;
/// because it was measured before it was steady;
constexpr double kRestlessSpread = 0.02;
/// because others used the cores all the time: by how much they slow networks.
constexpr double kDisturbedSpread = 0.4;
/// Less than this of the machine's time is what any system does.
constexpr double kUsualLoad = 0.02;

ProcessSamples samples_of(const Json& json, const std::filesystem::path& path) {
  ProcessSamples process{field<std::vector<double>>(json, "samples_ms", path)};
  if (process.samples_ms.empty()) user_error("{}: a process without samples", path.string());
  for (double ms : process.samples_ms) {
    if (!std::isfinite(ms) || ms <= 0) user_error("{}: a sample of {} ms is no time", path.string(), ms);
  }
  return process;
}

size_t restless(const Measurement& measurement) {
  return static_cast<size_t>(std::ranges::count_if(
      measurement.processes,
      [](const ProcessMeasurement& process) { return process.warm_up.steady == false; }));
}

std::vector<rpc::CorePulse> pulses_of(const Json& process, const std::filesystem::path& path) {
  std::vector<rpc::CorePulse> pulses;
  for (const auto& pulse : maybe<std::vector<std::vector<double>>>(process, "pulses", path)
                               .value_or(std::vector<std::vector<double>>())) {
    if (pulse.size() != 2) user_error("{}: a pulse is not a time and a value", path.string());
    pulses.push_back({pulse[0], pulse[1], pulse[1]});
  }
  return pulses;
}

ProcessMeasurement process_of(const Json& json, const std::filesystem::path& path) {
  if (!json.is_object()) user_error("{}: field 'processes' has the wrong type", path.string());
  ProcessMeasurement process;
  process.runs_per_second = maybe<double>(json, "runs_per_second", path);
  if (process.runs_per_second && !(*process.runs_per_second > 0))
    user_error("{}: {} runs a second are no rate", path.string(), *process.runs_per_second);
  if (!process.runs_per_second) process.samples_ms = samples_of(json, path).samples_ms;
  process.started_ms = maybe<std::vector<double>>(json, "started_ms", path).value_or(std::vector<double>());
  process.pulses = pulses_of(json, path);
  const auto warm_up = field<Json>(json, "warm_up", path);
  if (warm_up.is_object()) process.warm_up.steady = maybe<bool>(warm_up, "steady", path);
  return process;
}

void add_disturbance(const Measurement& measurement, ReportSummary& summary) {
  summary.undisturbed_pulse = measurement.undisturbed_pulse;
  summary.disturbed_share = measurement.disturbed_share();
  summary.uses_disturbed = measurement.uses_disturbed;
}

void read_processes(const Json& json, const std::optional<double>& level, ReportSummary& summary,
                    const std::filesystem::path& path) {
  Measurement measurement;
  for (const Json& process : field<std::vector<Json>>(json, "processes", path))
    measurement.processes.push_back(process_of(process, path));
  if (measurement.processes.empty()) user_error("{}: no processes were measured", path.string());
  const auto machine = field<Json>(json, "machine", path);
  if (!machine.is_object()) user_error("{}: field 'machine' has the wrong type", path.string());
  leave_out_disturbed(measurement, level ? level : maybe<double>(machine, "undisturbed_pulse", path));
  summary.processes = speed_of(measurement.processes);
  summary.restless_processes = restless(measurement);
  add_disturbance(measurement, summary);
}

/// What version 2 added.
void read_circumstances(const Json& json, ReportSummary& summary, const std::filesystem::path& path) {
  summary.precision = maybe<std::string>(json, "precision", path).value_or("");
  summary.optimize = maybe<std::string>(json, "optimize", path).value_or("");
  const auto options = field<Json>(json, "options", path);
  if (!options.is_object()) user_error("{}: field 'options' has the wrong type", path.string());
  summary.streams = maybe<uint32_t>(options, "streams", path).value_or(0);
  summary.cold = maybe<bool>(options, "cold", path).value_or(false);
  const auto machine = field<Json>(json, "machine", path);
  if (!machine.is_object()) user_error("{}: field 'machine' has the wrong type", path.string());
  summary.throttled = maybe<bool>(machine, "throttled", path);
  if (maybe<int64_t>(machine, "throttle_events", path).value_or(0) > 0) summary.throttled = true;
  summary.others_share = maybe<double>(machine, "others_share", path);
}

std::string input_text(const rpc::ElementType& type, const std::vector<int64_t>& shape,
                       const std::string& source) {
  return type_and_shape(type, shape) + ", " + source;
}

}  // namespace

size_t ReportSummary::samples() const {
  size_t count = 0;
  for (const ProcessSamples& process : processes) count += process.samples_ms.size();
  return count;
}

bool looks_like_json(const std::filesystem::path& path) {
  std::error_code code;
  if (!std::filesystem::is_regular_file(path, code)) return false;
  std::ifstream file(path, std::ios::binary);
  char first = 0;
  return (file >> first) && first == '{';
}

ReportSummary read_report(const std::filesystem::path& path, std::optional<double> level) {
  return summary_of_document(read_result_document(path), path, level);
}

ReportSummary summary_of_document(const Json& json, const std::filesystem::path& path,
                                  std::optional<double> level) {
  check_result_document(json, path);
  ReportSummary summary;
  summary.name = path.string();
  summary.model = field<std::string>(json, "model", path);
  summary.device = field<std::string>(json, "device", path);
  summary.target = field<std::string>(json, "target", path);
  summary.module_digest = field<std::string>(json, "module_digest", path);
  summary.date = field<std::string>(json, "date", path);
  summary.threads = field<int64_t>(json, "threads", path);
  summary.opt_level = maybe<int>(json, "opt_level", path);
  const auto board = field<Json>(json, "board", path);
  if (!board.is_object()) user_error("{}: field 'board' has the wrong type", path.string());
  summary.board = maybe<std::string>(board, "hostname", path).value_or("");
  summary.cpu = maybe<std::string>(board, "cpu", path).value_or("");
  for (const Json& input : field<std::vector<Json>>(json, "inputs", path)) {
    if (!input.is_object()) user_error("{}: field 'inputs' has the wrong type", path.string());
    summary.inputs[field<std::string>(input, "name", path)] =
        field<std::string>(input, "dtype", path) + " " +
        shape_text(field<std::vector<int64_t>>(input, "shape", path)) + ", " +
        field<std::string>(input, "source", path);
  }
  if (field<int>(json, "schema_version", path) == 1) {
    summary.processes.push_back(samples_of(json, path));
  } else {
    read_processes(json, level, summary, path);
    read_circumstances(json, summary, path);
  }
  return summary;
}

std::optional<double> common_level(const ReportSummary& first, const ReportSummary& second) {
  const bool same_machine =
      first.board == second.board && first.cpu == second.cpu && first.threads == second.threads;
  if (!same_machine || !first.undisturbed_pulse || !second.undisturbed_pulse) return std::nullopt;
  return std::min(*first.undisturbed_pulse, *second.undisturbed_pulse);
}

std::pair<ReportSummary, ReportSummary> read_reports(const std::filesystem::path& first,
                                                     const std::filesystem::path& second) {
  // Each is read once: what one writes into a pipe is gone then.
  const Json documents[] = {read_result_document(first), read_result_document(second)};
  ReportSummary base = summary_of_document(documents[0], first),
                other = summary_of_document(documents[1], second);
  if (const auto level = common_level(base, other)) {
    if (*base.undisturbed_pulse > *level) base = summary_of_document(documents[0], first, level);
    if (*other.undisturbed_pulse > *level) other = summary_of_document(documents[1], second, level);
  }
  return {std::move(base), std::move(other)};
}

ReportSummary summary_of(const BenchReport& report) {
  const Measurement& m = report.measurement;
  const MachineSummary machine = summarise_machine(m);
  ReportSummary summary;
  summary.name = report.model;
  summary.processes = speed_of(m.processes);
  summary.model = report.model;
  summary.board = m.board.hostname;
  summary.cpu = m.board.cpu;
  summary.device = report.device;
  summary.target = m.last.target;
  summary.module_digest = report.module_digest;
  summary.date = report.date;
  summary.precision = report.precision;
  if (report.opt_level >= 0) summary.opt_level = report.opt_level;
  summary.optimize = report.optimize;
  summary.threads = m.last.threads;
  summary.streams = report.options.streams;
  summary.cold = report.options.cold;
  for (const BenchInput& input : report.inputs) {
    summary.inputs[input.name] = input_text(input.type, input.shape, input.source);
  }
  summary.throttled = machine.throttled;
  summary.others_share = machine.others_share;
  summary.restless_processes = restless(m);
  add_disturbance(m, summary);
  return summary;
}

namespace {

/// What makes times less sure than their samples tell.
struct Doubt {
  std::string warning;
  double spread = 0;
};

std::vector<Doubt> doubts_of(const ReportSummary& report) {
  std::vector<Doubt> doubts;
  if (report.processes.size() == 1) {
    doubts.push_back({fmt::format("one process; that others differ by about {:.0f} % is assumed",
                                  100 * kAssumedProcessSpread)});
  }
  if (report.throttled.value_or(false)) doubts.push_back({"the machine was throttled", kThrottledSpread});
  if (report.restless_processes > 0) doubts.push_back({"measured before it was steady", kRestlessSpread});
  if (report.uses_disturbed) {
    const double share = report.disturbed_share.value_or(0);
    doubts.push_back({fmt::format("something outside of the machine's sight used its cores for "
                                  "{:.0f} % of the time; too little was undisturbed to count alone",
                                  100 * share),
                      kDisturbedSpread * share});
  }
  if (report.others_share.value_or(0) > kUsualLoad) {
    doubts.push_back({fmt::format("other processes used {:.0f} % of the machine", 100 * *report.others_share),
                      *report.others_share});
  }
  return doubts;
}

}  // namespace

Comparability comparability(const ReportSummary& base, const ReportSummary& other) {
  Comparability result;
  double variance = kApartSpread * kApartSpread;
  const auto widen = [&](double spread) { variance += spread * spread; };
  const auto differ = [&](const char* what, const std::string& a, const std::string& b) {
    if (a != b && (a.empty() || b.empty()))
      result.warnings.push_back(
          fmt::format("perhaps another {}: {} does not say its own", what, (a.empty() ? base : other).name));
    else if (a != b)
      result.warnings.push_back(fmt::format("another {}: {} and {}", what, a, b));
    return a != b;
  };
  result.warnings.push_back(
      "measured apart: what changed on the machine in between counts as a difference; "
      "`gantry compare` with two models or modules measures in turns");
  if (differ("board", base.board, other.board)) widen(kOtherBoardSpread);
  differ("CPU", base.cpu, other.cpu);
  differ("model", base.model, other.model);
  differ("device", base.device, other.device);
  differ("target", base.target, other.target);
  if (!base.precision.empty() || !other.precision.empty())
    differ("precision", base.precision, other.precision);
  const auto level = [](const std::optional<int>& opt) { return opt ? std::to_string(*opt) : std::string(); };
  differ("--opt level", level(base.opt_level), level(other.opt_level));
  if (!base.optimize.empty() || !other.optimize.empty()) differ("--optimize", base.optimize, other.optimize);
  differ("number of threads", std::to_string(base.threads), std::to_string(other.threads));
  const auto streams = [](uint32_t count) { return count > 0 ? std::to_string(count) : std::string("none"); };
  differ("number of streams", streams(base.streams), streams(other.streams));
  differ("state of the caches", base.cold ? "cold" : "warm", other.cold ? "cold" : "warm");
  const auto inputs = [](const ReportSummary& report) {
    std::string text;
    for (const auto& [name, type] : report.inputs) text += (text.empty() ? "" : "; ") + name + ": " + type;
    return text;
  };
  differ("input", inputs(base), inputs(other));
  for (const ReportSummary* report : {&base, &other}) {
    for (const Doubt& doubt : doubts_of(*report)) {
      result.warnings.push_back(fmt::format("{}: {}", report->name, doubt.warning));
      widen(doubt.spread);
    }
  }
  result.extra_spread = std::sqrt(variance);
  return result;
}

}  // namespace gantry::cli
