#include "host/cli/tune_measurer.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <future>
#include <list>
#include <mutex>
#include <thread>
#include <variant>

#include "host/cli/counted_process.h"
#include "host/cli/statistics/estimate.h"
#include "host/cli/tuned_seat.h"
#include "host/support/error.h"
#include "host/targets/common/knob_misfit.h"

namespace gantry::cli {
namespace {

using records::Outcome;
using tune::Batch;
using tune::Choices;
using tune::Effort;
using tune::Ratio;
using tune::Trial;
using Trials = std::vector<Trial>;

/// Of Effort::kSure. Fixed beforehand: who looked again and again until an interval excludes a loss would
/// find one.
constexpr int kSureRounds = 8;
/// Of Metric::kInstructions, where a decision is to be sure: what differs between two of one program is not
/// the program's.
constexpr int kSureCounts = 2;
/// Programs that are kept, the last ones that were built.
constexpr size_t kMostPrograms = 4;

struct Program {
  runtime::SharedBytes module;
  std::vector<std::vector<size_t>> steps;
};
using ProgramPtr = std::shared_ptr<const Program>;

std::string key_of(const Choices& choices) {
  std::string key;
  for (const Decision& decision : choices) key += to_string(decision) + "\n";
  return key;
}

/// By what processes of one program are assumed to differ (host/cli/statistics/comparison.h), of both sides
/// together.
void assume_interval(Ratio& ratio) {
  const double spread = std::exp(1.96 * std::sqrt(2.0) * kAssumedProcessSpread);
  ratio.low = ratio.value / spread;
  ratio.high = ratio.value * spread;
}

Ratio ratio_of(const std::vector<Round>& rounds) {
  Ratio ratio;
  std::vector<double> ratios;
  for (const Round& round : rounds) {
    std::vector<double> base, other;
    for (const SegmentPair& pair : round.pairs) {
      base.push_back(pair.base_ms);
      other.push_back(pair.other_ms);
      ratios.push_back(pair.other_ms / pair.base_ms);
    }
    ratio.base_process_amounts.push_back(median_of(base));
    ratio.process_amounts.push_back(median_of(other));
  }
  ratio.base_amount = median_of(ratio.base_process_amounts);
  ratio.amount = median_of(ratio.process_amounts);
  if (rounds.size() < kFewestRounds) {
    ratio.value = median_of(ratios);
    assume_interval(ratio);
    return ratio;
  }
  const Comparison comparison = compare_rounds(rounds);
  ratio.value = comparison.ratio;
  ratio.low = comparison.low;
  ratio.high = comparison.high;
  return ratio;
}

/// Of each pair's processes.
template <typename BaseAmount, typename TrialAmount>
Ratio counted_ratio(const std::vector<CountedPair>& pairs, const BaseAmount& base_amount,
                    const TrialAmount& trial_amount) {
  std::vector<double> base, trial;
  for (const CountedPair& pair : pairs) {
    base.push_back(base_amount(pair.base));
    trial.push_back(trial_amount(pair.trial));
  }
  return ratio_of_counts(base, trial);
}

Ratio whole_ratio(const std::vector<CountedPair>& pairs) {
  const auto whole = [](const CountedProcess& process) { return process.whole(); };
  return counted_ratio(pairs, whole, whole);
}

using Built = std::variant<ProgramPtr, tune::Failure>;

/// Programs in their order, built on a thread of its own while others are measured, or before that.
class BuildsAhead {
 public:
  BuildsAhead(size_t count, bool ahead, const std::function<Built(size_t)>& build) {
    std::vector<std::packaged_task<Built()>> tasks;
    for (size_t i = 0; i < count; ++i) {
      tasks.emplace_back([build, i] { return build(i); });
      programs_.push_back(tasks.back().get_future());
    }
    const auto all = [](std::vector<std::packaged_task<Built()>> some) {
      for (auto& task : some) task();
    };
    if (ahead) {
      builder_ = std::thread(all, std::move(tasks));
    } else {
      all(std::move(tasks));
    }
  }
  BuildsAhead(const BuildsAhead&) = delete;
  BuildsAhead& operator=(const BuildsAhead&) = delete;
  ~BuildsAhead() {
    if (builder_.joinable()) builder_.join();
  }
  /// Once each.
  Built get(size_t i) { return programs_[i].get(); }

