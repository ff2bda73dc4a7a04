#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>
#include <set>

#include "host/cli/between.h"
#include "host/cli/commands.h"
#include "host/cli/execution.h"
#include "host/cli/gir_output.h"
#include "host/cli/inputs.h"
#include "host/cli/model_options.h"
#include "host/cli/model_source.h"
#include "host/cli/refusal.h"
#include "host/cli/text.h"
#include "host/codegen/find_target.h"
#include "host/driver/decision_file.h"
#include "host/driver/left_to_cpu.h"
#include "host/driver/network_decider.h"
#include "host/driver/pipeline.h"
#include "host/machine/target.h"
#include "host/ops/op.h"
#include "host/passes/fuse_ops.h"
#include "host/support/error.h"
#include "host/support/suggest.h"
#include "host/support/words.h"

namespace gantry::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  gantry opt resnet18.onnx                         the graph after the passes of --opt 3, and what each did
  gantry opt resnet18.onnx --passes simplify_inference,fold_constant
                                                   after these, in this order
  gantry opt resnet18.onnx --print-each            after every pass
  gantry opt resnet18.onnx --passes simplify_inference,alter_layout --target cortex-a72 -o pi.gir
                                                   as a file, to look at, change and compile; see docs/ir.md
  gantry opt resnet18.onnx --stop-after 5 -o half.gir
                                                   after five rewrites: to find by halving which one is wrong
  gantry run half.gir --opt 0 --random             what that computes, without other optimisation
  gantry opt resnet18.onnx --decisions r18.decisions
                                                   the graph whose nodes are computed as the file says
  gantry opt --list                                all passes: what for, from which --opt level, after which)";

struct Options {
  std::string model, output;
  std::string target = "native", precision = "auto", optimize = "speed", decisions;
  std::vector<std::string> passes, shapes, sizes, custom_ops, kept_inputs;
  int opt_level = 3;
  std::optional<int64_t> stop_after;
  bool print_each = false, verify = false, list = false, force = false;
  GivenOptions given;
};

/// Something that a target or a user asks passes for, without which some have nothing to do.
struct Wish {
  std::string_view name;
  PassContext context;
  bool of_target;
  std::string_view asked_by = {};  ///< the option, where naming the pass does not do
};

std::vector<Wish> wishes() {
  std::vector<Wish> all{{"CPUs", {}, true},
                        {"GPUs", {}, true},
                        {"byte products", {}, true},
                        {"--passes", {}, false},
                        {"fast-math", {}, false, "--optimize fast-math"}};
  all[1].context.for_gpu = true;
  all[2].context.multiplies_bytes = true;
  all[3].context.combine_parallel = true;
  all[4].context.fast_math = true;
  return all;
}

/// The first by which the pass has something to do; none where it always has, or where it wants yet another.
std::optional<Wish> wish_of(const Pass& pass) {
  if (pass.when == nullptr) return std::nullopt;
  for (Wish& wish : wishes()) {
    if (pass.applies(wish.context)) return std::move(wish);
  }
  return std::nullopt;
}

/// For which targets and options the pass has something to do.
std::string applies_to(const Pass& pass) {
  const std::optional<Wish> wish = wish_of(pass);
  return wish ? std::string(wish->name) : pass.when == nullptr ? "all" : "some";
}

int list_passes() {
  Table table({{"--opt", Table::Align::kRight},
               {"pass", Table::Align::kLeft},
               {"for", Table::Align::kLeft},
               {"after", Table::Align::kLeft},
               {"purpose", Table::Align::kLeft}});
  for (const Pass* pass : graph_passes()) {
    const int level = level_of(*pass);
    const std::string levels =
        level == kMostOptLevel ? std::to_string(level) : fmt::format("{}-{}", level, kMostOptLevel);
    table.row({levels, std::string(pass->name), applies_to(*pass), fmt::format("{}", fmt::join(pass->after, ", ")),
               std::string(pass->purpose)});
  }
  print_out(table.str(0));
  return 0;
}

/// Those of --passes, or of --opt.
std::vector<const Pass*> chosen_passes(const Options& options) {
  std::vector<const Pass*> passes;
  if (options.passes.empty()) {
    for (const PipelineStep& step : pipeline()) {
      if (step.level <= options.opt_level) passes.push_back(step.pass);
    }
  }
  for (const std::string& given : options.passes) {
    const std::string name(trim(given));
    if (name.empty()) user_error("--passes: a pass's name is empty; `gantry opt --list` lists the passes");
    passes.push_back(find_pass(name));
    if (passes.back() != nullptr) continue;
    const std::vector<std::string> names = graph_pass_names();
    const std::string hint = did_you_mean(name, names);
    user_error("--passes {}: there is no such pass{} The passes: {}", name, hint.empty() ? "." : hint,
               fmt::join(names, ", "));
  }
  return passes;
}

