#include "host/cli/bench_model.h"

#include "host/cli/report_of.h"

namespace gantry::cli {

BenchReport bench_model(const ExecutionOptions& choice, const MeasureOptions& options,
                        const Invocation& invocation, const MeasureProgress& hear) {
  Execution execution = prepare_execution(choice, invocation);
  FormerPulses former = former_pulses(choice);
  BenchReport report = report_of(choice, options, execution, invocation);
  {
    Progress progress(invocation.verbosity());
    const std::string where = " on " + execution.machine->label();
    report.measurement = measure(
        execution, options, [&](Execution& next) { restart(next, choice); },
        [&](const std::string& what, double share) {
          progress.update(what + where, share);
          if (hear) hear(what + where, share);
        },
        former);
  }
  report.warnings = measurement_warnings(report.measurement, options);
  if (options.profile) {
    add_peaks(report, choice, execution, invocation);
    if (choice.keep_program) add_program(report, choice, execution);
  }
  return report;
}

}  // namespace gantry::cli
