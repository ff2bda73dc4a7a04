#include <CLI/CLI.hpp>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <tuple>

#include "host/cli/bench_report.h"
#include "host/cli/between.h"
#include "host/cli/commands.h"
#include "host/cli/compare_models.h"
#include "host/cli/compare_report.h"
#include "host/cli/history.h"
#include "host/cli/json_output.h"
#include "host/cli/parse_message.h"
#include "host/cli/quantities.h"
#include "host/cli/refusal.h"
#include "host/cli/text.h"
#include "host/cli/turns/farm_options.h"
#include "host/support/error.h"
#include "host/support/output_file.h"

namespace gantry::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  gantry compare old.gmod new.gmod                   two modules on this machine, in turns
  gantry compare resnet18.onnx resnet50.onnx --on pi   two models on a board
  gantry compare resnet18.onnx --second "--precision bf16"
                                                     one model with two sets of options
  gantry compare old.gmod new.gmod --fail-if-slower 2%
                                                     in CI: exit code 4 where the second is slower by 2 % or more
  gantry compare before.json after.json              two results of bench --json, measured apart
  gantry compare today.json --history series.jsonl   adds it to a series, and finds the changes in that
The ratio is the second's time over the first's, with a 95 % confidence interval. Both run in several processes,
which take turns within each round; the interval counts what differs between processes. "faster" and "slower" are
said only where the interval excludes 1 and the difference is at least --smallest-effect; of two equal programs at
most one comparison in twenty says so. Options apply to both; --first and --second give each its own.)";

constexpr int kExitSlower = 4;

struct Options {
  ExecutionOptions execution;  ///< of both; its file is not used
  std::string first, second;
  std::string first_options, second_options;
  CompareMeasureOptions compare;
  FarmOptions farm;
  std::optional<double> fail_if_slower;
  std::string history, label;
  JsonOutput json;
  bool force = false;
  GivenOptions measuring;  ///< those given that only measuring knows
  uint64_t seed = 0;
};

/// The options of both with one side's on top.
ExecutionOptions side_options(const Options& options, const std::string& file, const std::string& own,
                              const char* option) {
  ExecutionOptions side = options.execution;
  side.file = file;
  side.seed = options.seed;
  if (own.empty()) return side;
  CLI::App app;
  add_run_options(app, side);
  try {
    app.parse(own, false);
  } catch (const CLI::ParseError& error) {
    user_error("{} \"{}\": {}; see `gantry compare --help` for the options that a model is run with", option,
               own, parse_message(app, error));
  }
  return side;
}

std::string side_name(const std::string& file, const std::string& own) {
  return own.empty() ? file : file + " " + own;
}

CompareReport compare_programs(const Options& options, const Invocation& invocation) {
  const std::string& second_file = options.second.empty() ? options.first : options.second;
  const ExecutionOptions first_options =
      side_options(options, options.first, options.first_options, "--first");
  const ExecutionOptions second_options =
      side_options(options, second_file, options.second_options, "--second");
  CompareReport report;
  with_board(options.farm, options.compare.measure.turns, {first_options, second_options}, invocation,
             [&](const std::vector<ExecutionOptions>& sides) {
               CompareMeasureOptions compare = options.compare;
               compare.measure.turns = turns_on_board(options.farm, compare.measure.turns);
               report = compare_models({sides[0], side_name(options.first, options.first_options)},
                                       {sides[1], side_name(second_file, options.second_options)},
                                       compare, invocation);
             });
  return report;
}

/// Adds the newest result to the series and says what has changed in it; `save` writes the series.
HistoryReport keep_history(const Options& options, const ReportSummary& newest, std::function<void()>& save) {
  History history = History::read(options.history, options.force);
  const HistoryEntry entry = history_entry(
      newest, options.label.empty() ? newest.module_digest.substr(0, 12) : options.label, GANTRY_VERSION);
  HistoryReport report;
  report.file = options.history;
  report.series = entry.series;
  if (history.add(entry))
    save = [&options, entry] { History::append(options.history, entry, options.force); };
  const std::vector<SeriesPoint> points = history.series(entry.series);
  report.points = points.size();
  ChangeOptions change_options;
  change_options.smallest_effect = options.compare.statistics.smallest_effect;
  report.changes = find_changes(points, change_options);
  return report;
}

bool is_slower(const Comparison& comparison, double limit) {
  return comparison.verdict == Verdict::kSlower && comparison.ratio >= 1 + limit;
}

int report_and_judge(const Options& options, const CompareReport& report,
                     const std::function<void()>& save_history, const Invocation& invocation) {
  const std::string json = options.json.asked() ? comparison_json(report) : "";
  take_all_steps({
      [&] { options.json.print(*invocation.outputs, json, [&] { return comparison_text(report); }); },
      [&] {
        for (const std::string& warning : report.warnings) invocation.warn(warning);
      },
      [&] { options.json.write(json); },
      save_history,
  });
  if (report.failed.value_or(false)) {
    print_err("gantry: slower than --fail-if-slower allows\n");
    return kExitSlower;
  }
  return 0;
}

