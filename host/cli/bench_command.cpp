#include <CLI/CLI.hpp>
#include <algorithm>

#include "host/cli/bench_report.h"
#include "host/cli/bench_run.h"
#include "host/cli/between.h"
#include "host/cli/commands.h"
#include "host/cli/execution.h"
#include "host/cli/measure_options.h"
#include "host/cli/report_of.h"
#include "host/cli/text.h"
#include "host/support/error.h"
#include "host/support/output_file.h"

namespace gantry::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  gantry bench resnet18.onnx                                this machine
  gantry bench resnet18.onnx --on pi --threads 4            a board, compiled for exactly it
  gantry bench resnet18.gmod --precision-goal 0.5% --duration 60s --json today.json
  gantry bench resnet18.onnx --streams 4                    throughput: four sessions at once
  gantry bench resnet18.onnx --profile                      what every kernel costs, worst first
  gantry profile resnet18.onnx --top 10                     the ten worst, all others in one row
  gantry profile resnet18.onnx --by type                    sums: convolutions, poolings, …
  gantry bench bert.onnx --shape input_ids=1x128 --cooldown-ms 50 --cold
  gantry compare old.gmod new.gmod                          is one faster? measured in turns
Each process loads the module, runs it once, warms up until steady, and is sampled for up to a second; processes
follow until the median's 95 % interval is as narrow as --precision-goal, or --duration is over.
Inputs without --input hold made-up data: normal floats, integers 0 or 1, in sizes that suit the model.
docs/bench-schema.md describes the JSON document.)";

struct Options {
  ExecutionOptions execution;
  MeasureOptions measure;
  KernelTableOptions table;
  std::string by = "step";
  std::string json_file;
  bool json = false;
  bool force = false;
  uint64_t seed = 0;
};

int bench(const Options& options, const Invocation& invocation) {
  const bool to_stdout = options.json && (options.json_file.empty() || options.json_file == "-");
  const bool to_file = options.json && !to_stdout;
  if (to_file) invocation.outputs->writes(options.json_file, FileKind::kResult, "--json", options.force);
  ExecutionOptions choice = options.execution;
  choice.seed = options.seed;
  Execution execution = prepare_execution(choice, invocation);
  FormerPulses former = former_pulses(choice);
  BenchReport report = report_of(choice, options.measure, execution, invocation);
  {
    Progress progress(invocation.verbosity());
    const std::string where = " on " + execution.machine->label();
    report.measurement = measure(
        execution, options.measure, [&](Execution& next) { restart(next, choice); },
        [&](const std::string& what, double share) { progress.update(what + where, share); }, former);
  }
  report.warnings = measurement_warnings(report.measurement, options.measure);
  if (options.measure.profile && options.json) report.program = program_of(choice, execution);
  KernelTableOptions table = options.table;
  table.by = *find_profile_rows(options.by);
  table.width = terminal_width();
  take_all_steps({
      [&] { print_out(to_stdout ? report_to_json(report) : report_text(report, table)); },
      [&] {
        for (const std::string& warning : report.warnings) invocation.warn(warning);
      },
      [&] {
        if (to_file) write_file(options.json_file, report_to_json(report));
      },
  });
  return 0;
}

/// `asks`: the option without which there is no table of kernels; null where there always is one.
void add_table_options(CLI::App& command, Options& options, CLI::Option* asks) {
  CLI::Option* top =
      command.add_option("--top", options.table.top, "The N worst rows of the kernels, the others in one")
          ->type_name("N")
          ->check(between(1, 1000000));
  const auto check = [](const std::string& word) {
    return find_profile_rows(word) ? "" : fmt::format("'{}' is not step, kernel, type or node", word);
  };
  CLI::Option* by =
      command
          .add_option("--by", options.by,
                      "A row for each step of the plan (default), or sums by kernel, type of op, ONNX nodes")
          ->type_name("step|kernel|type|node")
          ->check(CLI::Validator(check, ""));
  if (asks == nullptr) return;
  top->needs(asks);
  by->needs(asks);
}

void add_bench(CLI::App& app, Invocation& invocation, const char* name, const char* description,
               bool profile) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(name, description);
  options->measure.profile = profile;
  add_execution_options(*command, options->execution);
  add_measure_options(*command, options->measure);
  CLI::Option* asks =
      profile ? nullptr : command->add_flag("--profile", options->measure.profile, "Also time every kernel");
  add_table_options(*command, *options, asks);
  command->add_option("--seed", options->seed, "Seed of made-up inputs; default 0")->type_name("N");
  CLI::Option* json =
      command
          ->add_option("--json", options->json_file,
                       "Write the result as JSON; without FILE or with '-': to stdout, instead of the table")
          ->type_name("[FILE]")
          ->expected(0, 1);
  add_force_option(*command, options->force);
  command->footer(kExamples);
  command->callback([options, json, &invocation] {
    options->json = json->count() > 0;
    invocation.action = [options, &invocation] { return bench(*options, invocation); };
  });
}

}  // namespace

void add_bench_commands(CLI::App& app, Invocation& invocation) {
  add_bench(app, invocation, "bench", "Time a model or module", false);
  add_bench(app, invocation, "profile", "Time every kernel: bench --profile", true);
}

}  // namespace gantry::cli
