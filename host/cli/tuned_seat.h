// A machine that trials are measured on: a process of the base and one of the trial, again and again.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "host/cli/compare_run.h"
#include "host/cli/counted_process.h"
#include "host/cli/execution.h"
#include "host/cli/tuned_round.h"
#include "host/cli/turns/measuring_turn.h"
#include "host/tune/measurer.h"

namespace gantry::cli {

/// What a trial has done, as an exception, so that its rounds end.
struct TrialFailed {
  tune::Failure failure;
};

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

/// Belongs to one thread at a time. A machine that goes away or is busy is connected to again, three times,
/// with growing pauses; board errors where that does not help, and for a base that fails. Throws TrialFailed
/// for a trial that does.
class TunedSeat {
 public:
  /// `options`: of one machine, on which `turns` says how turns are taken with others. `inputs`: of all
  /// programs.
  TunedSeat(ExecutionOptions options, const TurnOptions& turns, std::vector<GivenInput> inputs, uint64_t seed,
            const Invocation& invocation);

  /// Connects, if nothing was done yet.
  rpc::BoardInfo board();
  ProfiledProcess profile(const runtime::SharedBytes& module);
  /// So many rounds, of fresh processes. `untuned_ms`: of a run; a trial that takes many times that is
  /// stopped.
  std::vector<TunedRound> play(const runtime::SharedBytes& base, const runtime::SharedBytes& trial,
                               int rounds, const ExpectedOutputs& expected, double untuned_ms);
  /// What a run of it executes.
  CountedProcess count(const runtime::SharedBytes& module);
  /// As play, but that what runs execute is counted: so many pairs of fresh processes.
  std::vector<CountedPair> count(const runtime::SharedBytes& base, const runtime::SharedBytes& trial,
                                 int pairs, const ExpectedOutputs& expected, double untuned_ms);
  /// As `gantry compare` does.
  Comparison compare(const runtime::SharedBytes& base, const runtime::SharedBytes& trial, double seconds,
                     const ExpectedOutputs& expected, double untuned_ms);

 private:
  template <typename Play>
  auto with_patience(const Play& play);
  /// Waits until nobody else measures there; where it has the turn, gives way to others who wait. Seconds
  /// waited.
  double take_turn();
  /// A fresh process, in the turn that was taken.
  void start(Execution& execution);
  void check_first_run(const ExpectedOutputs& expected, double untuned_ms);

  ExecutionOptions options_;
  TurnOptions turns_;
  std::unique_ptr<MeasuringTurn> turn_;  ///< null: nothing was measured yet, or the machine is gone
  const Invocation& invocation_;
  uint64_t seed_;
  Random random_;
  Execution base_, trial_;
};

}  // namespace gantry::cli
