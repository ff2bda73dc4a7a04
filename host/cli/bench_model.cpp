#include "host/cli/bench_model.h"

#include "host/cli/report_of.h"
#include "host/cli/turns/measuring_turn.h"

namespace gantry::cli {

BenchReport bench_model(const ExecutionOptions& choice, const MeasureOptions& options,
                        const Invocation& invocation, const MeasureProgress& hear) {
  Execution execution = prepare_execution(choice, invocation);
  FormerPulses former = former_pulses(choice);
  BenchReport report;
  {
    Progress progress(invocation.verbosity());
    const std::string where = " on " + execution.machine->label();
    const auto turn = take_turn(choice, options.turns, invocation, [&](const std::string& what) {
      progress.update(what, -1);
      if (hear) hear(what, 0);
    });
    turn->join(*execution.machine);
    Measurement measurement = measure(
        execution, options,
        [&](Execution& next) {
          const double waited = turn->pause();
          restart(next, choice);
          turn->join(*next.machine);
          return waited;
        },
        [&](const std::string& what, double share) {
          progress.update(what + where, share);
          if (hear) hear(what + where, share);
        },
        former);
    report = report_of(choice, options, execution, invocation);
    report.measurement = std::move(measurement);
    if (turn->record().turns > 0) report.measurement.turns = turn->record();
    if (options.profile) add_peaks(report, choice, execution, invocation);
  }
  report.warnings = measurement_warnings(report.measurement, options);
  if (report.peaks) {
    if (std::string warning = peaks_warning(*report.peaks); !warning.empty())
      report.warnings.push_back(std::move(warning));
  }
  if (options.profile) {
    if (choice.keep_program) add_program(report, choice, execution);
  }
  return report;
}

}  // namespace gantry::cli
