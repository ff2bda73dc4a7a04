// Section 4: NVIDIA's own tools, where they are installed and time is left.
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <set>

#include "benchmarks/gpu/context.h"

namespace gantry::gpu_bundle {
namespace {

namespace fs = std::filesystem;

constexpr const char* kName = "tools";
constexpr double kLongestCheck = 90, kLongestProfile = 120;
constexpr size_t kProfiledKernels = 10;
/// An exit code that says that the tool has found something.
constexpr int kFound = 86;

std::string find_sanitizer() {
  return find_program("compute-sanitizer", {"/usr/local/cuda/bin", "/usr/local/cuda/compute-sanitizer"});
}

/// Nsight Compute's folders have their version in their names.
std::string find_ncu() {
  std::vector<std::string> folders = {"/usr/local/cuda/bin"};
  std::error_code none;
  for (const auto& entry : fs::directory_iterator("/opt/nvidia/nsight-compute", none))
    folders.push_back(entry.path());
  return find_program("ncu", folders);
}

struct Profiled {
  std::string row, symbol, module;
  double ms = 0;
};

class ToolsSection : public Section {
  using Step = std::function<void(Context&, Clock::time_point)>;

 public:
  bool run(Context& context, Clock::time_point until) override {
    context.ask_machine();
    if (!context.machine.gpu_problem.empty()) {
      context.report.row(kName, "GPU", {{"result", "no GPU"}, {"text", context.machine.gpu_problem}},
                         context.machine.gpu_problem);
      return true;
    }
    if (!planned_) plan(context, until);
    while (!steps_.empty()) {
      if (!context.has_time(until, 4)) return false;
      Step step = std::move(steps_.front());
      steps_.pop_front();
      const int done = context.report.done(kName);
      step(context, until);
      if (Context::is_over(until)) {
        context.report.set_done(kName, done);
        steps_.push_front(std::move(step));
        return false;
      }
    }
    return true;
  }

 private:
  void plan(Context& context, Clock::time_point until) {
    planned_ = true;
    sanitizer_ = find_sanitizer();
    ncu_ = find_ncu();
    for (const auto& [tool, path] : {std::pair{"compute-sanitizer", sanitizer_}, std::pair{"ncu", ncu_}}) {
      if (path.empty())
        context.report.row(kName, tool,
                           {{"result", "not installed"}, {"text", "it is not in PATH nor with CUDA"}},
                           std::string(tool) + ": not installed");
    }
    if (!ncu_.empty()) plan_profiles(context);
    if (!sanitizer_.empty()) plan_checks(context, until);
    context.report.set_steps(kName, steps_.size() + (sanitizer_.empty() ? 1 : 0) + (ncu_.empty() ? 1 : 0));
  }

  /// The kernels that took longest of all networks that were measured, each once.
  void plan_profiles(const Context& context) {
    std::vector<Profiled> kernels;
    for (const Json& section : context.report.document()["sections"]) {
      if (section["name"] != "networks") continue;
      for (const Json& row : section["rows"]) {
        for (const Json& kernel : row.value("kernels", Json::array())) {
          if (!kernel.value("symbol", Json()).is_string()) continue;
          kernels.push_back(
              {row["name"], kernel["symbol"],
               (context.work / fmt::format("{}_{}.{}.gmod", row["network"].get<std::string>(),
                                           row["batch"].get<int>(), row["precision"].get<std::string>()))
                   .string(),
               kernel.value("total_ms", 0.0)});
        }
      }
    }
    std::stable_sort(kernels.begin(), kernels.end(),
                     [](const Profiled& a, const Profiled& b) { return a.ms > b.ms; });
    std::set<std::string> seen;
    for (const Profiled& kernel : kernels) {
      if (seen.size() == kProfiledKernels) break;
      if (!seen.insert(kernel.row + kernel.symbol).second) continue;
      steps_.push_back([this, kernel](Context& c, Clock::time_point until) { profile(c, kernel, until); });
    }
  }

  void profile(Context& context, const Profiled& kernel, Clock::time_point until) {
    const std::string name = fmt::format("ncu: {} of {}", kernel.symbol, kernel.row);
    const Outcome outcome = gpu_bundle::run(context.command(
        {ncu_, "--csv", "--page", "raw", "--metrics",
         "gpu__time_duration.sum,sm__throughput.avg.pct_of_peak_sustained_elapsed,"
         "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed,"
         "lts__throughput.avg.pct_of_peak_sustained_elapsed,sm__warps_active.avg.pct_of_peak_sustained_"
         "active,"
         "launch__registers_per_thread,launch__occupancy_limit_registers,launch__occupancy_limit_shared_mem",
         "--kernel-name", "regex:^" + kernel.symbol + "_[0-9]+$", "--launch-count", "8",
         context.program("gpu_case"), "module", kernel.module, "cuda"},
        kLongestProfile, until));
    context.report.row(kName, name,
                       {{"result", outcome.ok() ? "counted" : "failed"},
                        {"text", outcome.ok() ? "" : outcome.why() + outcome.output},
                        {"csv", outcome.output}},
                       name + (outcome.ok() ? ": counted" : ": " + one_line(outcome.why() + outcome.output)));
  }

  void plan_checks(Context& context, Clock::time_point until) {
    const Outcome listed = gpu_bundle::run(context.command(
        {context.program("gpu_case"), "list", (context.options.bundle / "cases.pack").string()}, 20, until));
    const Json said = last_object(listed.output);
    if (said.is_null()) {
      context.report.row(kName, "cases.pack", {{"result", "failed"}, {"text", listed.why()}}, listed.why());
      return;
    }
    for (const char* tool : {"memcheck", "racecheck"}) {
      for (const Json& entry : said.value("cases", Json::array())) {
        if (entry["op"] == "") continue;
        steps_.push_back([this, tool, name = entry["name"].get<std::string>()](
                             Context& c, Clock::time_point end) { check(c, tool, name, end); });
      }
    }
  }

  void check(Context& context, const std::string& tool, const std::string& name, Clock::time_point until) {
    const Outcome outcome = gpu_bundle::run(context.command(
        {sanitizer_, "--tool", tool, "--error-exitcode", std::to_string(kFound), "--print-limit", "20",
         context.program("gpu_case"), "run", (context.options.bundle / "cases.pack").string(), name, "cuda",
         "cuda:" + context.machine.architecture + "/native", context.program("gantry")},
        kLongestCheck, until));
    const bool found = outcome.end == Outcome::End::kExited && outcome.code == kFound;
    const std::string result = outcome.ok() ? "clean" : found ? "found" : "failed";
    const std::string text = outcome.ok() ? "" : found ? outcome.output : outcome.why() + outcome.output;
    context.report.row(kName, tool + ": " + name, {{"result", result}, {"text", text}},
                       outcome.ok() ? "" : fmt::format("{}: {}: {}: {}", tool, name, result, one_line(text)));
  }

  std::deque<Step> steps_;
  std::string sanitizer_, ncu_;
  bool planned_ = false;
};

}  // namespace

std::unique_ptr<Section> tools_section() {
  return std::make_unique<ToolsSection>();
}

}  // namespace gantry::gpu_bundle
