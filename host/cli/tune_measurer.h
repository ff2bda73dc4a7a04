// A tuner's trials on machines: this one, or boards that are alike.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "host/cli/compile_hosts.h"
#include "host/cli/execution.h"
#include "host/cli/tune_machines.h"
#include "host/cli/turns/turn_options.h"
#include "host/tune/metric.h"
#include "host/tune/network.h"

namespace gantry::cli {

struct TuneMeasuring {
  double tolerance = 1e-5;  ///< as of `gantry run --expect`
  uint64_t seed = 0;        ///< of the order in which programs take turns
  TurnOptions turns;        ///< with others who measure there
  tune::Metric metric = tune::Metric::kTime;
  /// What is waited for where there is no machine, again and again; "" where there is one.
  std::function<void(const std::string& what)> wait;
};

/// Every round has a fresh process of each of the two programs, which take turns as those of `gantry compare`
/// do. The results of each trial's first run are compared with the untuned program's, for the same inputs, by
/// the rule of `gantry run --expect`. Several boards measure batches, and rounds, at the same time, and
/// programs are built while boards measure; this machine does one thing at a time. What a board that goes
/// away had not finished is measured by another, or by the next that comes.
///
/// Of Metric::kInstructions a run of each program is counted instead, in one process or, of Effort::kSure and
/// in comparisons, two, each pair on whatever board is free. A board error, of the first measurement there,
/// where a machine cannot count.
class MachineMeasurer : public tune::Measurer {
 public:
  /// `untuned`: the untuned program, prepared on `first`, the machine of place `first_place`; its inputs are
  /// those of all trials. `options`, `machines`, `network` and `invocation` must outlive it. User errors for
  /// boards that are not of one kind.
  MachineMeasurer(const ExecutionOptions& options, TuneMachines& machines, size_t first_place,
                  const TuneMachine& first, const tune::Network& network, Execution untuned,
                  const TuneMeasuring& measuring, const Invocation& invocation);
  ~MachineMeasurer() override;

  /// From now on programs are built on compile hosts, too: machines of ProgramBuilder::use(). `untuned`:
  /// choices that they are tried by. User errors: those.
  void build_on(std::unique_ptr<TuneMachines> hosts, const tune::Choices& untuned);
  /// How many programs were built where.
  BuildCounts builds() const;
  /// How many compile hosts there are now, and how many are wanted.
  std::pair<size_t, size_t> compile_hosts() const;

  size_t batches_at_once() const override;
  /// Of the machine that has waited longest.
  double waited_s() const override;
  tune::Profile profile(const tune::Choices& choices) override;
  std::optional<tune::Failure> build_failure(const tune::Choices& choices) override;
  std::vector<tune::Batch> measure(const tune::Choices& base,
                                   const std::vector<std::vector<tune::Trial>>& batches,
                                   tune::Effort effort) override;
  std::vector<tune::Batch> measure_whole(const tune::Choices& base, const std::vector<tune::Choices>& others,
                                         tune::Effort effort) override;
  tune::Batch compare(const tune::Choices& base, const tune::Choices& other, double seconds,
                      double confidence) override;

  /// The program by these choices, which may have been measured already.
  runtime::SharedBytes module_of(const tune::Choices& choices);
  const rpc::BoardInfo& board() const;
  /// That computed; known after profile().
  int threads() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

/// The tolerance of `gantry run --expect` for f32, and what rounded operands make of it.
double default_tolerance(Precision precision);

}  // namespace gantry::cli
