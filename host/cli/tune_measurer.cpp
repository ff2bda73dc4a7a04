#include "host/cli/tune_measurer.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>
#include <variant>

#include "host/cli/counted_process.h"
#include "host/cli/machine_jobs.h"
#include "host/cli/program_builder.h"
#include "host/cli/timed_batch.h"
#include "host/cli/tuned_seat.h"
#include "host/support/error.h"

namespace gantry::cli {
namespace {

using records::Outcome;
using tune::Batch;
using tune::Choices;
using tune::Effort;
using tune::Trial;
using Trials = std::vector<Trial>;

/// Of Effort::kSure, and in the place of a comparison that a machine does not live through. Fixed beforehand:
/// who looked again and again until an interval excludes a loss would find one.
constexpr int kSureRounds = 8;
/// Of Metric::kInstructions, where a decision is to be sure: what differs between two of one program is not
/// the program's.
constexpr int kSureCounts = 2;

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
  TuneMachines& machines;
  const Invocation& invocation;
  std::function<void(const std::string&)> wait;
  bool remote = false;  ///< what is measured does not compute here
  tune::Metric metric = tune::Metric::kTime;
  ExpectedOutputs expected;
  std::vector<std::unique_ptr<TunedSeat>> seats = {};  ///< by place
  SettledMachines settled = {};
  std::string first = {};  ///< the board's name
  rpc::BoardInfo board = {};
  int threads = 0;
  double untuned_ms = 0;
  std::mutex mutex = {};
  ProgramBuilder programs = ProgramBuilder(network);

