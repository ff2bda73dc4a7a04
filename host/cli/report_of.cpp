#include "host/cli/report_of.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "device_runtime/src/module_reader.h"
#include "host/cli/measure_peaks.h"
#include "host/cli/program_of_module.h"
#include "host/cli/report_summary.h"
#include "host/cli/text.h"
#include "host/records/record.h"
#include "host/records/url.h"
#include "module_generated.h"

namespace gantry::cli {
namespace {

std::string optimized_for(const runtime::SharedBytes& module) {
  auto contents = runtime::ModuleContents::from_bytes(module, /*check_digests=*/false);
  if (!contents.ok() || (*contents).manifest().optimize() == nullptr) return "";
  return (*contents).manifest().optimize()->str();
}

/// The clock that the CPUs ran at; where the machine does not show it, what its multiply-adds in f32 tell of
/// it.
std::optional<double> clock_of(const BenchReport& report, const MachineModel& machine) {
  if (const auto mhz = summarise_machine(report.measurement).clock_mhz_mean) return mhz;
  if (!report.peaks || report.precision != name_of(Precision::kFp32)) return std::nullopt;
  const double flops_per_cycle = 2.0 * machine.fma_per_cycle * machine.vector_bytes / sizeof(float);
  return 1e3 * report.peaks->gflop_per_s / report.peaks->threads / flops_per_cycle;
}

/// Whether both use one machine in one way: in turns, so that what holds of the one holds of the other.
bool run_alike(const BenchReport& first, const BenchReport& second) {
  return first.address == second.address && first.device == second.device &&
         first.measurement.last.threads == second.measurement.last.threads;
}

}  // namespace

BenchReport report_of(const ExecutionOptions& choice, const MeasureOptions& options,
                      const Execution& execution, const Invocation& invocation) {
  BenchReport report;
  report.gantry_version = GANTRY_VERSION;
  report.date = records::date_now();
  for (const std::string& word : invocation.arguments)
    report.command.push_back(records::without_password(word));
  report.model = choice.file;
  report.module_digest = execution.module.digest;
  report.module_bytes = execution.module.bytes.bytes.size();
  report.board = choice.board.empty() ? "local" : choice.board;
  report.address = execution.machine->address();
  report.device = choice.device;
  report.opt_level = execution.module.opt_level;
  report.optimize = optimized_for(execution.module.bytes);
  report.precision = execution.loaded.precision;
  report.program_choice = program_that_runs(execution, choice);
  report.seed = choice.seed.value_or(0);
  for (size_t i = 0; i < execution.inputs.size(); ++i) {
    const GivenInput& input = execution.inputs[i];
    report.inputs.push_back(
        {execution.loaded.inputs[i].name, input.tensor.type, input.tensor.shape, input.source, input.chosen});
  }
  report.options = options;
  return report;
}

void add_peaks(BenchReport& report, const ExecutionOptions& choice, Execution& execution,
               const Invocation& invocation) {
  Progress progress(invocation.verbosity());
  progress.update("measuring the roofs of " + execution.machine->label(), -1);
  PeaksResult result = measure_peaks(execution, choice, report.measurement);
  report.peaks = std::move(result.peaks);
  report.peaks_note = std::move(result.note);
}

void add_program(BenchReport& report, const ExecutionOptions& choice, const Execution& execution) {
  auto contents = runtime::ModuleContents::from_bytes(execution.module.bytes, /*check_digests=*/false);
  auto device = runtime::parse_device(choice.device);
  if (!contents.ok() || !device.ok()) return;
  const module_format::Manifest& manifest = contents->manifest();
  std::vector<std::vector<int64_t>> shapes;
  for (const GivenInput& input : execution.inputs) shapes.push_back(input.tensor.shape);
  const auto* variant = find_variant(manifest, execution.loaded.target, device->type, shapes);
  if (variant == nullptr) return;
  report.program = program_of_module(manifest, *variant, shapes);
  if (execution.module.programs.empty()) return;
  const ProgramChoice running = choose_program(manifest, execution.loaded.target, device->type, shapes);
  const CompiledProgram& compiled = *execution.module.programs.at(running.variant);
  add_compiled(*report.program, *variant, compiled);
  if (const auto mhz = clock_of(report, compiled.target.machine))
    predict_times(*report.program, *mhz, static_cast<int>(report.measurement.last.threads));
}

std::vector<std::string> live_warnings(const BenchReport& first, const BenchReport& second,
                                       const LiveComparison& live, const CompareMeasureOptions& options) {
  std::vector<std::string> warnings;
  for (const BenchReport* side : {&first, &second}) {
    const size_t restless = summary_of(*side).restless_processes;
    if (restless == 0) continue;
    warnings.push_back(fmt::format("{}: {} of {} processes never became steady", side->model, restless,
                                   side->measurement.processes.size()));
  }
  const std::vector<std::string> of_first = machine_warnings(first.measurement);
  warnings.insert(warnings.end(), of_first.begin(), of_first.end());
  if (!run_alike(first, second)) {
    for (const std::string& warning : machine_warnings(second.measurement)) {
      if (std::ranges::find(of_first, warning) == of_first.end())
        warnings.push_back("the second: " + warning);
    }
  }
  if (!options.rounds && live.stopped == StopReason::kTimeLimit) {
    warnings.push_back(fmt::format(
        "after {:.0f} s the ratio is known to ±{} % only; --duration allows more time", live.elapsed_s,
        rough_text(50 * (live.comparison.high - live.comparison.low) / live.comparison.ratio)));
  }
  return warnings;
}

}  // namespace gantry::cli
