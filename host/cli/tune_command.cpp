#include <CLI/CLI.hpp>
#include <utility>

#include "host/cli/between.h"
#include "host/cli/commands.h"
#include "host/cli/json_output.h"
#include "host/cli/quantities.h"
#include "host/cli/terminal.h"
#include "host/cli/tune_model.h"
#include "host/support/error.h"
#include "host/support/output_file.h"

namespace gantry::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  gantry tune resnet18.onnx -o resnet18.gmod                     five minutes on this machine
  gantry tune resnet18.onnx --on pi --time 20min --records lab.db -o resnet18.gmod
  gantry tune resnet18.onnx --records lab.db --resume            goes on where an earlier one ended
  gantry tune resnet18.onnx --trials 100 --decisions-out resnet18.decisions
  gantry tune resnet18.onnx --farm slurm --board pi5:4 --records lab.db -o resnet18.gmod
                                                                 four boards of a lab's, as they get free
  gantry tune resnet18.onnx --farm slurm --board pi5:8 --compile-hosts 4 -o resnet18.gmod
                                                                 programs are built by four other machines, too
  gantry tune resnet18.onnx --on qemu --metric instructions -o resnet18.gmod   on an emulated board
Candidates are measured in the network, in turns with the best so far, and accepted only where the 95 % interval of
the difference excludes a loss; at the end the whole network is compared in the same way, so that a tuned module is
never slower than the untuned one. Ctrl-C at any moment loses nothing that stands in --records.)";

constexpr double kDefaultSeconds = 300;
/// Of a farm, that one tuner has work for.
constexpr size_t kMostBoards = 64;

struct Options {
  TuneModelOptions tune;
  size_t equal = 0;  ///< decisions about equal candidates, in the place of tuning; 0: it tunes
  std::string output, decisions_out, metric;
  JsonOutput json;
  bool force = false;
};

void plan_files(const Options& options, OutputPlan& plan) {
  if (!options.output.empty()) plan.writes(options.output, FileKind::kModule, "-o", options.force);
  if (!options.decisions_out.empty())
    plan.writes(options.decisions_out, FileKind::kDecisions, "--decisions-out", options.force);
  options.json.plan(plan, FileKind::kTuning, options.force);
}

std::string_view text_of(const runtime::SharedBytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.bytes.data()), bytes.bytes.size()};
}

void refuse_what_is_of_tuning(const CLI::App& command) {
  for (const char* option : {"--output", "--decisions-out", "--time", "--trials", "--records", "--resume",
                             "--prior", "--json", "--compile-hosts"})
    if (command.count(option) > 0) user_error("--check-decisions tunes nothing; leave {} out", option);
}

/// How often the tuner errs on that machine.
int check(const Options& options, const Invocation& invocation) {
  const tune::EqualCandidates found = check_decisions(options.tune, options.equal, invocation);
  const auto share = [](size_t part, size_t all) {
    return 100.0 * static_cast<double>(part) / static_cast<double>(all);
  };
  print_out(fmt::format(
      "candidates equal to the best: {} of {} accepted ({:.1f} %; intervals of 95 % accept 2.5 %)\n"
      "the whole network with itself: {} of {} accepted ({:.1f} %)\n",
      found.accepted, found.decisions, share(found.accepted, found.decisions), found.networks_accepted,
      found.networks, share(found.networks_accepted, found.networks)));
  return 0;
}

