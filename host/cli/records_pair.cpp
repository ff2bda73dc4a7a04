#include "host/cli/records_pair.h"

#include <cmath>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "host/cli/compare_models.h"
#include "host/cli/expectation.h"
#include "host/cli/tune_measurer.h"
#include "host/support/shortage.h"
#include "rpc/error.h"

namespace gantry::cli {
namespace {

using records::Outcome;
using records::Record;

constexpr uint64_t kSeed = 0;

CompareSide side_of(const DecidedProgram& program, const Record& record, const VerifyOptions& options) {
  CompareSide side{.execution = {}, .name = program.name};
  side.execution.file = program.name;
  side.execution.contents = program.module;
  side.execution.board = options.board;
  side.execution.key = options.key;
  side.execution.threads = record.key.setting.threads;
  side.execution.seed = kSeed;
  return side;
}

void run_in_process(Execution& execution, const ExecutionOptions& options) {
  if (!execution.machine) restart(execution, options);
  execution.machine->run();
}

/// What of the second's is wrong: its outputs for the same inputs, or that the board gave it up.
std::optional<tune::Failure> failure_of(const CompareSide& first, const CompareSide& second, double tolerance,
                                        const Invocation& invocation) {
  Execution executions[] = {prepare_execution(first.execution, invocation),
                            prepare_execution(second.execution, invocation)};
  const std::optional<std::string> crash =
      crash_of_second({.run_first = [&] { run_in_process(executions[0], first.execution); },
                       .run_second = [&] { run_in_process(executions[1], second.execution); },
                       .end_first = [&] { executions[0].machine.reset(); },
                       .end_second = [&] { executions[1].machine.reset(); }});
  if (crash) return tune::Failure{Outcome::kCrashed, *crash};
  for (size_t i = 0; i < executions[0].loaded.outputs.size(); ++i) {
    const auto index = static_cast<int>(i);
    const Deviation deviation =
        compare_tensors(executions[1].machine->output(index), executions[0].machine->output(index),
                        executions[0].loaded.outputs[i].name, first.name);
    if (!deviation.within(tolerance))
      return tune::Failure{Outcome::kWrong,
                           fmt::format("results differ by {:.3g} of the largest, more than {:g}",
                                       deviation.relative, tolerance)};
  }
  return std::nullopt;
}

/// Of milliseconds.
std::vector<double> medians(const ReportSummary& summary) {
  std::vector<double> seconds;
  for (const ProcessSamples& process : summary.processes)
    seconds.push_back(std::exp(log_median(process.samples_ms, summary.name)) / 1e3);
  return seconds;
}

records::Timing timing_of(const CompareReport& report) {
  const Comparison& found = report.comparison;
  return {.seconds = found.other_median_ms / 1e3,
          .baseline_seconds = found.base_median_ms / 1e3,
          .ratio = found.ratio,
          .ratio_low = found.low,
          .ratio_high = found.high,
          .process_seconds = medians(report.second),
          .baseline_process_seconds = medians(report.first)};
}

}  // namespace

Record again_of(const Record& record, const records::Setting& setting, const Decision& baseline,
                const VerifyOptions& options, const std::string& timed) {
  Record again = record;
  again.id = 0;
  again.key.setting = setting;
  again.baseline = baseline;
  again.outcome = Outcome::kMeasured;
  again.reason.clear();
  again.timing.reset();
  again.confirmation = false;
  again.timed = timed;
  again.board = options.board;
  again.beside.clear();
  again.source = "gantry records verify";
  return again;
}

std::optional<std::string> crash_of_second(const TwoProcesses& processes) {
  const auto crash = [&]() -> std::optional<std::string> {
    try {
      processes.run_second();
    } catch (const rpc::Error& error) {
      if (error.kind() != rpc::ErrorKind::kBoard) throw;
      return error.what();
    }
    return std::nullopt;
  };
  processes.run_first();
  if (!crash()) return std::nullopt;
  processes.end_first();
  processes.end_second();
  const std::optional<std::string> alone = crash();
  processes.end_second();
  processes.run_first();
  if (alone) return alone;
  if (const std::optional<std::string> beside = crash())
    throw Shortage("each of the two programs runs by itself, but not both at once: " + *beside);
  return std::nullopt;
}

void fail(Record& record, Outcome outcome, const std::string& reason) {
  record.outcome = outcome;
  record.reason = records::line_of(reason);
}

void measure_pair(Record& again, const ProgramPair& pair, double tolerance, const VerifyOptions& options,
                  const Invocation& invocation) {
  const CompareSide first = side_of(pair.base, again, options), second = side_of(pair.other, again, options);
  if (const auto failure = failure_of(first, second, tolerance, invocation))
    return fail(again, failure->outcome, failure->why);
  CompareMeasureOptions how;
  how.duration_s = options.duration_s;
  how.measure.turns = options.turns;
  how.seed = std::random_device()();
  const CompareReport report = compare_models(first, second, how, invocation);
  again.timing = timing_of(report);
  again.confirmation = true;
  for (const std::string& warning : report.warnings)
    again.beside += (again.beside.empty() ? "" : "; ") + records::line_of(warning);
}

}  // namespace gantry::cli
