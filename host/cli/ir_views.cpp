#include "host/cli/ir_views.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "host/cli/execution.h"
#include "host/cli/explanation.h"
#include "host/cli/form_view.h"
#include "host/cli/gir_output.h"
#include "host/cli/inputs.h"
#include "host/cli/json_values.h"
#include "host/cli/kernel_view.h"
#include "host/cli/model_options.h"
#include "host/cli/model_source.h"
#include "host/cli/program_folder.h"
#include "host/cli/records_use.h"
#include "host/cli/terminal.h"
#include "host/cli/text.h"
#include "host/codegen/codegen.h"
#include "host/codegen/find_target.h"
#include "host/driver/decision_file.h"
#include "host/machine/target.h"
#include "host/ops/op.h"
#include "host/support/error.h"
#include "host/support/suggest.h"

namespace gantry::cli {
namespace {

/// User errors for views that others leave nothing to show of.
void check_views(const IrOptions& options) {
  if (!options.folder.empty()) {
    refuse(options.given,
           {"--before", "--after", "--all", "--loops", "--llvm", "--asm", "--kernel", "--node", "--list"},
           "--all-to writes every kernel's loop nest and assembly, and prints the plan");
  }
  if (options.forms) {
    refuse(options.given,
           {"--before", "--after", "--all", "--loops", "--llvm", "--asm", "--kernel", "--node", "--list",
            "--all-to", "--explain", "--output"},
           "--forms lists how nodes are computed");
  }
  if (options.explain) {
    refuse(options.given,
           {"--before", "--after", "--all", "--loops", "--llvm", "--asm", "--kernel", "--list", "--all-to",
            "--output"},
           "--explain shows why the program is as it is after the last pass");
  } else if (options.json) {
    user_error("--json: says in JSON what --explain shows; give that too");
  }
  if (!options.output.empty()) {
    refuse(options.given, {"--all", "--loops", "--llvm", "--asm", "--kernel", "--node", "--list", "--all-to"},
           "-o writes the graph at one stage");
  } else {
    refuse(options.given, {"--force"}, "it is for the file that -o writes");
  }
  if (!options.shows_kernels()) {
    if (options.list)
      refuse(options.given, {"--all"},
             "--list shows the kernels after the last pass; --all is for the graph's and, with --loops, for "
             "those of loop nests");
    if (options.all) refuse(options.given, {"--before", "--after"}, "--all shows the graph after every pass");
  } else if (!options.loops) {
    refuse(options.given, {"--all"},
           "LLVM IR and assembly have no passes to follow; --all is for the graph's and, with --loops, for "
           "those of loop nests");
  }
}

/// Thrown by the observer once everything asked for was printed: the rest of the pipeline is not needed.
struct Finished {};

void check_pass(const std::string& option, const std::string& pass, const std::vector<std::string>& names) {
  if (pass.empty() || std::find(names.begin(), names.end(), pass) != names.end()) return;
  const std::string hint = did_you_mean(pass, names);
  user_error("{} {}: there is no such pass at this --opt level{} The passes: {}", option, pass,
             hint.empty() ? "." : hint, fmt::join(names, ", "));
}

/// Prints the graph after the stages whose numbers in `names` are in `wanted`; `before`: what --before names.
class GraphPrinter {
 public:
  GraphPrinter(std::vector<std::string> names, std::string before, std::vector<size_t> wanted, bool stop)
      : names_(std::move(names)), before_(std::move(before)), wanted_(std::move(wanted)), stop_(stop) {}

  void operator()(const std::string& pass, const Graph& graph) {
    if (std::find(wanted_.begin(), wanted_.end(), next_) != wanted_.end()) {
      const bool asked_before = next_ + 1 < names_.size() && names_[next_ + 1] == before_;
      const std::string place = asked_before ? fmt::format(", before {}", before_) : "";
      print_out(fmt::format("// after {}{}\n{}\n", pass, place, print(graph, op_set())));
      if (stop_ && next_ == wanted_.back()) throw Finished{};
    }
    ++next_;
  }

