// All of `gantry tune` but its files and texts.
#pragma once

#include <optional>
#include <string>

#include "host/cli/execution.h"
#include "host/cli/tune_report.h"
#include "host/cli/turns/farm_options.h"
#include "host/cli/turns/turn_options.h"
#include "host/support/error.h"
#include "host/tune/equal_candidates.h"

namespace gantry::cli {

/// In place of a file: none.
inline constexpr char kNoPrior[] = "none";

struct TuneModelOptions {
  ExecutionOptions execution;
  TurnOptions turns;
  FarmOptions farm;
  tune::TuneOptions tune;
  tune::Metric metric = tune::Metric::kTime;
  std::string records;              ///< as --records; empty: none are kept
  std::string prior;  ///< a file of tune::PriorFile; empty: the one that is found for the target; kNoPrior
  std::optional<double> tolerance;  ///< none: as the precision has it
};

struct TunedModel {
  TuneReport report;
  runtime::SharedBytes module;
  std::string decisions;  ///< of all nodes, as --decisions takes them
  /// Why some of the records could not be written, to be thrown once everything else is done.
  std::optional<Error> unwritten;
};

/// `tune.seconds` are those in which there is a machine: a farm's boards are waited for beside them. Errors:
/// those of prepare_execution, MachineMeasurer and tune::tune.
TunedModel tune_model(const TuneModelOptions& options, const Invocation& invocation);

/// Tunes nothing: see tune::try_equal_candidates, of what the compiler takes by itself. Errors: its, and
/// those of prepare_execution and MachineMeasurer.
tune::EqualCandidates check_decisions(const TuneModelOptions& options, size_t decisions,
                                      const Invocation& invocation);

}  // namespace gantry::cli
