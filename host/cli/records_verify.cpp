#include "host/cli/records_verify.h"

#include <cmath>
#include <random>

#include "host/cli/compare_models.h"
#include "host/cli/expectation.h"
#include "host/cli/records_use.h"
#include "host/cli/tune_measurer.h"
#include "host/records/setting.h"
#include "host/records/work_program.h"
#include "host/support/error.h"
#include "rpc/error.h"

namespace gantry::cli {
namespace {

using records::Outcome;
using records::Record;

constexpr uint64_t kSeed = 0;
// Largest difference by largest result, at least: of a work by itself, whose sums are in another order.
constexpr double kLeastTolerance = 1e-4;

struct Built {
  Contents module;
  Decision decision;
};

/// The program by that decision; none: as the compiler takes it.
Built build(const records::WorkProgram& program, const std::optional<Decision>& decision,
            const Record& record, const Target& target, Progress& progress) {
  Graph graph = records::graph_of(program, kSeed);
  if (decision) graph.main.nodes().front()->decision = decision;
  CompileOptions options = compile_options({target}, kMostOptLevel, progress);
  options.precision = target.precision;
  options.optimize = find_optimize(record.key.setting.optimize);
  std::vector<NodeDecision> decisions;
  options.observer.decisions = &decisions;
  options.cache = open_cache(true);
  ModuleFile file = compile_graph(std::move(graph), options);
  if (decisions.empty()) user_error("nothing is decided for its program any more");
  return {module_bytes(file), decisions.front().decision};
}

CompareSide side_of(const Built& built, const Record& record, const VerifyOptions& options,
                    const std::string& name) {
  CompareSide side{.execution = {}, .name = name};
  side.execution.file = name;
  side.execution.contents = built.module;
  side.execution.board = options.board;
  side.execution.key = options.key;
  side.execution.threads = record.key.setting.threads;
  side.execution.seed = kSeed;
  return side;
}

/// What of the second's is wrong: its outputs for the same inputs, or that the board gave it up.
std::optional<tune::Failure> failure_of(const CompareSide& first, const CompareSide& second, double tolerance,
                       const Invocation& invocation) {
  Execution executions[] = {prepare_execution(first.execution, invocation),
                            prepare_execution(second.execution, invocation)};
  executions[0].machine->run();
  try {
    executions[1].machine->run();
  } catch (const rpc::Error& error) {
    if (error.kind() != rpc::ErrorKind::kBoard) throw;
    return tune::Failure{Outcome::kCrashed, error.what()};
  }
  for (size_t i = 0; i < executions[0].loaded.outputs.size(); ++i) {
    const auto index = static_cast<int>(i);
    const Deviation deviation =
        compare_tensors(executions[1].machine->output(index), executions[0].machine->output(index),
                        executions[0].loaded.outputs[i].name, first.name);
    if (!deviation.within(tolerance))
      return tune::Failure{Outcome::kWrong, fmt::format("results differ by {:.3g} of the largest, more than {:g}",
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

/// A record of the same work and decision, of now and of this generator.
Record again_of(const Record& record, const records::Setting& setting, const Decision& baseline,
                const VerifyOptions& options) {
  Record again = record;
  again.id = 0;
  again.key.setting = setting;
  again.baseline = baseline;
  again.outcome = Outcome::kMeasured;
  again.reason.clear();
  again.timing.reset();
  again.confirmation = false;
  again.timed = "the work by itself";
  again.board = options.board;
  again.beside.clear();
  again.source = "gantry records verify";
  return again;
}

void fail(Record& record, Outcome outcome, std::string reason) {
  record.outcome = outcome;
  record.reason = records::line_of(std::move(reason));
}

/// Why it cannot be measured on a machine whose setting is the other one; empty: it can.
std::string elsewhere(const records::Setting& own, const records::Setting& here) {
  if (own.target != here.target || own.features != here.features)
    return fmt::format("of target {}, not {}", own.target, here.target);
  if (own.machine != here.machine) return fmt::format("of {}, not {}", own.machine, here.machine);
  return "";
}

/// None where the compiler takes the decision by itself.
std::optional<Record> measured(const Record& record, const records::WorkProgram& program,
                               const records::Setting& setting, const Target& target,
                               const VerifyOptions& options, const Invocation& invocation) {
  Progress progress(invocation.verbosity());
  const Built base = build(program, std::nullopt, record, target, progress);
  if (base.decision == record.decision) return std::nullopt;
  Record again = again_of(record, setting, base.decision, options);
  Built other;
  try {
    other = build(program, record.decision, record, target, progress);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUser) throw;
    fail(again, Outcome::kMisfit, error.what());
    return again;
  }
  progress.clear();
  const CompareSide first = side_of(base, record, options, to_string(base.decision));
  const CompareSide second = side_of(other, record, options, to_string(record.decision));
  const double tolerance = std::max(kLeastTolerance, default_tolerance(target.precision));
  if (const auto failure = failure_of(first, second, tolerance, invocation)) {
    fail(again, failure->outcome, failure->why);
    return again;
  }
  CompareMeasureOptions how;
  how.duration_s = options.duration_s;
  how.seed = std::random_device()();
  const CompareReport report = compare_models(first, second, how, invocation);
  again.timing = timing_of(report);
  again.confirmation = true;
  for (const std::string& warning : report.warnings)
    again.beside += (again.beside.empty() ? "" : "; ") + records::line_of(warning);
  return again;
}

void measure_again(Verified& result, const Record& record, const records::WorkProgram& program,
                   const rpc::BoardInfo& info, const VerifyOptions& options, const Invocation& invocation) {
  const Target target = with_precision(target_of_board(info.architecture, info.llvm_cpu, info.features),
                                       find_precision(record.key.setting.precision));
  const records::Setting here = records::setting_of(target, machine_name(info, target, 0),
                                                    record.key.setting.threads, record.key.setting.optimize);
  result.why = elsewhere(record.key.setting, here);
  if (!result.why.empty()) return;
  result.again = measured(record, program, here, target, options, invocation);
  if (result.again) {
    result.again->date = records::date_now();
  } else {
    result.why = "the compiler takes its decision by itself";
  }
}

}  // namespace

Verified verify_record(const Record& record, records::Store& store, const VerifyOptions& options,
                       const Invocation& invocation) {
  Verified result{.id = record.id};
  if (record.op == records::kNetworkOp) {
    result.why = fmt::format(
        "it is of a whole network, of which nothing is kept: `gantry tune {}` measures that again",
        record.model.empty() ? "MODEL" : record.model);
    return result;
  }
  const auto text = store.program_of(record.key.work);
  if (!text) {
    result.why = "the store has no program of its work";
    return result;
  }
  const rpc::BoardInfo info = open_machine(options.board, options.key)->info();
  try {
    measure_again(result, record, {record.key.work, *text}, info, options, invocation);
  } catch (const Error& error) {  // of an older version's program, say: the next record may do
    if (error.kind() != ErrorKind::kUser) throw;
    result.why = error.what();
  }
  return result;
}

}  // namespace gantry::cli
