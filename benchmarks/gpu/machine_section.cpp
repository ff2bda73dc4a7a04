// Section 1: what the machine is; a first kernel; a fault that must name its kernel, and the session beside
// it.
#include <fmt/format.h>

#include "benchmarks/gpu/context.h"

namespace gantry::gpu_bundle {
namespace {

constexpr const char* kName = "machine";

std::string machine_text(const Context& context, const Json& facts) {
  const Json board = facts.value("board", Json::object());
  std::string text = board.is_object() ? board.value("cpu", "an unknown CPU") : "an unknown CPU";
  text += fmt::format(", {} CPUs", context.machine.cpus);
  if (!context.machine.gpu_problem.empty())
    return text + "; no GPU: " + one_line(context.machine.gpu_problem);
  const Json& gpu = board["gpus"][0];
  const int cuda = gpu.value("cuda_version", 0);
  text += fmt::format("; {}, sm_{}, {} MiB, driver {} for CUDA {}.{}, compiled for as {}",
                      context.machine.gpu_name, context.machine.compute_capability,
                      gpu.value("memory_bytes", uint64_t{0}) >> 20, gpu.value("driver", ""), cuda / 1000,
                      cuda % 1000 / 10, context.machine.architecture);
  const Json python = facts.value("python", Json::object());
  for (const char* name : {"python", "torch", "torchvision", "onnx", "onnxruntime"}) {
    if (python.value(name, Json()).is_string())
      text += fmt::format("; {} {}", name, python[name].get<std::string>());
  }
  const Json tools = facts.value("tools", Json::object());
  for (const auto& [tool, path] : tools.items())
    text += fmt::format("; {} {}", path.is_null() ? "no" : "has", tool);
  return text;
}

class MachineSection : public Section {
 public:
  bool run(Context& context, Clock::time_point until) override {
    context.report.set_steps(kName, kRows);
    while (step_ < kSteps) {
      if (!context.has_time(until, 1)) return false;
      const int step = step_++, done = context.report.done(kName);
      if (step == 0) ask(context);
      if (step == 1) run_first_kernel(context, until);
      if (step == 2) fault(context, until);
      if (step > 0 && Context::is_over(until)) {
        --step_;
        context.report.set_done(kName, done);
        return false;
      }
    }
    return true;
  }

 private:
  static constexpr int kSteps = 3;
  static constexpr int kRows = 9;  ///< the fault has rows of its own

  static void add(Context& context, const std::string& name, const std::string& result,
                  const std::string& text) {
    context.report.row(kName, name, {{"result", result}, {"text", text}},
                       fmt::format("{}: {}: {}", name, result, one_line(text, 400)));
  }

  void ask(Context& context) {
    context.ask_machine();
    const bool has_gpu = context.machine.gpu_problem.empty();
    add(context, "what it is", has_gpu ? "found" : "no GPU",
        machine_text(context, context.report.facts(kName)));
  }

  /// The smallest module, with PTX written by hand: whether the driver takes code and gives right results at
  /// all.
  void run_first_kernel(Context& context, Clock::time_point until) {
    const Outcome outcome = gpu_bundle::run(
        context.command({context.program("gpu_case"), "run", (context.options.bundle / "cases.pack").string(),
                         "first_kernel", "cuda"},
                        30, until));
    const Json said = last_object(outcome.output);
    if (said.is_null()) return add(context, "a first kernel", "failed", outcome.why());
    add(context, "a first kernel", said.value("result", "failed"), said.value("text", ""));
  }

  /// A server with two sessions: one's kernel writes to where no memory is, the other goes on.
  void fault(Context& context, Clock::time_point until) {
    Server server(context.command({context.program("gantry-device"), "serve", "--listen", "127.0.0.1:0",
                                   "--cache", (context.work / "board").string()},
                                  90, until),
                  Seconds(10));
    const std::string address = address_of(server);
    if (address.empty())
      return add(context, "a fault", "failed", "gantry-device does not serve: " + server.errors());
    const Outcome outcome = gpu_bundle::run(context.command(
        {context.program("gpu_case"), "fault", (context.options.bundle / "cases.pack").string(), address}, 60,
        until));
    const Json said = last_object(outcome.output);
    if (said.is_null()) return add(context, "a fault", "failed", outcome.why());
    bool passed = true;
    for (const Json& step : said.value("steps", Json::array())) {
      passed = passed && step.value("result", "") == "pass";
      add(context, step.value("name", ""), step.value("result", "failed"), step.value("text", ""));
    }
    add(context, "a fault", passed && outcome.ok() ? "pass" : "failed",
        passed && outcome.ok() ? "it named its kernel; the session beside it went on" : outcome.why());
  }

  int step_ = 0;
};

}  // namespace

std::unique_ptr<Section> machine_section() {
  return std::make_unique<MachineSection>();
}

}  // namespace gantry::gpu_bundle
