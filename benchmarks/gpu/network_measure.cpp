#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "benchmarks/gpu/networks_section.h"

namespace gantry::gpu_bundle {
namespace {

constexpr double kLongestRun = 40, kLongestBench = 40;
constexpr const char* kMeasured = "2s";

Json read_json(const std::string& path) {
  std::ifstream file(path);
  Json parsed = Json::parse(file, nullptr, false);
  return parsed.is_discarded() ? Json() : parsed;
}

/// The largest deviation that `gantry run --json` reports; null where it compared nothing.
Json largest_deviation(const Json& run) {
  Json largest;
  for (const Json& output : run.value("outputs", Json::array())) {
    if (!output.contains("deviation")) continue;
    if (!output["deviation"].is_number()) return output["deviation"];  // "inf", "nan"
    if (largest.is_null() || output["deviation"] > largest) largest = output["deviation"];
  }
  return largest;
}

/// Whether the module gives what it must.
Json compare(Context& context, const Models::Model& model, const std::string& module, const Setting& setting,
             Clock::time_point until) {
  std::vector<std::string> arguments = {
      context.program("gantry"), "run", module, "--device", "cuda", "--json"};
  arguments.insert(arguments.end(), model.data.begin(), model.data.end());
  if (std::find(arguments.begin(), arguments.end(), "--expect") != arguments.end())
    arguments.insert(arguments.end(), {"--tolerance", fmt::format("{:g}", setting.tolerance)});
  const Outcome outcome = run(context.command(arguments, kLongestRun, until));
  const Json said = Json::parse(outcome.output, nullptr, false);
  if (!said.is_object())
    return {{"result", outcome.end == Outcome::End::kTimedOut ? "timed out" : "failed"},
            {"text", outcome.why()}};
  const Json error = largest_deviation(said);
  return {{"result", error.is_null() ? "ran"
                     : outcome.ok()  ? "pass"
                                     : "wrong"},
          {"text", outcome.ok() ? "" : outcome.why()},
          {"error", error},
          {"tolerance", setting.tolerance},
          {"beside", model.reference}};
}

Json memory_of(const Json& bench) {
  const Json memory = bench.value("memory", Json::object());
  int64_t sum = 0;
  for (const char* part : {"device_workspace_bytes", "device_weights_bytes", "device_io_bytes"}) {
    if (memory.value(part, Json()).is_number()) sum += memory[part].get<int64_t>();
  }
  return sum;
}

}  // namespace

Json slowest_kernels(const Json& bench, const Json& peaks, const std::string& precision, size_t count) {
  Json kernels = bench.value("kernels", Json());
  if (!kernels.is_array()) return Json::array();
  std::stable_sort(kernels.begin(), kernels.end(), [](const Json& a, const Json& b) {
    return a.value("total_ms", 0.0) > b.value("total_ms", 0.0);
  });
  const auto peak = [&](const std::string& field) {
    return peaks.is_object() ? peaks.value(field, 0.0) : 0.0;
  };
  const double bandwidth = peak("bandwidth_gb_per_s"), rate = peak(precision + "_gflop_per_s");
  Json slowest = Json::array();
  for (const Json& kernel : kernels) {
    if (slowest.size() == count) break;
    Json entry;
    for (const char* field : {"symbol", "name", "nodes", "total_ms", "share", "flops", "bytes"})
      entry[field] = kernel.value(field, Json());
    const double ms = kernel.value("total_ms", 0.0);
    if (bandwidth > 0 && rate > 0 && ms > 0) {
      const double moving = kernel.value("bytes", 0.0) / bandwidth / 1e6;
      const double computing = kernel.value("flops", 0.0) / rate / 1e6;
      entry["roof_ms"] = std::max(moving, computing);
      entry["of_roof"] = std::max(moving, computing) / ms;
      entry["bound_by"] = moving >= computing ? "memory" : "arithmetic";
    }
    slowest.push_back(std::move(entry));
  }
  return slowest;
}

Json measure(Context& context, const Models::Model& model, const std::string& network, const Setting& setting,
             Clock::time_point until) {
  const std::string module = module_path(context, network, setting), result = module + ".json";
  Json fields = compare(context, model, module, setting, until);
  if (fields["result"] == "failed" || fields["result"] == "timed out") return fields;
  std::vector<std::string> arguments = {context.program("gantry"), "bench", module, "--device", "cuda"};
  if (model.data.size() > 1 && model.data[0] == "--input")
    arguments.insert(arguments.end(), {model.data[0], model.data[1]});
  arguments.insert(arguments.end(),
                   {"--processes", "1", "--duration", kMeasured, "--profile", "--json", result, "--force"});
  const Outcome outcome = run(context.command(arguments, kLongestBench, until));
  const Json bench = outcome.ok() ? read_json(result) : Json();
  if (!bench.is_object()) {
    fields["text"] = fields.value("text", "") + " bench: " + outcome.why();
    return fields;
  }
  for (const char* field : {"median_ms", "interval_ms", "load_ms", "first_inference_ms", "machine"})
    fields[field] = bench.value(field, Json());
  fields["memory_bytes"] = memory_of(bench);
  fields["kernels"] = slowest_kernels(bench, context.peaks, setting.precision);
  return fields;
}

}  // namespace gantry::gpu_bundle
