// Section 3: the GPU's peaks, then the networks in every setting, beside PyTorch and ONNX Runtime where they
// are.
#include "benchmarks/gpu/networks_section.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>

namespace gantry::gpu_bundle {
namespace {

constexpr const char* kName = "networks";
constexpr double kLongestPeaks = 45, kLongestTorch = 150, kLongestOnnxRuntime = 60;

const Setting kSettings[] = {{1, "fp32", 1e-4}, {1, "fp16", 1e-2}, {8, "fp32", 1e-4}, {8, "fp16", 1e-2},
                             {1, "tf32", 1e-2}, {8, "tf32", 1e-2}, {1, "bf16", 5e-2}, {8, "bf16", 5e-2}};

struct Step {
  double seconds;  ///< that it needs at least to tell anything
  std::function<void(Context&, Clock::time_point)> work;
};

bool is_asked(const std::vector<std::string>& asked, const std::string& name) {
  return asked.empty() || std::find(asked.begin(), asked.end(), name) != asked.end();
}

class NetworksSection : public Section {
 public:
  bool run(Context& context, Clock::time_point until) override {
    context.ask_machine();
    if (context.machine.architecture.empty()) {
      context.report.row(kName, "GPU", {{"result", "no GPU"}, {"text", context.machine.gpu_problem}},
                         context.machine.gpu_problem);
      return true;
    }
    if (!planned_) plan(context);
    while (!steps_.empty()) {
      if (!context.has_time(until, steps_.front().seconds)) return false;
      Step step = std::move(steps_.front());
      steps_.pop_front();
      const int done = context.report.done(kName);
      step.work(context, until);
      if (Context::is_over(until)) {
        context.report.set_done(kName, done);
        steps_.push_front(std::move(step));
        return false;
      }
    }
    return true;
  }

 private:
  /// Peaks; then for every two settings asked for gantry over all networks, and the others over all networks.
  void plan(Context& context) {
    planned_ = true;
    for (const Network& network : networks()) {
      if (is_asked(context.options.networks, network.name)) wanted_.push_back(network);
    }
    steps_.push_back({3, [this](Context& c, Clock::time_point until) { measure_peaks(c, until); }});
    size_t rows = 1;
    constexpr size_t kSides = 2;
    std::vector<Setting> asked;
    for (const Setting& setting : kSettings) {
      if (is_asked(context.options.settings, setting_name(setting))) asked.push_back(setting);
    }
    for (size_t first = 0; first < asked.size(); first += kSides) {
      const size_t end = std::min(first + kSides, asked.size());
      for (size_t i = first; i < end; ++i) rows += plan_gantry(context, asked[i]);
      for (size_t i = first; i < end; ++i) rows += plan_peers(context, asked[i]);
    }
    context.report.set_steps(kName, rows);
  }

  /// As many are made as can be at once, then measured, before the next.
  size_t plan_gantry(const Context& context, const Setting& setting) {
    const size_t at_once = models_at_once(context);
    for (size_t first = 0; first < wanted_.size(); first += at_once) {
      const std::vector<Network> group(
          wanted_.begin() + static_cast<std::ptrdiff_t>(first),
          wanted_.begin() + static_cast<std::ptrdiff_t>(std::min(first + at_once, wanted_.size())));
      steps_.push_back({8, [this, group, setting](Context& c, Clock::time_point until) {
                          prepare(c, group, setting, until);
                        }});
      for (const Network& network : group) {
        steps_.push_back({5, [this, network, setting](Context& c, Clock::time_point until) {
                            measure_network(c, network, setting, until);
                          }});
      }
    }
    return wanted_.size();
  }

  size_t plan_peers(const Context& context, const Setting& setting) {
    size_t rows = 0;
    const auto& peers = context.options.peers;
    for (const Network& network : wanted_) {
      if (context.machine.has_torch && is_asked(peers, "torch")) {
        ++rows;
        steps_.push_back({20, [this, network, setting](Context& c, Clock::time_point until) {
                            measure_torch(c, network, setting, until);
                          }});
      }
      if (context.machine.has_onnxruntime && is_asked(peers, "onnxruntime") &&
          (setting.precision == "fp32" || setting.precision == "tf32")) {
        ++rows;
        steps_.push_back({10, [this, network, setting](Context& c, Clock::time_point until) {
                            measure_onnxruntime(c, network, setting, until);
                          }});
      }
    }
    return rows;
  }

