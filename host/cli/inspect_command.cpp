#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "host/cli/commands.h"
#include "host/cli/execution.h"
#include "host/cli/inputs.h"
#include "host/cli/inspect.h"
#include "host/cli/inspect_page.h"
#include "host/cli/json_values.h"
#include "host/cli/model_options.h"
#include "host/cli/model_source.h"
#include "host/cli/refusal.h"
#include "host/cli/text.h"
#include "host/support/error.h"
#include "host/support/output_file.h"

namespace gantry::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  gantry inspect resnet18.onnx           inputs, outputs, ops, weights; what gantry cannot compile
  gantry inspect resnet18.gir            the same of graph text: inputs, outputs, ops, weights
  gantry inspect resnet18.gmod           targets, kernels, plan, memory, segments
  gantry inspect resnet18.gmod --steps   every step of the plan
  gantry inspect resnet18.gmod --forms   how its nodes are computed, as --decisions of compile reads it
  gantry inspect resnet18.onnx --html page.html
                                         the same as a page for the browser, with the plan, its memory and its graph
  gantry inspect resnet18.gmod --json | jq .variants[0].workspace_bytes
The exit code is 1 where gantry cannot compile the model, or the module is damaged.)";

struct Options {
  std::string file;
  std::vector<std::string> shapes, sizes, custom_ops;
  InspectOptions inspect;
  std::string page, target;
  bool force = false;
  GivenOptions given;
};

/// In JSON also what is wrong with a file of which nothing can be said.
Inspection inspect(const Options& options) {
  try {
    if (is_module_file(options.file)) return inspect_module(options.file, options.inspect);
    return is_graph_text_file(options.file) ? inspect_graph_text(options.file, options.inspect)
                                            : inspect_model(options.file, options.inspect);
  } catch (const Error& error) {
    if (!options.inspect.json || error.kind() != ErrorKind::kUser) throw;
    const nlohmann::ordered_json json = {{"file", options.file}, {"error", error.what()}};
    return {document_text(json), error.what()};
  }
}

void check_options(const Options& options) {
  if (!options.custom_ops.empty() && is_module_file(options.file))
    user_error("{}: is a module, which holds the code of its custom ops; leave out --custom-ops",
               options.file);
  const auto refuse_of_module = [&](bool given, const char* option, const char* what) {
    if (given && is_module_file(options.file))
      user_error("{}: is a module, whose {}; leave out {}", options.file, what, option);
  };
  constexpr const char* kSizes = "sizes are those that it was compiled for";
  refuse_of_module(!options.shapes.empty(), "--shape", kSizes);
  refuse_of_module(!options.sizes.empty(), "--dim", kSizes);
  refuse_of_module(!options.inspect.kept_inputs.empty(), "--keep-input",
                   "inputs are those that it was compiled with");
  if (options.inspect.steps && !is_module_file(options.file)) {
    user_error("{}: is a model, and only a module has a plan; leave out --steps, or compile it first",
               options.file);
  }
  if (options.inspect.forms) {
    if (!is_module_file(options.file))
      user_error("{}: is a model; `gantry ir MODEL --forms` says how its nodes would be computed",
                 options.file);
    refuse(options.given, {"--steps", "--json", "--html"}, "--forms lists decisions alone");
  }
  if (options.page.empty()) {
    refuse(options.given, {"--target", "--force"}, "without --html there is no page that they are for");
  } else {
    refuse(options.given, {"--json", "--steps"}, "--html writes a page instead, with every step of the plan");
  }
}

/// Writes what is known as a page, then fails where gantry cannot use the file.
int write_page(const Options& options, const Invocation& invocation) {
  invocation.outputs->reads(options.file, is_module_file(options.file) ? "the module" : "the model");
  invocation.outputs->writes(options.page, FileKind::kReport, "--html", options.force);
  const Inspection inspection = inspect_page(options.file, options.inspect, options.target, invocation);
  write_file(options.page, inspection.report);
  if (!inspection.problem.empty()) user_error("{}", inspection.problem);
  if (!invocation.quiet)
    print_about(*invocation.outputs, fmt::format("{}: {}\n", options.page,
                                                 bytes_text(static_cast<double>(inspection.report.size()))));
  return 0;
}

/// Prints what is known, then fails where gantry cannot use the file.
int show(Options& options, const Invocation& invocation) {
  check_options(options);
  options.inspect.sizes = {parse_shapes(options.shapes), parse_sizes(options.sizes)};
  options.inspect.custom_ops = read_custom_ops(options.custom_ops, invocation);
  if (!options.page.empty()) return write_page(options, invocation);
  const Inspection inspection = inspect(options);
  print_out(inspection.report);
  if (inspection.problem.empty()) return 0;
  std::fflush(stdout);
  user_error("{}", inspection.problem);
}

}  // namespace

void add_inspect_command(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("inspect", "Show what is in a model or a module");
  command->add_option("FILE", options->file, "A model (.onnx), graph text (.gir) or a module (.gmod)")
      ->required();
  command->add_flag("--steps", options->inspect.steps, "Also every step of a module's plan");
  command->add_flag(
      "--forms", options->inspect.forms,
      "Instead, how a module's nodes are computed: decisions, to change and to give to --decisions");
  add_shape_options(*command, options->shapes, options->sizes);
  add_keep_input_option(*command, options->inspect.kept_inputs);
  add_custom_ops_option(*command, options->custom_ops);
  command->add_flag("--json", options->inspect.json, "Report as JSON on stdout");
  command
      ->add_option("--html", options->page,
                   "Write a page for the browser: also the plan, its memory map and its graph")
      ->type_name("FILE.html");
  command
      ->add_option("-t,--target", options->target,
                   "What the page's plan is for; default: this machine, of a module its first")
      ->type_name("TARGET");
  add_force_option(*command, options->force);
  command->footer(kExamples);
  command->callback([options, command, &invocation] {
    options->given = given_options(*command);
    invocation.action = [options, &invocation] { return show(*options, invocation); };
  });
}

}  // namespace gantry::cli