 private:
  std::vector<std::string> names_;
  std::string before_;
  std::vector<size_t> wanted_;
  bool stop_;
  size_t next_ = 0;
};

/// Writes the graph at the stage that the options ask for; as it was read where they do not.
void write_graph(const Graph& graph, const Target& target, CompileOptions& compile, const IrOptions& options,
                 const std::vector<std::string>& names, const GirOutput& output) {
  std::string stage = options.after.empty() ? names.front() : options.after;
  if (!options.before.empty()) stage = *std::prev(std::ranges::find(names, options.before));
  compile.observer.graph_pass = [&](const std::string& pass, const Graph& after) {
    if (pass != stage) return;
    output.write(after);
    throw Finished{};
  };
  try {
    lower_program(graph, target, compile);
  } catch (const Finished&) {
  }
}

std::vector<size_t> wanted_stages(const IrOptions& options, const std::vector<std::string>& names) {
  std::vector<size_t> wanted;
  const bool code = options.shows_kernels() || options.list;
  const bool default_view = options.before.empty() && options.after.empty() && !code;
  for (size_t i = 0; i < names.size(); ++i) {
    const bool before = i + 1 < names.size() && names[i + 1] == options.before;
    const bool last = default_view && i + 1 == names.size();
    const bool every = options.all && !code;
    if (before || names[i] == options.after || last || every) wanted.push_back(i);
  }
  return wanted;
}

/// Kernels after every step of lowering, kept until it is known which are wanted.
struct LoopSteps {
  std::vector<std::pair<std::string, LoopKernel>> steps;