  void measure_peaks(Context& context, Clock::time_point until) {
    const Outcome outcome =
        gpu_bundle::run(context.command({context.program("gpu_peaks")}, kLongestPeaks, until));
    const Json said = last_object(outcome.output);
    if (said.is_object()) context.peaks = said.value("peaks", Json::object());
    context.report.facts(kName)["peaks"] = said;
    std::string text = said.is_object() ? said.value("text", "") : "";
    if (!outcome.ok()) text += outcome.why();
    context.report.row(kName, "peaks", {{"result", outcome.ok() ? "measured" : "failed"}, {"text", text}},
                       "peaks: " + one_line(text, 400));
  }

  void prepare(Context& context, const std::vector<Network>& group, const Setting& setting,
               Clock::time_point until) {
    std::string names;
    for (const Network& network : group) names += (names.empty() ? "" : ", ") + network.name;
    context.report.print(fmt::format("networks: making and compiling for batch {}, {}: {}", setting.batch,
                                     setting.precision, names));
    models_.make(context, group, setting.batch, until);
    problems_.merge(compile(context, models_, group, setting, until));
  }

  void measure_network(Context& context, const Network& network, const Setting& setting,
                       Clock::time_point until) {
    const std::string name = row_name(network.name, setting);
    const Models::Model& model = models_.get(network.name, setting.batch);
    Json fields;
    if (model.path.empty())
      fields = {{"result", "not made"}, {"text", model.problem}};
    else if (problems_.count(name) != 0)
      fields = {{"result", "not compiled"}, {"text", problems_.at(name)}};
    else if (!std::filesystem::exists(module_path(context, network.name, setting)))
      fields = {{"result", "not compiled"}, {"text", "not reached: no time left"}};
    else
      fields = measure(context, model, network.name, setting, until);
    fields["network"] = network.name;
    fields["batch"] = setting.batch;
    fields["precision"] = setting.precision;
    context.report.row(kName, name, fields, fmt::format("{}: {}", name, summary(fields)));
  }

  static std::string summary(const Json& fields) {
    std::string text = fields.value("result", "");
    if (fields.value("error", Json()).is_number())
      text += fmt::format(", error {:.2g}", fields["error"].get<double>());
    if (fields.value("median_ms", Json()).is_number())
      text += fmt::format(", {:.3f} ms, {:.0f} MB", fields["median_ms"].get<double>(),
                          fields["memory_bytes"].get<double>() / 1e6);
    const std::string problem = fields.value("text", "");
    return problem.empty() ? text : text + ": " + one_line(problem);
  }

  void measure_torch(Context& context, const Network& network, const Setting& setting,
                     Clock::time_point until) {
    std::vector<std::string> command{context.machine.python,
                                     (context.options.bundle / "torch_bench.py").string(),
                                     "bench",
                                     network.name,
                                     std::to_string(setting.batch),
                                     setting.precision,
                                     "--gantry",
                                     context.program("gantry"),
                                     "--module",
                                     module_path(context, network.name, setting)};
    if (!is_asked(context.options.peers, "torch.compile")) command.emplace_back("--no-compile");
    measure_peer(context, "torch", row_name(network.name, setting), command, kLongestTorch, until);
  }

  void measure_onnxruntime(Context& context, const Network& network, const Setting& setting,
                           Clock::time_point until) {
    const Models::Model& model = models_.get(network.name, setting.batch);
    if (model.path.empty()) return;
    measure_peer(context, "onnxruntime", row_name(network.name, setting),
                 {context.machine.python, (context.options.bundle / "ort_bench.py").string(), model.path,
                  setting.precision},
                 kLongestOnnxRuntime, until);
  }

  /// The scripts print what they know so far a line each time, so that what is ended has told something.
  void measure_peer(Context& context, const char* peer, const std::string& row,
                    const std::vector<std::string>& command, double limit, Clock::time_point until) {
    const Outcome outcome = gpu_bundle::run(context.command(command, limit, until));
    Json said = last_object(outcome.output);
    if (said.is_null()) said = Json::object();
    if (!outcome.ok()) said["problem"] = outcome.why();
    context.report.row(kName, row, {{peer, said}},
                       fmt::format("{}: {}: {}", row, peer,
                                   one_line(said.dump(-1, ' ', false, Json::error_handler_t::replace))));
  }

  std::vector<Network> wanted_;
  std::deque<Step> steps_;
  Models models_;
  std::map<std::string, std::string> problems_;  ///< why a module could not be compiled, by row
  bool planned_ = false;
};

}  // namespace

std::span<const Setting> settings() {
  return kSettings;
}

std::string setting_name(const Setting& setting) {
  return fmt::format("{}/{}", setting.batch, setting.precision);
}

std::unique_ptr<Section> networks_section() {
  return std::make_unique<NetworksSection>();
}

}  // namespace gantry::gpu_bundle
