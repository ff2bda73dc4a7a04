#include <CLI/CLI.hpp>

#include "host/cli/commands.h"
#include "host/cli/inspect.h"
#include "host/cli/model_source.h"

namespace gantry::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  gantry inspect resnet18.onnx           inputs, outputs, ops, parameters; what gantry cannot compile
  gantry inspect resnet18.gmod           targets, kernels, plan, memory, segments
  gantry inspect resnet18.gmod --steps   every step of the plan
  gantry inspect resnet18.gmod --json | jq .variants[0].workspace_bytes)";

struct Options {
  std::string file;
  InspectOptions inspect;
};

}  // namespace

void add_inspect_command(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("inspect", "Show what is in a model or a module");
  command->add_option("FILE", options->file, "A model (.onnx) or a module (.gmod)")->required();
  command->add_flag("--steps", options->inspect.steps, "Also every step of a module's plan");
  command->add_flag("--json", options->inspect.json, "Report as JSON on stdout");
  command->footer(kExamples);
  command->callback([options, &invocation] {
    invocation.action = [options] {
      const bool module = is_module_file(options->file);
      print_out(module ? inspect_module(options->file, options->inspect)
                       : inspect_model(options->file, options->inspect));
      return 0;
    };
  });
}

}  // namespace gantry::cli