int tune(const Options& options, const Invocation& invocation) {
  plan_files(options, *invocation.outputs);
  if (options.tune.tune.resume && options.tune.records.empty())
    user_error("--resume goes on with what stands in records; give --records DB too");
  if (options.tune.metric != tune::Metric::kTime && !options.tune.records.empty())
    user_error("--records keeps times, and --metric {} measures none; leave one of the two out",
               options.metric);
  if (options.tune.metric != tune::Metric::kTime && !options.tune.prior.empty() &&
      options.tune.prior != kNoPrior)
    user_error("--prior is of times, and --metric {} measures none; leave one of the two out",
               options.metric);
  if (options.tune.farm.compile_hosts > 0 && !options.tune.execution.custom_ops.empty())
    user_error(
        "--compile-hosts: the code of --custom-ops is on this machine alone; leave one of the two out");
  const TunedModel tuned = tune_model(options.tune, invocation);
  const std::string json = options.json.asked() ? tuning_json(tuned.report) : "";
  take_all_steps({
      [&] {
        options.json.print(*invocation.outputs, json,
                           [&] { return tuning_text(tuned.report, terminal_width()); });
      },
      [&] {
        if (!options.output.empty()) write_file(options.output, text_of(tuned.module));
      },
      [&] {
        if (!options.decisions_out.empty()) write_file(options.decisions_out, tuned.decisions);
      },
      [&] { options.json.write(json); },
      [&] {
        if (tuned.unwritten) throw Error(*tuned.unwritten);
      },
  });
  return 0;
}

}  // namespace

void add_tune_command(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<Options>();
  options->tune.tune.seconds = kDefaultSeconds;
  CLI::App* command = app.add_subcommand("tune", "Try on a machine by which decisions a model is faster");
  add_execution_options(*command, options->tune.execution);
  command->get_option("MODEL")->description("A model (.onnx) or graph text (.gir)");
  command->add_option("-o,--output", options->output, "The tuned module")->type_name("OUT.gmod");
  command
      ->add_option("--decisions-out", options->decisions_out, "The decisions of all nodes, for --decisions")
      ->type_name("FILE");
  add_turn_options(*command, options->tune.turns);
  add_farm_options(*command, options->tune.farm, kMostBoards);
  add_compile_host_options(*command, options->tune.farm);
  command
      ->add_option("--check-decisions", options->equal,
                   "Tune nothing: make so many decisions about candidates that are equal to the best, and "
                   "say how many were accepted")
      ->type_name("N")
      ->check(between(1u, 1000000u));
  add_duration(*command, "--time", options->tune.tune.seconds,
               "When to be done, the final comparison included; waiting for a farm's boards does not count; "
               "default 5min");
  command
      ->add_option("--trials", options->tune.tune.trials,
                   "At most so many candidates; default: as there is time")
      ->type_name("N")
      ->check(between(1u, 1000000u));
  command
      ->add_option(
          "--metric", options->metric,
          "What is made less: the time, or the instructions that are executed, where time says nothing (an "
          "emulated board); default time")
      ->type_name("time|instructions")
      ->check(CLI::IsMember({"time", "instructions"}).description(""));
  command->get_option("--records")
      ->description("Keep every trial there: a file, or postgresql://USER@HOST/DATABASE");
  command->add_flag("--resume", options->tune.tune.resume,
                    "Begin with what stands in --records; nothing is tried twice");
  command
      ->add_option("--prior", options->tune.prior,
                   "What the cost model begins with, a file of `gantry records train-prior`, or none; "
                   "default: the one that "
                   "there is for the CPU's family")
      ->type_name("FILE|none");
  command
      ->add_option("--tolerance", options->tune.tolerance,
                   "Largest difference from the untuned results by their largest value; default 1e-5, more "
                   "where operands are "
                   "rounded")
      ->type_name("SHARE")
      ->check(between(0.0, 1.0));
  command
      ->add_option("--seed", options->tune.tune.seed, "Seed of made-up inputs, and of the search; default 0")
      ->type_name("N")
      ->check(is_seed());
  add_json_option(*command, options->json, "result");
  add_force_option(*command, options->force);
  command->footer(kExamples);
  command->callback([options, command, &invocation] {
    if (options->equal > 0) refuse_what_is_of_tuning(*command);
    options->tune.execution.seed = options->tune.tune.seed;
    // It is of the search where no data are made up.
    std::erase(options->tune.execution.given, "--seed");
    options->tune.metric = tune::find_metric(options->metric).value_or(tune::Metric::kTime);
    // What is compared with is what the compiler takes without them.
    options->tune.records = std::exchange(options->tune.execution.records, {});
    invocation.action = [options, &invocation] {
      return options->equal > 0 ? check(*options, invocation) : tune(*options, invocation);
    };
  });
}

}  // namespace gantry::cli
