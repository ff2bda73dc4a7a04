// Section 2: every packed case on the GPU, beside the GPU emulated on the CPU.
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>

#include "benchmarks/gpu/context.h"

namespace gantry::gpu_bundle {
namespace {

constexpr const char* kName = "cases";
constexpr const char* kDevices[] = {"cuda", "cuda-emulated"};
/// Compiling and a driver's compiler; emulation is slow.
constexpr double kLongest[] = {25, 40};
/// So many processes side by side use a GPU at most: each has a context of some 500 MB there.
constexpr int kMostAtOnce = 8;
/// A GPU that hangs again and again would use up all the time.
constexpr int kMostTimeouts = 12;
constexpr int kProgressEvery = 100;

struct Job {
  std::string name, op;
  size_t device = 0;
};

class CasesSection : public Section {
 public:
  bool run(Context& context, Clock::time_point until) override {
    context.ask_machine();
    if (!listed_ && !list(context, until)) return true;
    const int at_once = std::clamp(context.machine.cpus / 2, 1, kMostAtOnce);
    std::map<size_t, Job> jobs;
    size_t started = 0;
    run_many(
        at_once,
        [&](Command& command) {
          drop_hanging_device(context);
          if (pending_.empty() || !context.has_time(until, 2)) return false;
          const Job job = pending_.front();
          pending_.pop_front();
          command = command_of(context, job, until);
          jobs[started++] = job;
          return true;
        },
        [&](size_t number, const Outcome& outcome) { finish(context, jobs.at(number), outcome, until); });
    return pending_.empty();
  }

 private:
  /// Makes the jobs: a case on the GPU, then beside it, before the next. False where there is no pack.
  bool list(Context& context, Clock::time_point until) {
    listed_ = true;
    const Outcome outcome = gpu_bundle::run(context.command(
        {context.program("gpu_case"), "list", (context.options.bundle / "cases.pack").string()}, 20, until));
    const Json said = last_object(outcome.output);
    if (said.is_null()) {
      context.report.row(kName, "cases.pack", {{"result", "failed"}, {"text", outcome.why()}}, outcome.why());
      return false;
    }
    for (const Json& entry : said["cases"]) {
      if (entry["op"] == "") continue;  // section 1's
      for (size_t device : {0, 1}) {
        if (device == 0 && !context.machine.gpu_problem.empty()) continue;
        if (!context.options.passed.contains({entry["name"], kDevices[device]}))
          pending_.push_back({entry["name"], entry["op"], device});
      }
    }
    if (!context.options.passed.empty())
      context.report.facts(kName)["passed_before"] = context.options.passed.size();
    if (!context.machine.gpu_problem.empty())
      context.report.facts(kName)["given_up"] = "None is tried on a GPU: " + context.machine.gpu_problem;
    total_ = pending_.size();
    context.report.set_steps(kName, total_);
    return true;
  }

  Command command_of(const Context& context, const Job& job, Clock::time_point until) const {
    const std::string device = kDevices[job.device];
    return context.command(
        {context.program("gpu_case"), "run", (context.options.bundle / "cases.pack").string(), job.name,
         device, device + ":" + architecture(context) + "/native", context.program("gantry")},
        kLongest[job.device], until);
  }

  static std::string architecture(const Context& context) {
    return context.machine.architecture.empty() ? "sm_80" : context.machine.architecture;
  }

  /// What a process said, or how it ended.
  static Json result_of(const Outcome& outcome) {
    Json said = last_object(outcome.output);
    if (outcome.end == Outcome::End::kExited && said.is_object()) {
      said.erase("case");
      said.erase("device");
      return said;
    }
    const char* result = outcome.end == Outcome::End::kTimedOut  ? "timed out"
                         : outcome.end == Outcome::End::kStopped ? "stopped"
                                                                 : "crashed";
    return {{"result", result}, {"text", outcome.why()}};
  }

  void finish(Context& context, const Job& job, const Outcome& outcome, Clock::time_point until) {
    const Json result = result_of(outcome);
    // What was cut short by the section's end rather than by its own limit has told nothing.
    if (outcome.end == Outcome::End::kStopped ||
        (outcome.end == Outcome::End::kTimedOut && Context::is_over(until))) {
      pending_.push_front(job);
      return;
    }
    const bool passed = result.value("result", "") == "pass";
    if (job.device == 0) timeouts_ = outcome.end == Outcome::End::kTimedOut ? timeouts_ + 1 : 0;
    context.report.row(kName, job.name, {{"op", job.op}, {kDevices[job.device], result}},
                       passed ? ""
                              : fmt::format("{} on {}: {}: {}", job.name, kDevices[job.device],
                                            result.value("result", ""), one_line(result.value("text", ""))));
    if (++done_ % kProgressEvery == 0)
      context.report.print(fmt::format("{}: {} of {} done", kName, done_, total_));
  }

  void drop_hanging_device(Context& context) {
    if (timeouts_ < kMostTimeouts) return;
    timeouts_ = 0;
    std::erase_if(pending_, [](const Job& job) { return job.device == 0; });
    const std::string text =
        fmt::format("{} cases in a row took too long: no more are tried on the GPU", kMostTimeouts);
    context.report.facts(kName)["given_up"] = text;
    context.report.print(std::string(kName) + ": " + text);
  }

  std::deque<Job> pending_;
  size_t total_ = 0, done_ = 0;
  int timeouts_ = 0;
  bool listed_ = false;
};

}  // namespace

std::unique_ptr<Section> cases_section() {
  return std::make_unique<CasesSection>();
}

}  // namespace gantry::gpu_bundle