/// A user error where no pass would read the decisions.
void expect_readers(const Options& options, const std::vector<const Pass*>& passes) {
  if (options.decisions.empty() || std::ranges::any_of(passes, [](const Pass* pass) {
        return pass->name == kDecidingPass || pass->name == kFusingPass;
      }))
    return;
  user_error(
      "--decisions {}: none of these passes reads decisions: {} takes how nodes are computed, {} what is "
      "kept apart; name one of them in --passes",
      options.decisions, kDecidingPass, kFusingPass);
}

/// Of the nodes of functions that control flow calls, which passes leave as they are here.
void add_names_in_bodies(const Function& function, std::set<std::string>& names) {
  for (const Node* node : function.nodes()) {
    for (const auto& body : node->bodies) {
      for (const Node* inner : body->nodes()) names.insert(inner->origin.begin(), inner->origin.end());
      add_names_in_bodies(*body, names);
    }
  }
}

/// Runs passes and says what they did: graph text, in which the rest are comments.
class Optimizer {
 public:
  /// `runner`: what passes are for, in words.
  Optimizer(const Options& options, Graph graph, const Target& target, std::string runner,
            CompileOptions compile, const OutputPlan& outputs)
      : options_(options),
        outputs_(outputs),
        graph_(std::move(graph)),
        target_(target),
        runner_(std::move(runner)),
        compile_(std::move(compile)),
        context_(make_pass_context(target_, compile_)),
        network_(target_, compile_, context_) {
    if (options.stop_after) context_.most_rewrites = *options.stop_after;
    ask_for_named();
    if (!compile_.decisions) return;
    context_.given = &given_.emplace(compile_.decisions->for_target(target_.name));
    add_names_in_bodies(graph_.main, in_bodies_);
  }

  const PassContext& context() const { return context_; }

  void run(const std::vector<const Pass*>& passes) {
    if (compile_.verify) verify(graph_, FusedOpTable(op_set()), "reading");
    for (const Pass* pass : passes) {
      const std::string name(pass->name);
      if (!context_.may_rewrite()) {
        skipped_.push_back(name);
        continue;
      }
      network_.before(name, graph_);
      ask_for_named();
      const PassRun run = run_pass(*pass, name, graph_, context_, compile_);
      network_.after(name);
      report_ += fmt::format("// {}: {}, {}\n", name, rewrites_text(*pass, run), duration_text(run.milliseconds));
      if (options_.print_each) print_graph(name);
    }
    if (!skipped_.empty()) {
      report_ += fmt::format("// stopped after {}; left out: {}\n", counted(context_.rewrites, "rewrite"),
                             fmt::join(skipped_, ", "));
    } else if (given_) {
      const bool deciding = std::ranges::find(passes, kDecidingPass, &Pass::name) != passes.end();
      expect_all_taken(*given_, target_, deciding, [&](const NodeDecision& decision) {
        return !decision.origin.empty() && std::ranges::all_of(decision.origin, [&](const std::string& name) {
          return in_bodies_.contains(name);
        });
      });
    }
  }

  const std::string& report() const { return report_; }
  const Graph& graph() const { return graph_; }
  std::string text() const { return print(graph_, FusedOpTable(op_set())); }

 private:
  /// Naming a pass that combines products asks for it.
  void ask_for_named() { context_.combine_parallel = context_.combine_parallel || !options_.passes.empty(); }

  std::string rewrites_text(const Pass& pass, const PassRun& run) const {
    if (!pass.applies(context_)) {
      const std::optional<Wish> wish = wish_of(pass);
      if (wish && wish->of_target) return "not for " + runner_;
      return wish && !wish->asked_by.empty() ? fmt::format("not asked for by {}", wish->asked_by)
                                             : "not asked for";
    }
    return run.rewrites == 0 ? "no rewrites" : counted(run.rewrites, "rewrite");
  }

  void print_graph(const std::string& pass) const {
    print_about(outputs_, fmt::format("// after {}\n{}\n", pass, text()));
  }

