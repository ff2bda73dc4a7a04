// A machine that trials are measured on: a process of the base and one of the trial, again and again.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "host/cli/compare_run.h"
#include "host/cli/counted_process.h"
#include "host/cli/execution.h"
#include "host/cli/trial_failure.h"
#include "host/cli/tune_machines.h"
#include "host/cli/tuned_round.h"
#include "host/cli/turns/measuring_turn.h"
#include "host/tune/measurer.h"

namespace gantry::cli {

/// What the untuned program does with the inputs, and how far others may be off.
class ExpectedOutputs {
 public:
  /// Runs the program, which is loaded and has its inputs, twice. Warns of outputs that differ from run to
  /// run, which nothing can be compared with. `tolerance`: as of `gantry run --expect`.
  ExpectedOutputs(Execution& untuned, double tolerance, const Invocation& invocation);
  /// Of the machine's last run; none: all are as expected.
  std::optional<std::string> wrong(Machine& machine) const;

 private:
  std::vector<std::string> names_;
  std::vector<std::optional<HostTensor>> outputs_;  ///< none: it differs from run to run
  double tolerance_;
};

/// How often a machine that goes away or is busy is connected to again, with growing pauses.
enum class Patience : uint8_t {
  kNoOther,  ///< three times: it is this machine or none
  kAnother,  ///< once: another one takes its place
};

/// Belongs to one thread at a time. Throws an rpc::Error where the machine's `patience` is over, and for a
/// base that fails; TrialFailed for a trial that does.
class TunedSeat {
 public:
  /// `options`: of all programs; which machine, move_to() says. `turns`: how turns are taken with others
  /// there.
  TunedSeat(ExecutionOptions options, const TurnOptions& turns, std::vector<GivenInput> inputs, uint64_t seed,
            Patience patience, const Invocation& invocation);

  /// Everything else is done there from now on.
  void move_to(const TuneMachine& machine);
  /// Connects, if nothing was done there yet.
  rpc::BoardInfo board();
  /// For others who measure there, in all.
  double waited_s() const { return waited_s_; }
  ProfiledProcess profile(const runtime::SharedBytes& module);
  /// A round of fresh processes, whose first results are checked. `untuned_ms`: of a run; a trial that takes
  /// many times that is stopped. `thorough`: as of TunedRound.
  TunedRound play(const runtime::SharedBytes& base, const runtime::SharedBytes& trial, bool thorough,
                  const ExpectedOutputs& expected, double untuned_ms);
  /// What a run of it executes. Errors beside those of the machine: count_process().
  CountedProcess count(const runtime::SharedBytes& module);
  /// As play, but that what a run of each executes is counted.
  CountedPair count(const runtime::SharedBytes& base, const runtime::SharedBytes& trial,
                    const ExpectedOutputs& expected, double untuned_ms);
  /// As `gantry compare` does. Once it has begun, there is no patience with the machine.
  Comparison compare(const runtime::SharedBytes& base, const runtime::SharedBytes& trial, double seconds,
                     const CompareOptions& statistics, const ExpectedOutputs& expected, double untuned_ms);

 private:
  template <typename Play>
  auto with_patience(const Play& play);
  /// Waits until nobody else measures there; where it has the turn, gives way to others who wait. Seconds
  /// waited.
  double take_turn();
  /// A fresh process, in the turn that was taken.
  void start(Execution& execution);
  void check_first_run(const ExpectedOutputs& expected, double untuned_ms);
  /// Fresh processes of both, in a turn; the trial's first results are checked.
  void start_pair(const runtime::SharedBytes& base, const runtime::SharedBytes& trial,
                  const ExpectedOutputs& expected, double untuned_ms);

  ExecutionOptions options_;
  TurnOptions turns_;
  Patience patience_;
  std::shared_ptr<const void> holds_;    ///< what the machine's key needs
  std::unique_ptr<MeasuringTurn> turn_;  ///< null: nothing was measured yet, or the machine is gone
  double waited_s_ = 0;
  const Invocation& invocation_;
  uint64_t seed_;
  Random random_;
  Execution base_, trial_;
};

}  // namespace gantry::cli
