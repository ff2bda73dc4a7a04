#include "host/cli/tuned_round.h"

#include <algorithm>
#include <cmath>

#include "host/cli/trial_failure.h"

namespace gantry::cli {
namespace {

/// Of a segment: each kernel some, and no more than tell anything.
constexpr uint32_t kFewestRuns = 3, kMostRuns = 20;
/// What the board traces of a request with a profile.
constexpr int kTracedRuns = 5;
/// No clock of a step is finer.
constexpr double kLeastMs = 1e-6;

uint32_t runs_in(double ms, double run_ms, uint32_t least, uint32_t most) {
  return static_cast<uint32_t>(
      std::clamp(std::ceil(ms / std::max(run_ms, 1e-4)), double(least), double(most)));
}

/// Where the deadline left time for some of the runs, each step was timed in those.
ProfiledProcess profiled(Machine& machine, const rpc::BenchmarkOptions& options) {
  const rpc::BenchmarkResult result = machine.benchmark(options, {});
  if (result.kernels.empty() && result.reached_deadline) throw OutOfTime(machine.label(), "time kernels");
  ProfiledProcess process{result.statistics.median_ms, {}, result.threads};
  for (const rpc::KernelTiming& kernel : result.kernels) {
    if (process.step_ms.size() <= kernel.step) process.step_ms.resize(kernel.step + 1);
    process.step_ms[kernel.step] += kernel.total_ms;
  }
  return process;
}

rpc::BenchmarkOptions profile_options(const RoundShape& shape, double run_ms,
                                      std::chrono::milliseconds deadline) {
  rpc::BenchmarkOptions options;
  options.profile = true;
  options.warmup = runs_in(shape.settle_ms, run_ms, 1, kMostRuns);
  options.repeat = runs_in(shape.segment_ms, run_ms, kFewestRuns, kMostRuns);
  options.deadline = deadline;
  return options;
}

/// Returns what a run takes then.
double warm_up_machine(Machine& machine, std::chrono::milliseconds deadline) {
  rpc::BenchmarkOptions options;
  options.warmup = 1;
  options.repeat = 1;
  options.deadline = deadline;
  const double run_ms = machine.benchmark(options, {}).statistics.median_ms;
  options.warmup = runs_in(kTrialWarmUpMs, run_ms, 1, TunedRound::kMostRuns / 2);
  options.repeat = kFewestRuns;
  return machine.benchmark(options, {}).statistics.median_ms;
}

}  // namespace

double ProfiledProcess::ms_of(const std::vector<size_t>& steps) const {
  double ms = 0;
  for (const size_t step : steps) ms += step < step_ms.size() ? step_ms[step] : 0;
  return std::max(ms, kLeastMs);
}

ProfiledProcess profile_process(Machine& machine) {
  const double run_ms = warm_up_machine(machine, {});
  return profiled(machine, profile_options(kQuickTrial, run_ms, {}));
}

void run_until(Machine& machine, std::chrono::milliseconds deadline) {
  rpc::BenchmarkOptions options;
  options.warmup = 0;
  options.repeat = 1;
  options.deadline = deadline;
  machine.benchmark(options, {});
}

void TunedRound::warm_up(size_t side, std::chrono::milliseconds deadline) {
  run_ms_[side] = warm_up_machine(*sides_[side], deadline);
}

void TunedRound::time(size_t side, std::chrono::milliseconds deadline) {
  const rpc::BenchmarkOptions options = profile_options(shape_, run_ms_[side], deadline);
  segments_[side].push_back(profiled(*sides_[side], options));
}

size_t TunedRound::pairs() const {
  const double run_ms = std::max(run_ms_[0], run_ms_[1]);
  // A request with a profile makes its samples, as many timed runs, and some traced ones.
  return shape_.pairs_of(2 * std::max(shape_.segment_ms, kFewestRuns * run_ms) + kTracedRuns * run_ms);
}

bool TunedRound::wants_more() const {
  return std::min(segments_[0].size(), segments_[1].size()) < pairs();
}

Round TunedRound::of_steps(const std::vector<size_t>& base, const std::vector<size_t>& trial) const {
  Round round;
  for (size_t i = 0; i < segments_[0].size(); ++i)
    round.pairs.push_back({segments_[0][i].ms_of(base), segments_[1][i].ms_of(trial)});
  return round;
}

Round TunedRound::whole() const {
  Round round;
  for (size_t i = 0; i < segments_[0].size(); ++i)
    round.pairs.push_back(
        {std::max(segments_[0][i].run_ms, kLeastMs), std::max(segments_[1][i].run_ms, kLeastMs)});
  return round;
}

}  // namespace gantry::cli
