#include <CLI/CLI.hpp>
#include <algorithm>

#include "host/cli/bench_run.h"
#include "host/cli/between.h"
#include "host/cli/commands.h"
#include "host/cli/execution.h"
#include "host/cli/measure_options.h"
#include "host/cli/recorded_result.h"
#include "host/cli/report_summary.h"
#include "host/cli/trace_file.h"
#include "host/cli/trace_measurement.h"
#include "host/cli/turns/measuring_turn.h"
#include "host/support/error.h"

namespace gantry::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  gantry profile resnet18.onnx --json result.json
  gantry trace result.json                           result.pftrace, for ui.perfetto.dev
  gantry trace result.json --only kernels -o kernels.json
                                                     Chrome's trace events; the run's kernels alone
  gantry trace resnet18.onnx --on pi -o pi.pftrace   measures first, as `gantry profile` does
Open ui.perfetto.dev and choose the file: it is read in the browser, and goes nowhere. docs/traces.md says what is in it.)";

struct Options {
  ExecutionOptions execution;
  MeasureOptions measure;
  uint64_t seed = 0;
  std::string output, format, only;
  bool force = false;
};

struct Output {
  std::string file;
  TraceFormat format = TraceFormat::kPerfetto;
};

/// --output and --format, each of which can follow from the other.
Output output_of(const Options& options) {
  if (options.format.empty() && options.output.empty())
    return {std::filesystem::path(options.execution.file).filename().replace_extension(".pftrace").string()};
  if (options.format.empty()) return {options.output, expect_trace_format(options.output, "-o")};
  Output output{options.output, find_trace_format(options.format, "--format")};
  // Not RESULT.json, which is what a result is called.
  const char* ending = output.format == TraceFormat::kPerfetto ? ".pftrace" : ".trace.json";
  if (output.file.empty())
    output.file = std::filesystem::path(options.execution.file).filename().replace_extension(ending).string();
  return output;
}

bool is_result(const std::string& file) {
  return kind_of_file(file) == FileKind::kResult || looks_like_json(file);
}

RecordedResult profiled(const Options& options, const Invocation& invocation) {
  ExecutionOptions choice = options.execution;
  choice.seed = options.seed;
  MeasureOptions measure_options = options.measure;
  measure_options.profile = true;
  Execution execution = prepare_execution(choice, invocation);
  RecordedResult result;
  result.model = choice.file;
  result.board = choice.board.empty() ? "local" : choice.board;
  Progress progress(invocation.verbosity());
  const std::string where = " on " + execution.machine->label();
  FormerPulses former = former_pulses(choice);
  const auto turn = take_turn(choice, measure_options.turns, invocation,
                              [&](const std::string& what) { progress.update(what, -1); });
  turn->join(*execution.machine);
  result.measurement = measure(
      execution, measure_options,
      [&](Execution& next) {
        const double waited = turn->pause();
        restart(next, choice);
        turn->join(*next.machine);
        return waited;
      },
      [&](const std::string& what, double share) { progress.update(what + where, share); }, former);
  return result;
}

RecordedResult recorded(const Options& options, const Invocation& invocation) {
  const std::string& file = options.execution.file;
  if (!is_result(file)) return profiled(options, invocation);
  GivenOptions given = options.execution.given;
  std::erase_if(given, [](const std::string& option) {
    return option == "--output" || option == "--format" || option == "--only" || option == "--force";
  });
  refuse(given, given, file + ": is a result, of which nothing is measured any more");
  invocation.outputs->reads(file, "the result");
  return read_recorded_result(file);
}

Trace trace_of(const RecordedResult& result, const std::string& only) {
  const std::string what =
      result.board.empty() || result.board == "local" ? result.model : result.model + " on " + result.board;
  Trace trace;
  if (only != "kernels")
    trace.processes.push_back(sample_tracks(result.measurement, "samples of " + what, {}));
  const int64_t begin = trace.processes.empty() ? 0 : end_of(trace.processes.back());
  if (only == "samples") return trace;
  trace.processes.push_back(kernel_tracks(result.measurement.last, "kernels of " + what, begin));
  return trace;
}

int trace(const Options& options, const Invocation& invocation) {
  const Output output = output_of(options);
  is_module_file(options.execution.file);  // a user error where it cannot be read
  invocation.outputs->writes(output.file, FileKind::kTrace, options.output.empty() ? "" : "-o",
                             options.force);
  const RecordedResult result = recorded(options, invocation);
  const rpc::BenchmarkResult& last = result.measurement.last;
  if (last.kernels.empty() && options.only == "kernels")
    user_error("{}: its kernels were not timed; measure with --profile", options.execution.file);
  if (last.kernels.empty() && options.only.empty())
    invocation.note("the kernels were not timed: the trace shows samples alone; measure with --profile");
  if (!last.kernels.empty() && !last.timeline && options.only != "samples")
    invocation.note("no run was timed on its threads: kernels are shown by their medians, one after another");
  write_trace(trace_of(result, options.only), output.file, output.format);
  if (!invocation.quiet)
    print_about(*invocation.outputs,
                fmt::format("{}: {}\n", output.file,
                            output.format == TraceFormat::kPerfetto ? "open it at ui.perfetto.dev"
                                                                    : "open it at ui.perfetto.dev or in "
                                                                      "chrome://tracing"));
  return 0;
}

}  // namespace

void add_trace_command(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("trace", "Write a profile as a trace, for ui.perfetto.dev");
  command
      ->add_option(
          "FILE", options->execution.file,
          "A result of `bench --profile --json`; or a model or module, which is profiled first, with "
          "the options of `profile`")
      ->required();
  command
      ->add_option("-o,--output", options->output,
                   "The trace; default: FILE's name with .pftrace, or .trace.json, here")
      ->type_name("FILE");
  command
      ->add_option(
          "--format", options->format,
          "Perfetto's protocol buffers or Chrome's JSON; default by the name of the output: .pftrace "
          "and .perfetto-trace, or .json")
      ->type_name("perfetto|chrome");
  command->add_option("--only", options->only, "The run's kernels alone, or the samples alone")
      ->type_name("kernels|samples")
      ->check(CLI::IsMember({"kernels", "samples"}).description(""));
  add_run_options(*command, options->execution);
  add_measure_options(*command, options->measure);
  command->add_option("--seed", options->seed, "Seed of made-up inputs; default 0")
      ->type_name("N")
      ->check(is_seed());
  add_force_option(*command, options->force);
  command->footer(kExamples);
  command->callback([options, &invocation] {
    invocation.action = [options, &invocation] { return trace(*options, invocation); };
  });
}

}  // namespace gantry::cli
