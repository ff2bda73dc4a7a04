#include "host/cli/tuned_seat.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <thread>

#include "host/cli/expectation.h"
#include "host/cli/machine_jobs.h"
#include "host/cli/text.h"
#include "rpc/error.h"

namespace gantry::cli {
namespace {

using records::Outcome;

constexpr std::chrono::seconds kPauses[] = {std::chrono::seconds(1), std::chrono::seconds(4),
                                            std::chrono::seconds(15)};
/// A trial may take so many times what the untuned program does, and this much more.
constexpr double kPatience = 10, kPatienceMs = 3000;

std::chrono::milliseconds patience(double runs, double untuned_ms) {
  return std::chrono::milliseconds(static_cast<int64_t>(kPatienceMs + kPatience * runs * untuned_ms));
}

/// That count_process makes.
constexpr double kRunsOfACount = 3;

/// Of a machine that does not take one of two programs beside the other: its own words do not tell that there
/// are two.
rpc::Error both_need_room(const rpc::Error& error, const runtime::SharedBytes& base,
                          const runtime::SharedBytes& trial) {
  const size_t bytes = base.bytes.size() + trial.bytes.size();
  return {error.kind(),
          fmt::format("{} (tuning keeps two programs of the model there at once, {} together)", error.what(),
                      bytes_text(static_cast<double>(bytes))),
          error.unsupported()};
}

}  // namespace

ExpectedOutputs::ExpectedOutputs(Execution& untuned, double tolerance, const Invocation& invocation)
    : tolerance_(tolerance) {
  for (const rpc::TensorDescription& output : untuned.loaded.outputs) names_.push_back(output.name);
  untuned.machine->run();
  for (size_t i = 0; i < names_.size(); ++i)
    outputs_.emplace_back(untuned.machine->output(static_cast<int>(i)));
  untuned.machine->run();
  for (size_t i = 0; i < names_.size(); ++i) {
    if (untuned.machine->output(static_cast<int>(i)).bytes == outputs_[i]->bytes) continue;
    invocation.warn(fmt::format(
        "output '{}' differs from run to run, so that no trial's can be compared with it", names_[i]));
    outputs_[i].reset();
  }
}

std::optional<std::string> ExpectedOutputs::wrong(Machine& machine) const {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (!outputs_[i]) continue;
    const HostTensor actual = machine.output(static_cast<int>(i));
    if (actual.shape != outputs_[i]->shape) return fmt::format("output '{}' has another shape", names_[i]);
    const Deviation deviation =
        compare_tensors(actual, *outputs_[i], names_[i], "the untuned program's result");
    if (!deviation.within(tolerance_))
      return fmt::format("output '{}' differs by {:.3g} of its largest value, of which {:g} are allowed",
                         names_[i], deviation.relative, tolerance_);
  }
  return std::nullopt;
}

TunedSeat::TunedSeat(ExecutionOptions options, const TurnOptions& turns, std::vector<GivenInput> inputs,
                     uint64_t seed, Patience patience, const Invocation& invocation)
    : options_(std::move(options)),
      turns_(turns),
      patience_(patience),
      invocation_(invocation),
      seed_(seed),
      random_(seed, "order") {
  base_.inputs = inputs;
  trial_.inputs = std::move(inputs);
}

/// Plays again what ended because the machine is gone or busy.
template <typename Play>
auto TunedSeat::with_patience(const Play& play) {
  const size_t most = patience_ == Patience::kNoOther ? std::size(kPauses) : 1;
  for (size_t tries = 0;; ++tries) {
    try {
      return play();
    } catch (const rpc::Error& error) {
      if (!may_pass(error) || tries == most) throw;
      turn_.reset();  // its connection may be gone with the machine
      invocation_.note(fmt::format("{}; trying again in {} s", error.what(), kPauses[tries].count()));
      std::this_thread::sleep_for(kPauses[tries]);
    }
  }
}

double TunedSeat::take_turn() {
  double waited = 0;
  if (turn_) {
    waited = turn_->pause();
  } else {
    turn_ = cli::take_turn(options_, turns_, invocation_, {});
    waited = turn_->record().waited_s;
  }
  waited_s_ += waited;
  return waited;
}

