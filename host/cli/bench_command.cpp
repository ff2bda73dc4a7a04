#include <CLI/CLI.hpp>
#include <algorithm>

#include "host/cli/bench_model.h"
#include "host/cli/bench_report.h"
#include "host/cli/between.h"
#include "host/cli/command_traces.h"
#include "host/cli/commands.h"
#include "host/cli/execution.h"
#include "host/cli/json_output.h"
#include "host/cli/measure_options.h"
#include "host/cli/refusal.h"
#include "host/cli/text.h"
#include "host/cli/trace_file.h"
#include "host/cli/turns/farm_options.h"
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
  gantry profile resnet18.onnx --trace run.pftrace          the kernels over time, for ui.perfetto.dev
  gantry profile resnet18.onnx --by type                    sums: convolutions, poolings, …
  gantry bench bert.onnx --shape input_ids=1x128 --cooldown-ms 50 --cold
  gantry compare old.gmod new.gmod                          is one faster? measured in turns
Each process loads the module, runs it once, warms up until steady, and is sampled for half a second, longer where
others disturb it; processes follow until the median's 95 % interval is as narrow as --precision-goal, or --duration
is over.
Inputs without --input hold made-up data: normal floats, integers 0 or 1, in sizes that suit the model.
docs/bench-schema.md describes the JSON document.)";

struct Options {
  ExecutionOptions execution;
  MeasureOptions measure;
  FarmOptions farm;
  KernelTableOptions table;
  std::string by = "step";
  JsonOutput json;
  std::string trace;
  bool force = false;
  uint64_t seed = 0;
};

int bench(const Options& options, const Invocation& invocation) {
  if (options.json.to_stdout())
    refuse(options.execution.given, {"--top", "--by"},
           "--json on stdout takes the place of the table and has every step");
  options.json.plan(*invocation.outputs, FileKind::kResult, options.force);
  ExecutionOptions choice = options.execution;
  choice.seed = options.seed;
  choice.keep_program = options.measure.profile && options.json.asked();
  BenchReport report;
  with_board(options.farm, options.measure.turns, {choice}, invocation,
             [&](const std::vector<ExecutionOptions>& choices) {
               MeasureOptions measure = options.measure;
               measure.turns = turns_on_board(options.farm, measure.turns);
               report = bench_model(choices.front(), measure, invocation);
             });
  KernelTableOptions table = options.table;
  table.by = *find_profile_rows(options.by);
  table.width = terminal_width();
  const std::string json = options.json.asked() ? report_to_json(report) : "";
  take_all_steps({
      [&] { options.json.print(*invocation.outputs, json, [&] { return report_text(report, table); }); },
      [&] {
        for (const std::string& warning : report.warnings) invocation.warn(warning);
      },
      [&] { options.json.write(json); },
      [&] {
        if (!options.trace.empty())
          write_trace(bench_trace(report, invocation), options.trace,
                      expect_trace_format(options.trace, "--trace"));
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
  add_farm_options(*command, options->farm);
  CLI::Option* asks =
      profile ? nullptr : command->add_flag("--profile", options->measure.profile, "Also time every kernel");
  add_table_options(*command, *options, asks);
  command->add_option("--seed", options->seed, "Seed of made-up inputs; default 0")
      ->type_name("N")
      ->check(is_seed());
  add_json_option(*command, options->json, "result");
  add_trace_option(*command, options->trace,
                   "what gantry does, the samples, and the kernels where they are timed,");
  add_force_option(*command, options->force);
  command->footer(kExamples);
  command->callback([options, &invocation] {
    invocation.action = [options, &invocation] {
      begin_trace(options->trace, options->force, invocation);
      return bench(*options, invocation);
    };
  });
}

}  // namespace

void add_bench_commands(CLI::App& app, Invocation& invocation) {
  add_bench(app, invocation, "bench", "Time a model or module", false);
  add_bench(app, invocation, "profile", "Time every kernel: bench --profile", true);
}

}  // namespace gantry::cli