  /// Steps that change nothing are only named.
  std::string text(const std::string& kernel) const {
    std::string text, before;
    for (const auto& [step, nest] : steps) {
      if (nest.name != kernel) continue;
      std::string now = to_annotated_string(nest);
      text += now == before ? fmt::format("// {}: {} changes nothing\n\n", kernel, step)
                            : fmt::format("// {}: after {}\n{}\n", kernel, step, now);
      before = std::move(now);
    }
    return text;
  }
};

struct Source {
  ModelNodes nodes;
  NodeHistory history;
};

std::vector<size_t> wanted_kernels(const KernelView& view, const LoweredProgram& program,
                                   const IrOptions& options) {
  if (!options.node.empty()) return view.of_node(options.node);
  if (!options.kernel.empty()) return view.named(options.kernel);
  std::vector<size_t> all(program.kernels.size());
  std::iota(all.begin(), all.end(), size_t{0});
  return all;
}

void print_kernels(const LoweredProgram& program, const Target& target, const IrOptions& options,
                   const Source& source, const LoopSteps& steps) {
  const KernelView view(program, target);
  if (options.list) print_out(view.list(terminal_width()));
  if (!options.shows_kernels()) return;
  const std::vector<size_t> wanted = wanted_kernels(view, program, options);
  if (wanted.empty() && !options.node.empty())
    return print_out(view.where_is(options.node, source.nodes, source.history));
  if (!options.node.empty()) print_out(fmt::format("// {}\n\n", view.summary(options.node, source.nodes)));
  const bool every_pass = options.loops && options.all;
  for (size_t kernel : wanted) {
    if (every_pass) print_out(view.head(kernel, "//") + steps.text(program.kernels[kernel].name));
    const KernelTexts texts{false, options.loops && !every_pass, options.llvm, options.assembly};
    if (!every_pass || options.llvm || options.assembly) print_out(view.text(kernel, texts));
  }
}

/// How nodes are computed, as --decisions reads it, or how one is and what else was looked at; all decisions.
std::vector<NodeDecision> print_forms(const Graph& graph, const Target& target, CompileOptions compile,
                                      const IrOptions& options) {
  NetworkDecision network;
  compile.observer.network = &network;
  const std::vector<NodeDecision> decisions = decide_forms(graph, target, compile, options.explain);
  if (options.forms) {
    print_out(fmt::format("# {}\n{}", visible_line(options.model),
                          decisions_text(target.name, decisions, network)));
    return decisions;
  }
  if (options.json) {
    print_out(candidates_json(decisions, options.node));
    return decisions;
  }
  // Whether a GPU has what a schedule asks for is only known once it is lowered.
  const std::string misfits =
      target.for_gpu() ? misfits_text(lower_program(graph, target, compile), options.node) : std::string();
  const bool decided = std::ranges::any_of(decisions, [&](const NodeDecision& decision) {
    return std::ranges::find(decision.origin, options.node) != decision.origin.end();
  });
  if (decided || misfits.empty()) print_out(candidates_text(decisions, options.node, terminal_width()));
  print_out(misfits);
  return decisions;
}

/// The passes in their order, each with the lowest level at which it runs.
int list_passes() {
  Table table(
      {{"--opt", Table::Align::kRight}, {"pass", Table::Align::kLeft}, {"purpose", Table::Align::kLeft}});
  for (const PassInfo& pass : all_passes()) {
    const bool last = pass.opt_level == kMostOptLevel;
    const std::string levels =
        last ? std::to_string(pass.opt_level) : fmt::format("{}-{}", pass.opt_level, kMostOptLevel);
    table.row({levels, pass.name, pass.purpose});
  }
  print_out(table.str(0));
  return 0;
}

/// Where -o writes the graph; none: it is printed.
std::optional<GirOutput> output_of(const IrOptions& options, const Invocation& invocation) {
  if (options.output.empty()) return std::nullopt;
  if (!options.before.empty()) refuse(options.given, {"--after"}, "-o writes the graph at one stage");
  invocation.outputs->reads(options.model, "the model");
  return std::optional<GirOutput>(std::in_place, options.output, options.force, invocation);
}

/// The graph after its passes, and the kernels, as far as `options` asks for them.
void print_stages(const Graph& graph, const Target& target, CompileOptions& compile, const IrOptions& options,
                  const std::vector<std::string>& names, Source& source, Progress& progress) {
  const bool code = options.shows_kernels() || options.list;
  GraphPrinter printer(names, options.before, wanted_stages(options, names), !code);
  compile.observer.graph_pass = [&](const std::string& pass, const Graph& after) {
    if (!options.node.empty()) source.history.record(pass, after);
    printer(pass, after);
  };
  LoopSteps steps;
  if (options.loops && options.all) {
    compile.observer.loop_pass = [&](std::string_view step, const LoopKernel& kernel) {
      steps.steps.emplace_back(step, kernel);
    };
  }
  try {
    const LoweredProgram program = lower_program(graph, target, compile);
    progress.clear();
    if (code) print_kernels(program, target, options, source, steps);
  } catch (const Finished&) {
  }
}

}  // namespace

std::vector<std::string> stages(int opt_level) {
  std::vector<std::string> names = {"import"};
  for (const std::string& pass : pass_names(opt_level)) names.push_back(pass);
  return names;
}

int show_ir(const IrOptions& options, const Invocation& invocation) {
  if (options.list_passes) return list_passes();
  if (options.model.empty())
    user_error("MODEL is missing: the model (.onnx or .gir) to show; see `gantry ir --help`");
  check_views(options);
  const Precision precision = find_precision(options.precision);
  const Optimize optimize = find_optimize(options.optimize);
  const Target target = with_precision(find_target(options.target), precision);
  const std::vector<std::string> names = stages(options.opt_level);
  check_pass("--before", options.before, names);
  check_pass("--after", options.after, names);
  if (options.before == "import") user_error("--before import: nothing comes before it");
  if (is_module_file(options.model))
    user_error("{}: is a module; ir takes a model (.onnx) or graph text (.gir)", options.model);
  std::optional<GirOutput> output = output_of(options, invocation);
  Source source;
  const auto on_node = [&](const std::string& name, const std::string& op) {
    source.nodes.emplace_back(name, op);
  };
  const Graph graph = import_model(options.model,
                                   {.sizes = {parse_shapes(options.shapes), parse_sizes(options.sizes)},
                                    .optimize = optimize,
                                    .on_node = on_node,
                                    .custom_ops = read_custom_ops(options.custom_ops, invocation),
                                    .kept_inputs = {options.kept_inputs.begin(), options.kept_inputs.end()}},
                                   invocation);
  check_kept_inputs(graph, options.kept_inputs, options.model);

  Progress progress(invocation.verbosity());
  CompileOptions compile = compile_options({target}, options.opt_level, progress, &invocation);
  compile.verify = options.verify;
  compile.precision = precision;
  compile.optimize = optimize;
  compile.decisions = read_decisions(options.decisions, invocation);
  note_foreign_decisions(compile.decisions.get(), {target}, invocation);
  RecordsUse records(options.records, invocation);
  records.take_part(compile, options.record_threads);
  if (!options.folder.empty()) {
    const std::string json = write_program(graph, target, compile, options.folder);
    progress.clear();
    print_out(json);
    return 0;
  }
  if (options.forms || (options.explain && !options.node.empty())) {
    progress.clear();
    records.say(print_forms(graph, target, compile, options), invocation);
    return 0;
  }
  if (options.explain) {
    const Explanations why = explain_program(graph, target, compile);
    progress.clear();
    print_out(options.json ? document_text(to_json(why), 1) : to_text(why, terminal_width()));
    return 0;
  }
  if (output) {
    write_graph(graph, target, compile, options, names, *output);
    return 0;
  }
  print_stages(graph, target, compile, options, names, source, progress);
  return 0;
}

}  // namespace gantry::cli
