#include "host/cli/counted_process.h"

#include <algorithm>
#include <numeric>

#include "host/cli/statistics/estimate.h"
#include "host/cli/trial_failure.h"
#include "host/support/error.h"

namespace gantry::cli {

double CountedProcess::of_steps(const std::vector<size_t>& some) const {
  double sum = 0;
  for (const size_t step : some) sum += step < steps.size() ? static_cast<double>(steps[step]) : 0;
  return std::max(sum, 1.0);
}

double CountedProcess::whole() const {
  return std::max(static_cast<double>(std::accumulate(steps.begin(), steps.end(), uint64_t{0})), 1.0);
}

CountedProcess count_process(Machine& machine, std::chrono::milliseconds deadline) {
  rpc::BenchmarkOptions options;
  // The first run finds memory and, emulated, is translated: only its time would show that.
  options.warmup = 1;
  options.repeat = 1;
  options.count_instructions = true;
  options.deadline = deadline;
  rpc::BenchmarkResult result = machine.benchmark(options, {});
  if (result.step_instructions.empty()) {
    if (result.reached_deadline) throw OutOfTime(machine.label(), "count instructions");
    if (result.instructions_problem.empty())
      board_error(
          "{}: its gantry-device does not count instructions; put the one there that came with this gantry",
          machine.label());
    board_error("{}: cannot count instructions: {}", machine.label(), result.instructions_problem);
  }
  return {std::move(result.step_instructions), result.statistics.median_ms, result.threads};
}

tune::Ratio ratio_of_counts(const std::vector<double>& base, const std::vector<double>& trial) {
  const auto [base_least, base_most] = std::ranges::minmax(base);
  const auto [trial_least, trial_most] = std::ranges::minmax(trial);
  tune::Ratio ratio;
  ratio.base_amount = median_of(base);
  ratio.amount = median_of(trial);
  ratio.value = ratio.amount / ratio.base_amount;
  ratio.low = trial_least / base_most;
  ratio.high = trial_most / base_least;
  ratio.base_process_amounts = base;
  ratio.process_amounts = trial;
  return ratio;
}

tune::Batch batch_of(const std::vector<CountedPair>& pairs, const std::vector<tune::Trial>& trials,
                     const std::vector<std::vector<size_t>>& base,
                     const std::vector<std::vector<size_t>>& other) {
  const auto ratio = [&](const auto& base_amount, const auto& trial_amount) {
    std::vector<double> of_base, of_trial;
    for (const CountedPair& pair : pairs) {
      of_base.push_back(base_amount(pair.base));
      of_trial.push_back(trial_amount(pair.trial));
    }
    return ratio_of_counts(of_base, of_trial);
  };
  const auto of = [](const std::vector<size_t>& steps) {
    return [&steps](const CountedProcess& process) { return process.of_steps(steps); };
  };
  const auto whole = [](const CountedProcess& process) { return process.whole(); };
  tune::Batch batch;
  for (const tune::Trial& trial : trials)
    batch.ratios.push_back(ratio(of(base[trial.task]), of(other[trial.task])));
  batch.whole = ratio(whole, whole);
  return batch;
}

}  // namespace gantry::cli
