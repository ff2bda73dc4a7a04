#include "host/cli/compare_models.h"

#include <tuple>

#include "host/cli/report_of.h"
#include "host/cli/turns/measuring_turn.h"

namespace gantry::cli {
namespace {

/// A side as a result of bench: what its processes, however they took turns with the other's, say of it
/// alone.
BenchReport side_report(const CompareSide& side, const CompareMeasureOptions& options,
                        const Execution& execution, const Invocation& invocation, Measurement measurement,
                        double elapsed_s) {
  MeasureOptions asked = options.measure;
  asked.duration_s = options.duration_s;
  asked.precision_goal = options.statistics.smallest_effect;
  asked.processes = options.rounds;
  BenchReport report = report_of(side.execution, asked, execution, invocation);
  report.measurement = std::move(measurement);
  Measurement& m = report.measurement;
  m.interval = median_interval(speed_of(m.processes));
  m.reached_goal = m.interval->relative_half_width() <= asked.precision_goal;
  m.elapsed_s = elapsed_s;
  report.warnings = machine_warnings(m);
  return report;
}

}  // namespace

CompareReport compare_models(const CompareSide& first, const CompareSide& second,
                             const CompareMeasureOptions& options, const Invocation& invocation,
                             const MeasureProgress& hear) {
  Execution executions[] = {prepare_execution(first.execution, invocation),
                            prepare_execution(second.execution, invocation)};
  LiveComparison live;
  FormerPulses former[] = {former_pulses(first.execution), former_pulses(second.execution)};
  {
    Progress progress(invocation.verbosity());
    const std::string where = " on " + executions[0].machine->label();
    const TurnProgress waits = [&](const std::string& what) {
      progress.update(what, -1);
      if (hear) hear(what, 0);
    };
    // Both sides run on one machine in one turn, unless each has been given its own.
    const bool same = executions[0].machine->address() == executions[1].machine->address();
    const auto turn = take_turn(first.execution, options.measure.turns, invocation, waits);
    const auto other = same ? nullptr : take_turn(second.execution, options.measure.turns, invocation, waits);
    MeasuringTurn* const turns[] = {turn.get(), same ? turn.get() : other.get()};
    for (size_t side : {0, 1}) turns[side]->join(*executions[side].machine);
    const auto again = [&](size_t side, const ExecutionOptions& choice, Execution& execution) {
      // Between two rounds: the second side goes on in the turn of the first.
      const double waited = side == 0 || !same ? turns[side]->pause() : 0;
      restart(execution, choice);
      turns[side]->join(*execution.machine);
      return waited;
    };
    live =
        compare_live({executions[0], [&](Execution& e) { return again(0, first.execution, e); }, former[0]},
                     {executions[1], [&](Execution& e) { return again(1, second.execution, e); }, former[1]},
                     options, [&](const std::string& what, double share) {
                       progress.update(what + where, share);
                       if (hear) hear(what + where, share);
                     });
    for (Measurement* measured : {&live.first, &live.second}) {
      const TurnRecord& record = turns[measured == &live.second ? 1 : 0]->record();
      if (record.turns > 0) measured->turns = record;
    }
  }
  const BenchReport measured[] = {
      side_report(first, options, executions[0], invocation, std::move(live.first), live.elapsed_s),
      side_report(second, options, executions[1], invocation, std::move(live.second), live.elapsed_s)};
  CompareReport report;
  report.compared = true;
  report.comparison = live.comparison;
  report.first = summary_of(measured[0]);
  report.second = summary_of(measured[1]);
  report.first.name = first.name;
  report.second.name = second.name;
  report.rounds = measured[0].measurement.processes.size();
  report.elapsed_s = live.elapsed_s;
  report.played = live.rounds;
  for (const BenchReport& side : measured) report.results.push_back(report_to_json(side));
  report.smallest_effect = options.statistics.smallest_effect;
  report.warnings = live_warnings(measured[0], measured[1], live, options);
  return report;
}

CompareReport compare_results(const std::filesystem::path& first, const std::filesystem::path& second,
                              const CompareOptions& statistics) {
  CompareReport report;
  report.compared = true;
  std::tie(report.first, report.second) = read_reports(first, second);
  report.smallest_effect = statistics.smallest_effect;
  const Comparability both = comparability(report.first, report.second);
  report.warnings = both.warnings;
  report.comparison =
      compare_processes(report.first.processes, report.second.processes, statistics, both.extra_spread);
  return report;
}

}  // namespace gantry::cli