void TunedSeat::start(Execution& execution) {
  try {
    restart(execution, options_);
  } catch (const rpc::Error& error) {
    const Execution& other = &execution == &base_ ? trial_ : base_;
    if (error.kind() != rpc::ErrorKind::kRetry || !other.machine) throw;
    throw both_need_room(error, base_.module.bytes, trial_.module.bytes);
  }
  turn_->join(*execution.machine);
}

void TunedSeat::move_to(const TuneMachine& machine) {
  base_.machine.reset();
  trial_.machine.reset();
  turn_.reset();
  options_.board = machine.board;
  options_.key = machine.key;
  holds_ = machine.holds;
}

rpc::BoardInfo TunedSeat::board() {
  return with_patience([&] {
    if (!base_.machine) base_.machine = open_machine(options_.board, options_.key);
    return base_.machine->info();
  });
}

ProfiledProcess TunedSeat::profile(const runtime::SharedBytes& module) {
  base_.module.bytes = module;
  return with_patience([&] {
    take_turn();
    start(base_);
    return profile_process(*base_.machine);
  });
}

CountedProcess TunedSeat::count(const runtime::SharedBytes& module) {
  base_.module.bytes = module;
  return with_patience([&] {
    take_turn();
    start(base_);
    return count_process(*base_.machine, {});
  });
}

void TunedSeat::check_first_run(const ExpectedOutputs& expected, double untuned_ms) {
  const auto deadline = patience(1, untuned_ms);
  of_trial(deadline, [&] { run_until(*trial_.machine, deadline); });
  if (const auto wrong = expected.wrong(*trial_.machine)) throw TrialFailed{{Outcome::kWrong, *wrong}};
}

void TunedSeat::start_pair(const runtime::SharedBytes& base, const runtime::SharedBytes& trial,
                           const ExpectedOutputs& expected, double untuned_ms) {
  base_.module.bytes = base;
  trial_.module.bytes = trial;
  take_turn();
  start(base_);
  of_trial(patience(1, untuned_ms), [&] { start(trial_); });
  check_first_run(expected, untuned_ms);
}

TunedRound TunedSeat::play(const runtime::SharedBytes& base, const runtime::SharedBytes& trial, bool thorough,
                           const ExpectedOutputs& expected, double untuned_ms) {
  return with_patience([&] {
    start_pair(base, trial, expected, untuned_ms);
    TunedRound round(*base_.machine, *trial_.machine, random_, thorough);
    round.warm_up_base();
    const auto deadline = patience(TunedRound::kMostRuns, untuned_ms);
    of_trial(deadline, [&] { round.warm_up_trial(deadline); });
    while (round.wants_more()) {
      const bool trial_first = round.next_is_trial();
      for (const bool of_the_trial : {trial_first, !trial_first}) {
        if (of_the_trial) {
          of_trial(deadline, [&] { round.time_trial(deadline); });
        } else {
          round.time_base();
        }
      }
    }
    return round;
  });
}

CountedPair TunedSeat::count(const runtime::SharedBytes& base, const runtime::SharedBytes& trial,
                             const ExpectedOutputs& expected, double untuned_ms) {
  return with_patience([&] {
    start_pair(base, trial, expected, untuned_ms);
    CountedPair pair;
    pair.base = count_process(*base_.machine, {});
    const auto deadline = patience(kRunsOfACount, untuned_ms);
    pair.trial = of_trial(deadline, [&] { return count_process(*trial_.machine, deadline); });
    return pair;
  });
}

Comparison TunedSeat::compare(const runtime::SharedBytes& base, const runtime::SharedBytes& trial,
                              double seconds, const CompareOptions& statistics,
                              const ExpectedOutputs& expected, double untuned_ms) {
  base_.module.bytes = base;
  trial_.module.bytes = trial;
  CompareMeasureOptions options;
  options.statistics = statistics;
  options.duration_s = seconds;
  options.seed = seed_;
  FormerPulses former = former_pulses(options_);
  const auto again = [&](Execution& execution) {
    // Between two rounds: the trial goes on in the turn of the base.
    const double waited = &execution == &base_ ? take_turn() : 0;
    start(execution);
    return waited;
  };
  with_patience([&] {
    again(base_);
    again(trial_);
    check_first_run(expected, untuned_ms);
  });
  return compare_live({base_, again, former}, {trial_, again, former}, options,
                      [](const std::string&, double) {})
      .comparison;
}

}  // namespace gantry::cli