  void settle(size_t place, const TuneMachine& machine);
  void on_seats(size_t jobs, const std::function<void(TunedSeat&, size_t)>& work);
  bool counts() const { return metric == tune::Metric::kInstructions; }
  tune::Profile timed_profile(const TunedProgram& program);
  tune::Profile counted_profile(const TunedProgram& program);
  template <typename One, typename Play>
  std::vector<One> on_all(int count, const Play& play);
  std::vector<TunedRound> sure_rounds(const TunedProgram& base, const TunedProgram& trial);
  std::vector<CountedPair> sure_counts(const TunedProgram& base, const TunedProgram& trial);
  Batch measure_quickly(TunedSeat& seat, const TunedProgram& base, const Trials& trials,
                        const TunedProgram& trial);
  Batch measure_surely(const TunedProgram& base, const Trials& trials, const TunedProgram& trial);
  Comparison timed_comparison(const TunedProgram& base, const TunedProgram& trial, double seconds,
                              const CompareOptions& statistics);
  void tell_of_hosts();
  std::vector<Batch> measure(const Choices& base, std::vector<Choices> others,
                             const std::vector<Trials>& trials, Effort effort);
};

MachineMeasurer::MachineMeasurer(const ExecutionOptions& options, TuneMachines& machines, size_t first_place,
                                 const TuneMachine& first, const tune::Network& network, Execution untuned,
                                 const TuneMeasuring& measuring, const Invocation& invocation)
    : parts_(new Parts{.network = network,
                       .machines = machines,
                       .invocation = invocation,
                       .wait = measuring.wait,
                       .remote = !first.board.empty(),
                       .metric = measuring.metric,
                       .expected = ExpectedOutputs(untuned, measuring.tolerance, invocation)}) {
  Parts& parts = *parts_;
  parts.first = first.board;
  parts.board = untuned.machine->info();
  parts.settled.resize(machines.places());
  const Patience patience = machines.renews() ? Patience::kAnother : Patience::kNoOther;
  for (size_t i = 0; i < machines.places(); ++i)
    parts.seats.push_back(std::make_unique<TunedSeat>(options, measuring.turns, untuned.inputs,
                                                      measuring.seed + i, patience, invocation));
  parts.settle(first_place, first);
  untuned.machine.reset();  // a board may serve few sessions at once
  if (machines.renews()) return;
  // What is wrong with named boards is said at once.
  for (size_t i = 0; i < machines.places(); ++i)
    if (const auto machine = machines.machine(i); machine && i != first_place) parts.settle(i, *machine);
}

/// Of boards that measure together. User errors for one that is of another kind than the first.
void MachineMeasurer::Parts::settle(size_t place, const TuneMachine& machine) {
  TunedSeat& seat = *seats[place];
  seat.move_to(machine);
  settled[place] = machine.number;
  if (machine.board == first) return;
  const rpc::BoardInfo other = seat.board();
  if (other.cpu != board.cpu || other.features != board.features || other.logical_cpus != board.logical_cpus)
    user_error(
        "{} has another CPU ({}, {} CPUs) than {} ({}, {} CPUs); boards that measure together are of one "
        "kind",
        machine.board, other.cpu, other.logical_cpus, first, board.cpu, board.logical_cpus);
}

MachineMeasurer::~MachineMeasurer() = default;

const rpc::BoardInfo& MachineMeasurer::board() const {
  return parts_->board;
}

int MachineMeasurer::threads() const {
  return parts_->threads;
}

/// On this machine a build would disturb what is measured; for boards one is built while another is measured,
/// and who can build has something to build.
size_t MachineMeasurer::batches_at_once() const {
  if (!parts_->remote) return 1;
  size_t boards = 0;
  for (size_t i = 0; i < parts_->seats.size(); ++i) boards += parts_->machines.machine(i) ? 1 : 0;
  return std::max(2 * std::max<size_t>(boards, 1), parts_->programs.builders());
}

double MachineMeasurer::waited_s() const {
  double waited = 0;
  for (const auto& seat : parts_->seats) waited = std::max(waited, seat->waited_s());
  return waited;
}

runtime::SharedBytes MachineMeasurer::module_of(const Choices& choices) {
  return parts_->programs.program_of(choices)->module;
}

void MachineMeasurer::build_on(std::unique_ptr<TuneMachines> hosts, const Choices& untuned) {
  parts_->programs.use(std::move(hosts), untuned);
}

BuildCounts MachineMeasurer::builds() const {
  return parts_->programs.counts();
}

std::pair<size_t, size_t> MachineMeasurer::compile_hosts() const {
  const CompileHosts* hosts = parts_->programs.hosts();
  return hosts != nullptr ? std::pair(hosts->ready(), hosts->places()) : std::pair(size_t{0}, size_t{0});
}

void MachineMeasurer::Parts::tell_of_hosts() {
  if (CompileHosts* hosts = programs.hosts())
    hosts->tell([&](const std::string& what) { invocation.note(what); });
}

/// Each whole on one of the machines; see do_jobs().
void MachineMeasurer::Parts::on_seats(size_t jobs, const std::function<void(TunedSeat&, size_t)>& work) {
  MachineWork how;
  how.settle = [&](size_t place, const TuneMachine& machine) { settle(place, machine); };
  how.work = [&](size_t place, size_t job) { work(*seats[place], job); };
  how.wait = [&](const std::string& what) {
    if (wait) wait(what);
    tell_of_hosts();
  };
  how.note = [&](const std::string& what) { invocation.note(what); };
  do_jobs(machines, settled, jobs, how);
}

tune::Profile MachineMeasurer::profile(const Choices& choices) {
  const TunedProgramPtr program = parts_->programs.program_of(choices);
  return parts_->counts() ? parts_->counted_profile(*program) : parts_->timed_profile(*program);
}

std::optional<tune::Failure> MachineMeasurer::build_failure(const Choices& choices) {
  Built built = parts_->programs.built_of(choices);
  if (auto* failure = std::get_if<tune::Failure>(&built)) return std::move(*failure);
  return std::nullopt;
}

tune::Profile MachineMeasurer::Parts::timed_profile(const TunedProgram& program) {
  ProfiledProcess profiled;
  on_seats(1, [&](TunedSeat& seat, size_t) { profiled = seat.profile(program.module); });
  threads = profiled.threads;
  untuned_ms = profiled.run_ms;
  tune::Profile profile{profiled.run_ms, {}};
  for (const auto& steps : program.steps) profile.tasks.push_back(profiled.ms_of(steps));
  return profile;
}

tune::Profile MachineMeasurer::Parts::counted_profile(const TunedProgram& program) {
  CountedProcess counted;
  on_seats(1, [&](TunedSeat& seat, size_t) { counted = seat.count(program.module); });
  threads = counted.threads;
  untuned_ms = counted.run_ms;
  tune::Profile profile{counted.whole(), {}};
  for (const auto& steps : program.steps) profile.tasks.push_back(counted.of_steps(steps));
  return profile;
}

/// What `play` has of a seat, so many times. They are shared among the boards: each is of one board, whatever
/// board that is.
template <typename One, typename Play>
std::vector<One> MachineMeasurer::Parts::on_all(int count, const Play& play) {
  std::vector<One> all;
  on_seats(static_cast<size_t>(count), [&](TunedSeat& seat, size_t) {
    One one = play(seat);
    const std::scoped_lock lock(mutex);
    all.push_back(std::move(one));
  });
  return all;
}

std::vector<TunedRound> MachineMeasurer::Parts::sure_rounds(const TunedProgram& base,
                                                            const TunedProgram& trial) {
  return on_all<TunedRound>(kSureRounds, [&](TunedSeat& seat) {
    return seat.play(base.module, trial.module, true, expected, untuned_ms);
  });
}

std::vector<CountedPair> MachineMeasurer::Parts::sure_counts(const TunedProgram& base,
                                                             const TunedProgram& trial) {
  return on_all<CountedPair>(kSureCounts, [&](TunedSeat& seat) {
    return seat.count(base.module, trial.module, expected, untuned_ms);
  });
}

/// By a process of each program.
Batch MachineMeasurer::Parts::measure_quickly(TunedSeat& seat, const TunedProgram& base, const Trials& trials,
                                              const TunedProgram& trial) {
  if (counts())
    return batch_of(std::vector{seat.count(base.module, trial.module, expected, untuned_ms)}, trials,
                    base.steps, trial.steps);
  return batch_of(std::vector{seat.play(base.module, trial.module, false, expected, untuned_ms)}, trials,
                  base.steps, trial.steps);
}

Batch MachineMeasurer::Parts::measure_surely(const TunedProgram& base, const Trials& trials,
                                             const TunedProgram& trial) {
  if (counts()) return batch_of(sure_counts(base, trial), trials, base.steps, trial.steps);
  return batch_of(sure_rounds(base, trial), trials, base.steps, trial.steps);
}

std::vector<Batch> MachineMeasurer::measure(const Choices& base, const std::vector<Trials>& batches,
                                            Effort effort) {
  std::vector<Choices> others;
  for (const Trials& trials : batches) others.push_back(with_trials(base, trials));
  return parts_->measure(base, std::move(others), batches, effort);
}

std::vector<Batch> MachineMeasurer::measure_whole(const Choices& base, const std::vector<Choices>& others,
                                                  Effort effort) {
  return parts_->measure(base, others, std::vector<Trials>(others.size()), effort);
}

/// `trials`: of each of the others, of which ratios are wanted beside that of the whole.
std::vector<Batch> MachineMeasurer::Parts::measure(const Choices& base, std::vector<Choices> others,
                                                   const std::vector<Trials>& trials, Effort effort) {
  tell_of_hosts();
  const TunedProgramPtr base_program = programs.program_of(base);
  BuildsAhead ahead(programs, std::move(others), remote);
  std::vector<Batch> results(trials.size());
  const auto measured = [&](size_t mine, const std::function<Batch(const TunedProgram&)>& play) {
    const Built program = ahead.get(mine);
    if (const auto* failure = std::get_if<tune::Failure>(&program)) {
      results[mine].failure = *failure;
    } else {
      try {
        results[mine] = play(*std::get<TunedProgramPtr>(program));
      } catch (const TrialFailed& failed) {
        results[mine].failure = failed.failure;
      }
    }
    ahead.forget(mine);
  };
  if (effort == Effort::kSure) {
    for (size_t i = 0; i < trials.size(); ++i)
      measured(
          i, [&](const TunedProgram& program) { return measure_surely(*base_program, trials[i], program); });
    return results;
  }
  on_seats(trials.size(), [&](TunedSeat& seat, size_t mine) {
    measured(mine, [&](const TunedProgram& program) {
      return measure_quickly(seat, *base_program, trials[mine], program);
    });
  });
  return results;
}

Batch MachineMeasurer::compare(const Choices& base, const Choices& other, double seconds, double confidence) {
  Parts& parts = *parts_;
  const TunedProgramPtr base_program = parts.programs.program_of(base);
  const Built built = parts.programs.built_of(other);
  Batch batch;
  if (const auto* failure = std::get_if<tune::Failure>(&built)) {
    batch.failure = *failure;
    return batch;
  }
  const TunedProgramPtr& trial_program = std::get<TunedProgramPtr>(built);
  try {
    if (parts.counts()) return parts.measure_surely(*base_program, {}, *trial_program);
    const Comparison found =
        parts.timed_comparison(*base_program, *trial_program, seconds, {.confidence = confidence});
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

Comparison MachineMeasurer::Parts::timed_comparison(const TunedProgram& base, const TunedProgram& trial,
                                                    double seconds, const CompareOptions& statistics) {
  std::optional<Comparison> found;
  on_seats(1, [&](TunedSeat& seat, size_t) {
    try {
      found = seat.compare(base.module, trial.module, seconds, statistics, expected, untuned_ms);
    } catch (const rpc::Error& error) {
      if (!may_pass(error)) throw;
      invocation.note(
          fmt::format("{}; comparing in rounds that are each repeated where that happens", error.what()));
    }
  });
  if (found) return *found;
  std::vector<Round> rounds;
  for (const TunedRound& round : sure_rounds(base, trial)) rounds.push_back(round.whole());
  return compare_rounds(rounds, statistics);
}

}  // namespace gantry::cli
