#include <CLI/CLI.hpp>
#include <memory>

#include "host/cli/commands.h"
#include "host/cli/ir_views.h"
#include "host/cli/model_options.h"
#include "host/cli/records_use.h"
#include "host/support/error.h"

namespace gantry::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  gantry ir resnet18.onnx                          the graph after the last pass
  gantry ir resnet18.onnx --after import           the graph as it was read
  gantry ir resnet18.onnx --before fuse_ops        what a pass is given, and
  gantry ir resnet18.onnx --after fuse_ops         what it makes of it
  gantry ir resnet18.onnx --all                    after every pass
  gantry ir resnet18.onnx --list                             the kernels: steps, ops, ONNX nodes
  gantry ir resnet18.onnx --kernel conv_add_relu_3           one of a profile: graph, loop nest, assembly
  gantry ir resnet18.onnx --node layer1.0.1.conv             of the kernels that a node became part of
  gantry ir resnet18.onnx --loops --target aarch64           loop nests of all kernels
  gantry ir resnet18.onnx --loops --all --kernel conv        after every step from the schedule on
  gantry ir resnet18.onnx --llvm --kernel conv               LLVM IR; --asm: assembly
  gantry ir resnet18.onnx --asm --target cuda:sm_86          PTX of the kernels
  gantry ir resnet18.onnx --target cortex-a72 --all-to kernels > resnet18.json
                                                   every loop nest and assembly as files, the plan as JSON
  gantry ir resnet18.onnx --explain                what shares a kernel and why, layouts, the memory plan
  gantry ir resnet18.onnx --explain --json > why.json
  gantry ir resnet18.onnx --explain layer1.0.1.conv   how it is computed, what else was looked at, and why not
  gantry ir old.onnx --keep-input input            an input that has a default in the model stays an input
  gantry ir resnet18.onnx -o resnet18.gir          the graph as a file, to change and to compile: see docs/ir.md
  gantry ir resnet18.onnx --forms > r18.decisions  how each node is computed; changed, for --decisions r18.decisions
  gantry ir --list-passes                          what each pass is for, and from which --opt level it runs
The plan of memory follows the passes: --explain shows it as a map, `gantry inspect MODULE --steps` step by step.)";

/// `--explain NODE` is `--explain --node NODE`.
void take_explained_node(IrOptions& options) {
  if (options.explained.empty()) return;
  if (!options.explain)
    user_error("unexpected argument '{}': a node is for --explain, or --node {} for its kernels", options.explained,
               options.explained);
  if (!options.node.empty())
    user_error("--explain of '{}' and --node of '{}': one of the two", options.explained, options.node);
  options.node = options.explained;
}

}  // namespace

void add_ir_command(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<IrOptions>();
  CLI::App* command = app.add_subcommand("ir", "Show the program at any stage of the compiler");
  command->add_option("MODEL", options->model, "The model (.onnx), or graph text (.gir)");
  command->add_option("NODE", options->explained, "With --explain: as --node NODE");
  command->add_option("-t,--target", options->target, "What to compile for; default native")
      ->type_name("TARGET");
  command->add_option("--before", options->before, "The graph before this pass")->type_name("PASS");
  command->add_option("--after", options->after, "The graph after this pass, or after `import`")
      ->type_name("PASS");
  command->add_flag("--all", options->all,
                    "After every pass; with --loops, every kernel after every step of lowering, from its schedule on");
  command
      ->add_option("-o,--output", options->output,
                   "Write the graph as text that can be compiled, with large weights beside it: as it was read, "
                   "or with --before or --after")
      ->type_name("OUT.gir");
  add_force_option(*command, options->force);
  command->add_flag("--list-passes", options->list_passes,
                    "The passes, what they are for and from which --opt level they run; needs no MODEL");
  command->add_flag("--loops", options->loops, "Loop nests of the kernels");
  command->add_flag("--llvm", options->llvm, "LLVM IR of the kernels, optimised");
  command->add_flag("--asm", options->assembly, "Assembly of the kernels");
  CLI::Option* kernel = command
                            ->add_option("--kernel", options->kernel,
                                         "Only the kernel of this name, or else those with it in their names")
                            ->type_name("NAME");
  command->add_option("--node", options->node, "Only kernels that compute this ONNX node, or a part of it")
      ->type_name("NAME")
      ->excludes(kernel);
  command->add_flag("--list", options->list, "The kernels with their steps, ops and ONNX nodes");
  command->add_flag(
      "--explain", options->explain,
      "Why each kernel has the ops that it has, why values stay between kernels, what changes "
      "layouts for whom and at what cost, and the memory plan as a map beside the least possible");
  command->add_flag("--json", options->json, "--explain as JSON");
  command->add_flag("--forms", options->forms,
                    "How convolutions, products and recurrences are computed: decisions, to change and to give to "
                    "--decisions");
  command
      ->add_option(
          "--all-to", options->folder,
          "Write every kernel's loop nest and assembly into FOLDER, equal ones of all calls once, and "
          "print kernels, plan and constants as JSON, with the digests that name the files")
      ->type_name("FOLDER");
  add_shape_options(*command, options->shapes, options->sizes);
  add_keep_input_option(*command, options->kept_inputs);
  add_optimization_options(*command, options->opt_level, options->precision, options->optimize);
  add_decisions_option(*command, options->decisions);
  add_custom_ops_option(*command, options->custom_ops);
  add_records_option(*command, options->records);
  add_record_threads_option(*command, options->record_threads);
  command->add_flag("--verify", options->verify, "Check the graph after every pass, and loops after every step of lowering");
  command->footer(fmt::format("{}\nPasses: {}", kExamples, fmt::join(stages(3), ", ")));
  command->callback([options, command, &invocation] {
    options->given = given_options(*command);
    take_explained_node(*options);
    invocation.action = [options, &invocation] { return show_ir(*options, invocation); };
  });
}

}  // namespace gantry::cli