 private:
  std::vector<std::future<Built>> programs_;
  std::thread builder_;
};

Choices with_trials(Choices choices, const Trials& trials) {
  for (const Trial& trial : trials) choices[trial.task] = trial.decision;
  return choices;
}

}  // namespace

double default_tolerance(Precision precision) {
  switch (precision) {
    case Precision::kBf16:
      return 3e-2;
    case Precision::kFp16:
    case Precision::kTf32:
      return 5e-3;
    case Precision::kFp32Split:
      return 5e-5;
    default:
      return 1e-5;
  }
}

struct MachineMeasurer::Parts {
  const tune::Network& network;
  bool remote = false;  ///< what is measured does not compute here
  tune::Metric metric = tune::Metric::kTime;
  ExpectedOutputs expected;
  std::vector<std::unique_ptr<TunedSeat>> seats = {};
  rpc::BoardInfo board = {};
  int threads = 0;
  double untuned_ms = 0;
  std::mutex mutex = {};
  std::list<std::pair<std::string, ProgramPtr>> programs = {};  ///< the last one used is first

  ProgramPtr program_of(const Choices& choices);
  Batch measure_alone(TunedSeat& seat, const ProgramPtr& base_program, const Trials& trials,
                      const ProgramPtr& trial_program, Effort effort);
  Batch time_alone(TunedSeat& seat, const ProgramPtr& base_program, const Trials& trials,
                   const ProgramPtr& trial_program, Effort effort);
  Batch count_alone(TunedSeat& seat, const ProgramPtr& base_program, const Trials& trials,
                    const ProgramPtr& trial_program, Effort effort);
  tune::Profile counted_profile(const Program& program);
  std::vector<TunedRound> play_on_all(const runtime::SharedBytes& base, const runtime::SharedBytes& trial,
                                      int rounds);
  Built built(const Choices& choices);
};

MachineMeasurer::MachineMeasurer(const ExecutionOptions& options, const std::vector<std::string>& boards,
                                 const tune::Network& network, Execution untuned,
                                 const TuneMeasuring& measuring, const Invocation& invocation)
    : parts_(new Parts{.network = network,
                       .remote = !boards.front().empty(),
                       .metric = measuring.metric,
                       .expected = ExpectedOutputs(untuned, measuring.tolerance, invocation)}) {
  Parts& parts = *parts_;
  parts.board = untuned.machine->info();
  untuned.machine.reset();  // a board may serve few sessions at once
  for (size_t i = 0; i < boards.size(); ++i) {
    ExecutionOptions own = options;
    own.board = boards[i];
    parts.seats.push_back(std::make_unique<TunedSeat>(own, measuring.turns, untuned.inputs, measuring.seed + i, invocation));
    if (i == 0) continue;
    const rpc::BoardInfo other = parts.seats.back()->board();
    if (other.cpu != parts.board.cpu || other.features != parts.board.features ||
        other.logical_cpus != parts.board.logical_cpus)
      user_error(
          "--on: {} has another CPU ({}, {} CPUs) than {} ({}, {} CPUs); boards that measure together are of "
          "one kind",
          boards[i], other.cpu, other.logical_cpus, boards[0], parts.board.cpu, parts.board.logical_cpus);
  }
}

MachineMeasurer::~MachineMeasurer() = default;

const rpc::BoardInfo& MachineMeasurer::board() const {
  return parts_->board;
}

int MachineMeasurer::threads() const {
  return parts_->threads;
}

/// On this machine a build would disturb what is measured; for boards one is built while another is measured.
size_t MachineMeasurer::batches_at_once() const {
  return parts_->remote ? 2 * parts_->seats.size() : 1;
}

ProgramPtr MachineMeasurer::Parts::program_of(const Choices& choices) {
  const std::string key = key_of(choices);
  {
    const std::scoped_lock lock(mutex);
    for (auto known = programs.begin(); known != programs.end(); ++known) {
      if (known->first != key) continue;
      programs.splice(programs.begin(), programs, known);
      return programs.front().second;
    }
  }
  tune::BuiltNetwork built = network.build(choices);
  auto program = std::make_shared<const Program>(Program{module_bytes(built.module), std::move(built.steps)});
  const std::scoped_lock lock(mutex);
  programs.emplace_front(key, program);
  if (programs.size() > kMostPrograms) programs.pop_back();
  return program;
}

runtime::SharedBytes MachineMeasurer::module_of(const Choices& choices) {
  return parts_->program_of(choices)->module;
}

Built MachineMeasurer::Parts::built(const Choices& choices) {
  try {
    return program_of(choices);
  } catch (const KnobMisfit& error) {
    return tune::Failure{Outcome::kMisfit, error.what()};
  } catch (const Error& error) {
    return tune::Failure{Outcome::kBuildFailed, error.what()};
  }
}

tune::Profile MachineMeasurer::profile(const Choices& choices) {
  Parts& parts = *parts_;
  const ProgramPtr program = parts.program_of(choices);
  if (parts.metric == tune::Metric::kInstructions) return parts.counted_profile(*program);
  const ProfiledProcess profiled = parts.seats.front()->profile(program->module);
  parts.threads = profiled.threads;
  parts.untuned_ms = profiled.run_ms;
  tune::Profile profile{profiled.run_ms, {}};
  for (const auto& steps : program->steps) profile.tasks.push_back(profiled.ms_of(steps));
  return profile;
}

tune::Profile MachineMeasurer::Parts::counted_profile(const Program& program) {
  const CountedProcess counted = seats.front()->count(program.module);
  threads = counted.threads;
  untuned_ms = counted.run_ms;
  tune::Profile profile{counted.whole(), {}};
  for (const auto& steps : program.steps) profile.tasks.push_back(counted.of_steps(steps));
  return profile;
}

/// Rounds are shared among the boards: each is of one board, whatever board that is.
std::vector<TunedRound> MachineMeasurer::Parts::play_on_all(const runtime::SharedBytes& base,
                                                            const runtime::SharedBytes& trial, int rounds) {
  const int count = static_cast<int>(seats.size());
  std::vector<std::future<std::vector<TunedRound>>> played;
  for (int i = 0; i < count; ++i) {
    const int own = rounds / count + (i < rounds % count ? 1 : 0);
    if (own == 0) continue;
    played.push_back(std::async(std::launch::async, [&, i, own] {
      return seats[static_cast<size_t>(i)]->play(base, trial, own, expected, untuned_ms);
    }));
  }
  for (auto& one : played) one.wait();
  std::vector<TunedRound> all;
  for (auto& one : played) std::ranges::move(one.get(), std::back_inserter(all));
  return all;
}

Batch MachineMeasurer::Parts::time_alone(TunedSeat& seat, const ProgramPtr& base_program,
                                         const Trials& trials, const ProgramPtr& trial_program,
                                         Effort effort) {
  const std::vector<TunedRound> played =
      effort == Effort::kSure
          ? play_on_all(base_program->module, trial_program->module, kSureRounds)
          : seat.play(base_program->module, trial_program->module, 1, expected, untuned_ms);
  const auto ratio = [&](const auto& round_of) {
    std::vector<Round> rounds;
    for (const TunedRound& one : played) rounds.push_back(round_of(one));
    return ratio_of(rounds);
  };
  Batch batch;
  for (const Trial& trial : trials)
    batch.ratios.push_back(ratio([&](const TunedRound& one) {
      return one.of_steps(base_program->steps[trial.task], trial_program->steps[trial.task]);
    }));
  batch.whole = ratio([](const TunedRound& one) { return one.whole(); });
  return batch;
}

Batch MachineMeasurer::Parts::count_alone(TunedSeat& seat, const ProgramPtr& base_program,
                                          const Trials& trials, const ProgramPtr& trial_program,
                                          Effort effort) {
  const std::vector<CountedPair> pairs =
      seat.count(base_program->module, trial_program->module, effort == Effort::kSure ? kSureCounts : 1,
                 expected, untuned_ms);
  const auto of = [](const ProgramPtr& program, size_t task) {
    return [&steps = program->steps[task]](const CountedProcess& process) { return process.of_steps(steps); };
  };
  Batch batch;
  for (const Trial& trial : trials)
    batch.ratios.push_back(counted_ratio(pairs, of(base_program, trial.task), of(trial_program, trial.task)));
  batch.whole = whole_ratio(pairs);
  return batch;
}

Batch MachineMeasurer::Parts::measure_alone(TunedSeat& seat, const ProgramPtr& base_program,
                                            const Trials& trials, const ProgramPtr& trial_program,
                                            Effort effort) {
  try {
    return metric == tune::Metric::kInstructions
               ? count_alone(seat, base_program, trials, trial_program, effort)
               : time_alone(seat, base_program, trials, trial_program, effort);
  } catch (const TrialFailed& failed) {
    return {.failure = failed.failure, .ratios = {}, .whole = {}};
  }
}

std::vector<Batch> MachineMeasurer::measure(const Choices& base, const std::vector<Trials>& batches,
                                            Effort effort) {
  Parts& parts = *parts_;
  const ProgramPtr base_program = parts.program_of(base);
  BuildsAhead programs(batches.size(), batches_at_once() > 1,
                       [&](size_t i) { return parts.built(with_trials(base, batches[i])); });
  std::vector<Batch> results(batches.size());
  std::atomic<size_t> next = 0;
  const auto work = [&](TunedSeat& seat) {
    for (size_t mine = next++; mine < batches.size(); mine = next++) {
      const Built program = programs.get(mine);
      if (const auto* failure = std::get_if<tune::Failure>(&program)) {
        results[mine].failure = *failure;
      } else {
        results[mine] = parts.measure_alone(seat, base_program, batches[mine], std::get<ProgramPtr>(program), effort);
      }
    }
  };
  // Sure rounds use all boards already.
  const size_t seats = effort == Effort::kSure ? 1 : std::min(parts.seats.size(), batches.size());
  std::vector<std::future<void>> workers;
  for (size_t i = 0; i < seats; ++i)
    workers.push_back(std::async(std::launch::async, [&, i] { work(*parts.seats[i]); }));
  for (auto& worker : workers) worker.wait();
  for (auto& worker : workers) worker.get();
  return results;
}

Batch MachineMeasurer::compare(const Choices& base, const Choices& other, double seconds) {
  Parts& parts = *parts_;
  Batch batch;
  const ProgramPtr base_program = parts.program_of(base), trial_program = parts.program_of(other);
  try {
    if (parts.metric == tune::Metric::kInstructions) {
      batch.whole = whole_ratio(parts.seats.front()->count(base_program->module, trial_program->module,
                                                           kSureCounts, parts.expected, parts.untuned_ms));
      return batch;
    }
    const Comparison found = parts.seats.front()->compare(base_program->module, trial_program->module,
                                                          seconds, parts.expected, parts.untuned_ms);
    batch.whole.value = found.ratio;
    batch.whole.low = found.low;
    batch.whole.high = found.high;
    batch.whole.amount = found.other_median_ms;
    batch.whole.base_amount = found.base_median_ms;
  } catch (const TrialFailed& failed) {
    batch.failure = failed.failure;
  }
  return batch;
}

}  // namespace gantry::cli
