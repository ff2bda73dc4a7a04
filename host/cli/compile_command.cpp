#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "host/cli/between.h"
#include "host/cli/commands.h"
#include "host/cli/execution.h"
#include "host/cli/inputs.h"
#include "host/cli/json_values.h"
#include "host/cli/model_options.h"
#include "host/cli/model_source.h"
#include "host/cli/records_use.h"
#include "host/cli/text.h"
#include "host/cli/trace_file.h"
#include "host/machine/target.h"
#include "host/support/error.h"
#include "host/support/output_file.h"

namespace gantry::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  gantry compile resnet18.onnx                       resnet18.gmod for this machine
  gantry compile resnet18.onnx --target aarch64 -o pi.gmod
  gantry compile resnet18.onnx --on pi -o pi.gmod    for the processor that a board has
  gantry compile resnet18.onnx -t x86-64-v3 -t aarch64
                                                     one file for several machines; each picks its best
  gantry compile resnet18.onnx -t cuda -t x86-64-v3  for GPUs, and for machines without one
  gantry compile resnet18.onnx --target cuda --precision tf32
  gantry compile vgg16.onnx --optimize size          weights no larger than the model's
  gantry compile bert.onnx --shape input_ids=1x128   fixes symbolic dimensions
  gantry compile bert.onnx --dim batch=1             fixes one of them, by its name
  gantry compile bert.onnx --dim sequence=1..512 --specialize sequence=1
                                                     any length to 512; one as fast as if it were fixed
  gantry compile old.onnx --keep-input input         an input that has a default in the model stays an input
  gantry compile resnet18.gir                        graph text of `gantry ir` or `gantry opt`, changed by hand
  gantry compile spectrum.onnx --custom-ops ops      with ops of your own: see docs/custom-ops.md
  gantry compile resnet18.onnx --trace compile.pftrace
                                                     what the compiler does when; for ui.perfetto.dev
`gantry targets` lists the targets.)";

struct Options {
  std::string model, output;
  std::string board, key;
  std::vector<std::string> targets, shapes, sizes, specializations, custom_ops, kept_inputs;
  std::string precision = "auto", optimize = "speed", decisions, records;
  std::string trace;
  int opt_level = 3, record_threads = 0;
  bool verify = false;
  bool no_cache = false;
  bool json = false;
  bool force = false;
};

/// Those that are named, and the board's processor, which is asked for it.
std::vector<Target> targets_of(const Options& options) {
  if (options.board.empty()) {
    if (!options.key.empty()) user_error("--key is for the board of --on; give that too");
    return find_targets(options.targets);
  }
  std::vector<Target> targets;
  if (!options.targets.empty()) targets = find_targets(options.targets);
  Target of_board = target_of_device({}, open_machine(options.board, options.key)->info());
  const bool is_named =
      std::ranges::any_of(targets, [&](const Target& target) { return target.name == of_board.name; });
  if (!is_named) targets.push_back(std::move(of_board));
  return targets;
}

std::filesystem::path output_path(const Options& options) {
  if (!options.output.empty()) return options.output;
  return std::filesystem::path(options.model).filename().replace_extension(".gmod");
}

/// Constants of all variants; those that several share are stored, and count, once.
uint64_t weights_bytes(const ModuleFile& module) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < module.segments.size(); ++i) {
    if (module.segment_kinds[i] != module_format::SegmentKind::Weights) continue;
    for (const SegmentPiece& piece : module.segments[i].pieces) bytes += piece.bytes.size();
  }
  return bytes;
}

void report(const Options& options, const std::filesystem::path& path, uint64_t size,
            const ModuleFile& module, const RecordsUse& records, double seconds,
            const Invocation& invocation) {
  std::vector<std::string> names;
  for (const auto& variant : module.manifest.variants) {
    if (variant->specialized.empty() && variant->equal.empty()) names.push_back(variant->target);
  }
  const uint64_t weights = weights_bytes(module);
  if (options.json) {
    nlohmann::ordered_json json;
    json["module"] = path.string();
    json["bytes"] = size;
    json["weights_bytes"] = weights;
    json["targets"] = names;
    json["kernels"] = module.manifest.variants.empty() ? 0 : module.manifest.variants[0]->kernels.size();
    if (!options.records.empty()) json["records"] = records.json();
    json["seconds"] = seconds;
    print_out(document_text(json));
  } else if (!invocation.quiet) {
    print_about(*invocation.outputs,
                fmt::format("{}: {}, {} of weights, for {}, in {}\n", path.string(),
                            bytes_text(static_cast<double>(size)), bytes_text(static_cast<double>(weights)),
                            fmt::join(names, ", "), duration_text(seconds * 1000)));
  }
}

/// In the folder of the module, which has room for the weights; none beside pipes and devices.
std::shared_ptr<SpillFile> spill_beside(const std::filesystem::path& module) {
  const OutputTarget target = find_output_target(module);
  if (target.kind != OutputTarget::Kind::kNew && target.kind != OutputTarget::Kind::kFile) return nullptr;
  const std::filesystem::path folder = target.path.parent_path();
  return std::make_shared<SpillFile>(folder.empty() ? "." : folder);
}

