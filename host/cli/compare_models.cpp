#include "host/cli/compare_models.h"

#include <tuple>

#include "host/cli/report_of.h"
#include "host/cli/turns/measuring_turn.h"

namespace gantry::cli {

CompareReport compare_models(const CompareSide& first, const CompareSide& second,
                             const CompareMeasureOptions& options, const Invocation& invocation,
                             const MeasureProgress& hear) {
  Execution executions[] = {prepare_execution(first.execution, invocation),
                            prepare_execution(second.execution, invocation)};
  LiveComparison live;
  FormerPulses former = former_pulses(first.execution);
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
    live = compare_live(
        {executions[0], [&](Execution& e) { return again(0, first.execution, e); }},
        {executions[1], [&](Execution& e) { return again(1, second.execution, e); }}, options,
        [&](const std::string& what, double share) {
          progress.update(what + where, share);
          if (hear) hear(what + where, share);
        },
        former);
    for (Measurement* measured : {&live.first, &live.second}) {
      const TurnRecord& record = turns[measured == &live.second ? 1 : 0]->record();
      if (record.turns > 0) measured->turns = record;
    }
  }
  BenchReport measured[] = {report_of(first.execution, options.measure, executions[0], invocation),
                            report_of(second.execution, options.measure, executions[1], invocation)};
  measured[0].measurement = std::move(live.first);
  measured[1].measurement = std::move(live.second);
  CompareReport report;
  report.compared = true;
  report.comparison = live.comparison;
  report.first = summary_of(measured[0]);
  report.second = summary_of(measured[1]);
  report.first.name = first.name;
  report.second.name = second.name;
  report.rounds = measured[0].measurement.processes.size();
  report.elapsed_s = live.elapsed_s;
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