  const Options& options_;
  const OutputPlan& outputs_;
  Graph graph_;
  const Target& target_;
  std::string runner_;
  CompileOptions compile_;
  PassContext context_;
  NetworkDecider network_;
  std::optional<GivenDecisions> given_;
  std::set<std::string> in_bodies_;  ///< names of nodes
  std::string report_;
  std::vector<std::string> skipped_;
};

int optimize_graph(const Options& options, const Invocation& invocation) {
  if (options.list) return list_passes();
  if (options.model.empty())
    user_error("MODEL is missing: the model (.onnx or .gir) to rewrite; see `gantry opt --help`");
  if (!options.passes.empty())
    refuse(options.given, {"--opt"}, "--passes names the passes; --opt stands for those of a level");
  if (options.output.empty()) refuse(options.given, {"--force"}, "it is for the file that -o writes");
  const std::vector<const Pass*> passes = chosen_passes(options);
  expect_readers(options, passes);
  const Precision precision = find_precision(options.precision);
  const Optimize optimize = find_optimize(options.optimize);
  const Target target = with_precision(find_target(options.target), precision);
  if (is_module_file(options.model))
    user_error("{}: is a module; opt takes a model (.onnx) or graph text (.gir)", options.model);
  invocation.outputs->reads(options.model, "the model");
  std::optional<GirOutput> output;
  if (!options.output.empty()) output.emplace(options.output, options.force, invocation);
  Progress progress(invocation.verbosity());
  CompileOptions compile = compile_options({target}, options.opt_level, progress);
  compile.verify = options.verify;
  compile.optimize = optimize;
  compile.decisions = read_decisions(options.decisions, invocation);
  note_foreign_decisions(compile.decisions.get(), {target}, invocation);
  Graph graph = import_model(options.model,
                             {.sizes = {parse_shapes(options.shapes), parse_sizes(options.sizes)},
                              .optimize = optimize,
                              .custom_ops = read_custom_ops(options.custom_ops, invocation),
                              .kept_inputs = {options.kept_inputs.begin(), options.kept_inputs.end()}},
                             invocation);
  check_kept_inputs(graph, options.kept_inputs, options.model);
  const std::string left = why_left_to_cpu(graph.main, target);
  if (!left.empty()) invocation.note(left);
  const Target passes_are_for = left.empty() ? target : cpu_by_name_of(target);
  const std::string runner = left.empty() ? target.name : "the CPU that runs all of it";
  Optimizer optimizer(options, std::move(graph), passes_are_for, runner, compile, *invocation.outputs);
  expect_order(passes, optimizer.graph(), optimizer.context());
  optimizer.run(passes);
  if (!output && !options.print_each) print_out(optimizer.text());
  print_about(*invocation.outputs, optimizer.report());
  if (output) output->write(optimizer.graph());
  return 0;
}

}  // namespace

void add_opt_command(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("opt", "Run passes over a graph, and show or write what they make of it");
  command->add_option("MODEL", options->model, "The model (.onnx), or graph text (.gir)");
  command
      ->add_option("--passes", options->passes, "These, in this order, in the place of those of --opt")
      ->type_name("PASS,PASS,…")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->add_option("--stop-after", options->stop_after, "Stop once the passes have made so many rewrites")
      ->type_name("N")
      ->check(between(int64_t{0}, int64_t{1} << 40));
  command->add_flag("--print-each", options->print_each, "Print the graph after every pass");
  command->add_flag("--list", options->list,
                    "All passes: from which --opt level they run, for which targets, after which, what for; needs "
                    "no MODEL");
  command
      ->add_option("-o,--output", options->output,
                   "Write the graph as text that can be compiled, with large weights beside it")
      ->type_name("OUT.gir");
  command->add_option("-t,--target", options->target, "What to compile for; default native")->type_name("TARGET");
  add_shape_options(*command, options->shapes, options->sizes);
  add_keep_input_option(*command, options->kept_inputs);
  add_optimization_options(*command, options->opt_level, options->precision, options->optimize);
  add_decisions_option(*command, options->decisions);
  add_custom_ops_option(*command, options->custom_ops);
  command->add_flag("--verify", options->verify, "Check the graph after every pass");
  add_force_option(*command, options->force);
  command->footer(kExamples);
  command->callback([options, command, &invocation] {
    options->given = given_options(*command);
    invocation.action = [options, &invocation] { return optimize_graph(*options, invocation); };
  });
}

}  // namespace gantry::cli