void check_arguments(const Options& options, bool results) {
  if (results && options.second.empty() && options.history.empty()) {
    user_error("{}: one result alone: give a second one, or --history FILE to compare it with a series",
               options.first);
  }
  if (results && !options.second.empty() && !looks_like_json(options.second)) {
    user_error("{} is a result and {} is not: give two results, or two models or modules", options.first,
               options.second);
  }
  if (!results && !options.second.empty() && looks_like_json(options.second)) {
    user_error("{} is a result and {} is not: give two results, or two models or modules", options.second,
               options.first);
  }
  if (!results && options.second.empty() && options.first_options.empty() && options.second_options.empty()) {
    user_error(
        "{}: against what? give a second model or module, or --second \"OPTIONS\" for the same with other "
        "options",
        options.first);
  }
  if (results)
    refuse(options.measuring, options.measuring, options.first + " is a result that was measured already");
}

/// What is measured says itself what it reads: prepare_execution.
void plan_files(const Options& options, bool results, OutputPlan& plan) {
  if (results) {
    plan.reads(options.first, "the result");
    plan.reads(options.second, "the result");
  }
  if (!options.history.empty()) plan.writes(options.history, FileKind::kHistory, "--history", options.force);
  options.json.plan(plan, FileKind::kComparison, options.force);
}

int compare(const Options& options, const Invocation& invocation) {
  const bool results = looks_like_json(options.first);
  check_arguments(options, results);
  plan_files(options, results, *invocation.outputs);
  if (!options.history.empty())
    History::read(options.history, options.force);  // what is wrong with it is said before measuring
  CompareReport report;
  ReportSummary newest;
  if (results && options.second.empty()) {
    newest = read_report(options.first);
  } else {
    report = results ? compare_results(options.first, options.second, options.compare.statistics)
                     : compare_programs(options, invocation);
    newest = report.second;
  }
  report.smallest_effect = options.compare.statistics.smallest_effect;
  std::function<void()> save_history = [] {};
  if (!options.history.empty()) report.history = keep_history(options, newest, save_history);
  if (options.fail_if_slower) {
    report.failed = report.compared ? is_slower(report.comparison, *options.fail_if_slower)
                                    : !report.history->changes.empty() &&
                                          report.history->changes.back().ratio >= 1 + *options.fail_if_slower;
  }
  return report_and_judge(options, report, save_history, invocation);
}

/// Those on the command line that results have no use for.
GivenOptions measuring_options(const CLI::App& command, const std::vector<std::string>& of_results) {
  GivenOptions given = given_options(command);
  std::erase_if(given, [&](const std::string& option) { return is_given(of_results, option); });
  return given;
}

}  // namespace

void add_compare_command(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "compare", "Which of two models, modules, sets of options or results is faster, and how sure that is");
  command->add_option("A", options->first, "A model (.onnx or .gir), a module (.gmod) or a result of bench --json")
      ->required();
  command->add_option("B", options->second, "The second; a model with --first or --second needs none");
  command->add_option("--first", options->first_options, "Options of the first alone")
      ->type_name("\"OPTIONS\"");
  command->add_option("--second", options->second_options, "Options of the second alone")
      ->type_name("\"OPTIONS\"");
  add_run_options(*command, options->execution);
  add_duration(*command, "--duration", options->compare.duration_s, "Time to measure at most, but for three rounds, which are played in any case; default 30s");
  command
      ->add_option("--rounds", options->compare.rounds,
                   "Exactly so many rounds of a process each; default: until the interval is narrow")
      ->type_name("N")
      ->check(between(3u, 1000u));
  command
      ->add_option("--warmup", options->compare.measure.warmup,
                   "Exactly so many runs before each process's first sample; default: until steady")
      ->type_name("N")
      ->check(between(0u, 1000000u));
  command->add_flag("--cold,--flush-cache", options->compare.measure.cold,
                    "Empty the caches of every core before every run");
  add_turn_options(*command, options->compare.measure.turns);
  add_farm_options(*command, options->farm);
  command->add_option("--seed", options->seed, "Seed of made-up inputs; default 0")
      ->type_name("N")
      ->check(is_seed());
  add_share(*command, "--smallest-effect", options->compare.statistics.smallest_effect,
            "The smallest difference worth claiming; default 1%");
  add_limit(*command, "--fail-if-slower", options->fail_if_slower,
            "Exit code 4 where the second is shown to be slower, by at least this much");
  CLI::Option* history = command
                             ->add_option("--history", options->history,
                                          "Keep a series of results in this file and find its changes")
                             ->type_name("FILE");
  command
      ->add_option("--label", options->label, "What the result is called in --history; default: its digest")
      ->type_name("NAME")
      ->needs(history);
  add_json_option(*command, options->json, "comparison");
  add_force_option(*command, options->force);
  command->footer(kExamples);
  command->callback([options, command, &invocation] {
    options->measuring = measuring_options(
        *command, {"--smallest-effect", "--fail-if-slower", "--history", "--label", "--json", "--force"});
    options->compare.seed = std::random_device()();
    invocation.action = [options, &invocation] { return compare(*options, invocation); };
  });
}

}  // namespace gantry::cli
