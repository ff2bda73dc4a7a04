// `gantry records`: looks into records of tuning, carries them from one store to another, removes them.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>

#include "host/cli/between.h"
#include "host/cli/commands.h"
#include "host/cli/model_options.h"
#include "host/cli/quantities.h"
#include "host/cli/records_actions.h"
#include "host/cli/records_prior.h"

namespace gantry::cli {
namespace {

CLI::Validator is_record_id() {
  return between(int64_t{1}, std::numeric_limits<int64_t>::max());
}

void add_place(CLI::App& command, RecordsOptions& options) {
  command.add_option("RECORDS", options.place, "A file, or postgresql://USER@HOST/DATABASE")->required();
}

void add_filter_options(CLI::App& command, RecordsOptions& options) {
  records::Filter& filter = options.filter;
  command.add_option("--id", options.ids, "The record of this number; again for several")
      ->type_name("ID")
      ->check(is_record_id())
      ->allow_extra_args(false);
  command.add_option("--work", filter.work, "Of nodes that do this work, by the first digits of its digest")
      ->type_name("DIGEST");
  command.add_option("--op", filter.op, "Of this op")->type_name("OP");
  command.add_option("--target", filter.target, "Of this target")->type_name("TARGET");
  command.add_option("--machine", filter.machine, "Of this processor, as it calls itself")->type_name("NAME");
  command.add_option("--threads", filter.threads, "Of so many threads")
      ->type_name("N")
      ->check(between(1, 1024));
  command.add_option("--precision", filter.precision, "Of this precision")->type_name("PRECISION");
  command.add_option("--outcome", options.outcome, "Of what became so")
      ->type_name("measured|wrong|crashed|timed-out|misfit|build-failed")
      ->check(CLI::IsMember({"measured", "wrong", "crashed", "timed-out", "misfit", "build-failed"})
                  .description(""));
  command.add_option("--since", options.since, "From this day, or second, on")->type_name("DATE");
  command.add_option("--before", options.before, "From before this day or second")->type_name("DATE");
  CLI::Option* own =
      command.add_flag("--this-generator", options.this_generator, "Of this version of the generator");
  command
      .add_flag("--other-generators", options.other_generators,
                "Of other versions of it, which this one does not use")
      ->excludes(own);
  command.add_flag("--confirmed", filter.confirmations,
                   "Last comparisons with what the compiler takes by itself, no trials");
}

void add_best(CLI::App& command, RecordsOptions& options) {
  command.add_flag("--best", options.best, "Those alone that decide, of each work and setting");
}

void add_json(CLI::App& command, RecordsOptions& options) {
  command.add_flag("--json", options.json, "Report as JSON on stdout");
}

using Action = int (*)(const RecordsOptions&, const Invocation&);

/// A subcommand of that action.
CLI::App* add_action(CLI::App& parent, Invocation& invocation, const std::string& name,
                     const std::string& says, const std::shared_ptr<RecordsOptions>& options, Action action) {
  CLI::App* command = parent.add_subcommand(name, says);
  add_place(*command, *options);
  command->callback([options, action, &invocation] {
    invocation.action = [=, &invocation] { return action(*options, invocation); };
  });
  return command;
}

void add_list(CLI::App& records, Invocation& invocation) {
  auto options = std::make_shared<RecordsOptions>();
  CLI::App* command =
      add_action(records, invocation, "list", "List records, one a line", options, list_records);
  add_filter_options(*command, *options);
  add_best(*command, *options);
  add_json(*command, *options);
  command->footer(
      "Examples:\n  gantry records list lab.db\n  gantry records list lab.db --op nn.conv --confirmed");
}

void add_show(CLI::App& records, Invocation& invocation) {
  auto options = std::make_shared<RecordsOptions>();
  CLI::App* command =
      add_action(records, invocation, "show", "Show all that records say", options, show_records);
  command->add_option("ID", options->ids, "Their numbers, as `gantry records list` has them")
      ->required()
      ->type_name("N")
      ->check(is_record_id());
  add_json(*command, *options);
  command->footer("Example:\n  gantry records show lab.db 1");
}

void add_export(CLI::App& records, Invocation& invocation) {
  auto options = std::make_shared<RecordsOptions>();
  CLI::App* command =
      add_action(records, invocation, "export", "Write records as JSON Lines", options, export_records);
  command->add_option("-o,--output", options->output, "Where to; default, and -: stdout")
      ->type_name("OUT.jsonl");
  add_filter_options(*command, *options);
  add_best(*command, *options);
  add_force_option(*command, options->force);
  command->footer("Example:\n  gantry records export lab.db --confirmed -o lab.jsonl");
}

void add_import(CLI::App& records, Invocation& invocation) {
  auto options = std::make_shared<RecordsOptions>();
  CLI::App* command = add_action(records, invocation, "import",
                                 "Add records that `export` wrote; those that are there already, once",
                                 options, import_records);
  command->add_option("FILE", options->file, "What `gantry records export` wrote; - is stdin")->required();
  add_json(*command, *options);
  command->footer(
      "Example:\n  gantry records import lab.db other.jsonl\nLines that are wrong are left out, and said. "
      "A record only "
      "decides where its key fits, wherever it\ncomes from.");
}

void add_prune(CLI::App& records, Invocation& invocation) {
  auto options = std::make_shared<RecordsOptions>();
  CLI::App* command = add_action(records, invocation, "prune", "Remove records", options, prune_records);
  add_filter_options(*command, *options);
  command->add_flag("--dry-run", options->dry_run, "Say how many it would be, and remove none");
  add_json(*command, *options);
  command->footer(
      "Examples:\n  gantry records prune lab.db --other-generators\n"
      "  gantry records prune lab.db --id 17\n  gantry records prune lab.db --before 2026-01-01 --dry-run");
}

void add_verify(CLI::App& records, Invocation& invocation) {
  auto options = std::make_shared<RecordsOptions>();
  CLI::App* command = add_action(records, invocation, "verify", "Measure again what decides, and record that",
                                 options, verify_records);
  add_filter_options(*command, *options);
  command
      ->add_option("--on", options->verify.board,
                   "Board: a name from `gantry boards`, or HOST:PORT; else this machine")
      ->type_name("BOARD");
  command->add_option("--key", options->verify.key, "Key file of the board (see `gantry keygen`)")
      ->type_name("FILE");
  add_duration(*command, "--duration", options->verify.duration_s,
               "Time to measure each at most; default 10s");
  add_turn_options(*command, options->verify.turns);
  command
      ->add_option(
          "--model", options->verify.model,
          "The model that records of a whole network are of (see `gantry records list`); without it these "
          "are not measured")
      ->type_name("MODEL");
  add_shape_options(*command, options->verify.shapes, options->verify.sizes);
  add_keep_input_option(*command, options->verify.kept_inputs);
  add_custom_ops_option(*command, options->verify.custom_ops);
  for (const char* option : {"--shape", "--dim", "--keep-input", "--custom-ops"})
    command->get_option(option)->needs("--model");
  add_json(*command, *options);
  command->footer(
      "Examples:\n  gantry records verify lab.db\n  gantry records verify lab.db --other-generators --on "
      "pi\n  gantry records verify lab.db --op network --model resnet18.onnx\n"
      "What an older version of the generator measured is recorded for this one, and so used again where "
      "it is still "
      "faster.");
}

void add_train_prior(CLI::App& records, Invocation& invocation) {
  auto options = std::make_shared<RecordsOptions>();
  CLI::App* command =
      add_action(records, invocation, "train-prior",
                 "Make of records what a cost model knows of a family of CPUs before the first trial",
                 options, train_prior);
  command->add_option("-o,--output", options->output, "Where to: FAMILY.json, as `gantry tune` looks for it")
      ->type_name("FAMILY.json")
      ->required();
  command
      ->add_option("--family", options->family,
                   "Records of this family alone: a CPU as LLVM calls it (znver4), or an architecture "
                   "(x86_64); default: "
                   "the one that they are of")
      ->type_name("FAMILY");
  command->add_option("--from", options->from, "Keep what this one has, too, as far as there is room")
      ->type_name("PRIOR");
  command
      ->add_option("--examples", options->examples,
                   "At most so many trials, those of the newest works; default 1000")
      ->type_name("N")
      ->check(between(size_t{2}, size_t{20000}));
  add_json(*command, *options);
  add_force_option(*command, options->force);
  command->footer(
      "Examples:\n  gantry records train-prior lab.db -o znver4.json\n"
      "  gantry records train-prior lab.db --from znver4.json -o znver4.json");
}

}  // namespace

void add_records_command(CLI::App& app, Invocation& invocation) {
  CLI::App* command =
      app.add_subcommand("records", "Look into records of tuning, export, import and remove them");
  command->require_subcommand(1);
  command->footer(
      "Examples:\n"
      "  gantry records list lab.db --best        what decides, of every work and setting\n"
      "  gantry records export lab.db -o lab.jsonl\n"
      "  gantry records import postgresql://lab@db/tuning lab.jsonl\n"
      "  gantry compile resnet18.onnx --records lab.db");
  add_list(*command, invocation);
  add_show(*command, invocation);
  add_export(*command, invocation);
  add_import(*command, invocation);
  add_prune(*command, invocation);
  add_verify(*command, invocation);
  add_train_prior(*command, invocation);
}

}  // namespace gantry::cli
