#include <CLI/CLI.hpp>
#include <algorithm>
#include <ctime>

#include "host/cli/bench_report.h"
#include "host/cli/between.h"
#include "host/cli/commands.h"
#include "host/cli/execution.h"
#include "host/cli/text.h"
#include "host/support/error.h"
#include "host/support/output_file.h"

namespace gantry::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  gantry bench resnet18.onnx                                this machine
  gantry bench resnet18.onnx --on pi --threads 4            a board, compiled for exactly it
  gantry bench resnet18.gmod --repeat 100 --json today.json
  gantry compare yesterday.json today.json
  gantry bench resnet18.onnx --profile                      what every kernel costs, worst first
  gantry bench bert.onnx --shape input_ids=1x128 --cooldown-ms 50 --flush-cache
Inputs without --input hold made-up data: normal floats, integers 0 or 1.
docs/bench-schema.md describes the JSON document.)";

struct Options {
  ExecutionOptions execution;
  rpc::BenchmarkOptions benchmark;
  std::string json_file;
  bool json = false;
  uint64_t seed = 0;
};

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

/// `--json MODEL` takes the model for the result's file: better said than done.
void check_json_file(const Options& options) {
  const std::filesystem::path path = options.json_file;
  if (path.extension() == ".onnx" || path.extension() == ".gmod") {
    user_error(
        "--json {}: would overwrite a model with the result; write `--json RESULT.json`, or `--json -` for "
        "stdout",
        options.json_file);
  }
}

BenchReport make_report(const Options& options, const Execution& execution, const Invocation& invocation) {
  BenchReport report;
  report.gantry_version = GANTRY_VERSION;
  report.date = utc_now();
  report.command = invocation.arguments;
  report.model = options.execution.file;
  report.module_digest = execution.module.digest;
  report.module_bytes = execution.module.bytes.bytes.size();
  report.board = options.execution.board.empty() ? "local" : options.execution.board;
  report.address = execution.machine->address();
  report.device = options.execution.device;
  report.opt_level = execution.module.opt_level;
  for (size_t i = 0; i < execution.inputs.size(); ++i) {
    const GivenInput& input = execution.inputs[i];
    report.inputs.push_back(
        {execution.loaded.inputs[i].name, input.tensor.type, input.tensor.shape, input.source});
  }
  report.options = options.benchmark;
  return report;
}

/// Says so where a made-up input has symbolic dimensions that nobody gave: they are 1, seldom what was meant.
void warn_of_ones(const Execution& execution, const Options& options, const Invocation& invocation) {
  const auto shapes = parse_shapes(options.execution.shapes);
  for (size_t i = 0; i < execution.inputs.size(); ++i) {
    const rpc::TensorDescription& wanted = execution.loaded.inputs[i];
    const bool symbolic = std::ranges::any_of(wanted.shape, [](int64_t dim) { return dim < 0; });
    const bool made_up = execution.inputs[i].source.starts_with("random, ");
    if (!symbolic || !made_up || shapes.contains(wanted.name)) continue;
    invocation.warn(fmt::format(
        "input '{}': its symbolic dimensions are 1, as in {}; --shape {}={} gives others", wanted.name,
        shape_text(execution.inputs[i].tensor.shape), wanted.name, shape_text(wanted.shape)));
  }
}

int bench(const Options& options, const Invocation& invocation) {
  if (options.json) check_json_file(options);
  ExecutionOptions choice = options.execution;
  choice.seed = options.seed;
  Execution execution = prepare_execution(choice, invocation);
  warn_of_ones(execution, options, invocation);
  BenchReport report = make_report(options, execution, invocation);
  {
    Progress progress(invocation.verbosity());
    const std::string what = "timing on " + execution.machine->label();
    report.result = execution.machine->benchmark(options.benchmark, [&](uint32_t done, uint32_t total) {
      progress.update(what, total == 0 ? -1 : static_cast<double>(done) / total);
    });
  }
  report.warnings = noise_warnings(report.result);
  const bool to_stdout = options.json && (options.json_file.empty() || options.json_file == "-");
  if (to_stdout) {
    print_out(report_to_json(report));
  } else {
    if (options.json) write_file(options.json_file, report_to_json(report));
    print_out(report_text(report, terminal_width()));
  }
  for (const std::string& warning : report.warnings) invocation.warn(warning);
  return 0;
}

void add_bench(CLI::App& app, Invocation& invocation, const char* name, const char* description,
               bool profile) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(name, description);
  rpc::BenchmarkOptions& b = options->benchmark;
  b.profile = profile;
  add_execution_options(*command, options->execution);
  constexpr int kMost = 1000000;
  constexpr double kLongestMs = 3.6e6;
  command->add_option("--warmup", b.warmup, "Runs before the first sample; default 3")
      ->type_name("N")
      ->check(between(0, kMost));
  command->add_option("--number", b.number, "Runs a sample; default 1")
      ->type_name("N")
      ->check(between(1, kMost));
  command->add_option("--repeat", b.repeat, "Samples; default 20")->type_name("N")->check(between(1, kMost));
  command->add_option("--min-repeat-ms", b.min_repeat_ms, "More runs a sample until it takes this long")
      ->type_name("MS")
      ->check(between(0.0, kLongestMs));
  command->add_option("--cooldown-ms", b.cooldown_ms, "Pause before every sample")
      ->type_name("MS")
      ->check(between(0.0, kLongestMs));
  command->add_flag("--flush-cache", b.flush_cache, "Empty the data caches before every sample");
  if (!profile) command->add_flag("--profile", b.profile, "Also time every kernel");
  command->add_option("--seed", options->seed, "Seed of made-up inputs; default 0")->type_name("N");
  CLI::Option* json =
      command
          ->add_option("--json", options->json_file,
                       "Write the result as JSON; without FILE or with '-': to stdout, instead of the table")
          ->type_name("[FILE]")
          ->expected(0, 1);
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