/// Names the files before a board is asked, so that no input becomes the module.
void plan_files(const Options& options, const std::filesystem::path& module, OutputPlan& plan) {
  if (options.json) plan.reports("--json");
  plan_board(options.board, options.key, plan);
  plan.reads(options.model, "the model");
  plan.writes(module, FileKind::kModule, options.output.empty() ? "" : "-o", options.force);
}

int compile(const Options& options, const Invocation& invocation) {
  const auto start = std::chrono::steady_clock::now();
  const Precision precision = find_precision(options.precision);
  const Optimize optimize = find_optimize(options.optimize);
  const GivenSizes sizes = {parse_shapes(options.shapes), parse_sizes(options.sizes)};
  parse_specializations(options.specializations);  // before the model is read
  if (is_module_file(options.model))
    user_error("{}: is a module already; compile takes a model (.onnx) or graph text (.gir)", options.model);
  const std::filesystem::path path = output_path(options);
  plan_files(options, path, *invocation.outputs);
  const std::vector<Target> targets = targets_of(options);
  RecordsUse records(options.records, invocation);
  Progress progress(invocation.verbosity());
  progress.update("reading " + options.model, -1);
  const std::shared_ptr<SpillFile> spill = spill_beside(path);
  Graph graph = import_model(options.model,
                             {.sizes = sizes,
                              .optimize = optimize,
                              .custom_ops = read_custom_ops(options.custom_ops, invocation),
                              .spill = spill,
                              .kept_inputs = {options.kept_inputs.begin(), options.kept_inputs.end()}},
                             invocation);
  check_kept_inputs(graph, options.kept_inputs, options.model);
  CompileOptions compile = compile_options(targets, options.opt_level, progress, &invocation);
  compile.verify = options.verify;
  compile.cache = open_cache(!options.no_cache);
  compile.precision = precision;
  compile.optimize = optimize;
  compile.spill = spill;
  compile.specializations = parse_specializations(options.specializations);
  compile.decisions = read_decisions(options.decisions, invocation);
  progress.clear();
  note_foreign_decisions(compile.decisions.get(), targets, invocation);
  compile.observer.spans = invocation.spans.get();
  records.take_part(compile, options.record_threads);
  ModuleFile module = compile_graph(std::move(graph), compile);
  progress.update("writing " + path.string(), -1);
  uint64_t size = 0;
  {
    const TimedSpan span(invocation.spans.get(), "compile", "write the module");
    size = write_module(module, path);
  }
  progress.clear();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  records.say(invocation);
  report(options, path, size, module, records, elapsed.count(), invocation);
  if (!options.trace.empty())
    write_trace({{recorded_tracks(invocation, "compile")}}, options.trace,
                expect_trace_format(options.trace, "--trace"));
  return 0;
}

}  // namespace

void add_compile_command(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("compile", "Compile a model into a module file (.gmod)");
  command->add_option("MODEL", options->model, "The model (.onnx), or graph text (.gir)")->required();
  command->add_option("-o,--output", options->output, "The module; default: MODEL's name with .gmod, here")
      ->type_name("OUT.gmod");
  command
      ->add_option("-t,--target", options->targets, "What to compile for, again for several; default native")
      ->type_name("TARGET")
      ->allow_extra_args(false);
  command
      ->add_option("--on", options->board,
                   "Compile for the processor of a board: a name from `gantry boards`, or HOST:PORT")
      ->type_name("BOARD");
  command->add_option("--key", options->key, "Key file of the board (see `gantry keygen`)")
      ->type_name("FILE");
  add_shape_options(*command, options->shapes, options->sizes);
  command
      ->add_option(
          "--specialize", options->specializations,
          "Adds a program for these sizes of symbolic dimensions alone, which runs where they fit; again for "
          "several, the first that fits runs")
      ->type_name("NAME=SIZE[,NAME=SIZE]")
      ->allow_extra_args(false);
  add_keep_input_option(*command, options->kept_inputs);
  add_optimization_options(*command, options->opt_level, options->precision, options->optimize);
  add_decisions_option(*command, options->decisions);
  add_custom_ops_option(*command, options->custom_ops);
  add_records_option(*command, options->records);
  add_record_threads_option(*command, options->record_threads);
  command->add_flag("--no-cache", options->no_cache,
                    "Compile every kernel, also those that were compiled before (see `gantry cache`)");
  command->add_flag("--verify", options->verify,
                    "Check the graph after every pass, and loops after every step of lowering");
  add_trace_option(*command, options->trace, "passes, and kernels on the compiler's threads,");
  command->add_flag("--json", options->json, "Report as JSON on stdout");
  add_force_option(*command, options->force);
  command->footer(kExamples);
  command->callback([options, &invocation] {
    invocation.action = [options, &invocation] {
      begin_trace(options->trace, options->force, invocation);
      return compile(*options, invocation);
    };
  });
}

}  // namespace gantry::cli
