#include "host/driver/pipeline.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>

#include "host/driver/decision_file.h"
#include "host/driver/form_check.h"
#include "host/driver/network_decider.h"
#include "host/forms/choose.h"
#include "host/graph/spilled_constant.h"
#include "host/graph/text.h"
#include "host/machine/cpu_features.h"
#include "host/ops/control.h"
#include "host/ops/op.h"
#include "host/passes/fuse_ops.h"
#include "host/passes/passes.h"
#include "host/passes/place_devices.h"
#include "host/targets/common/attention_policy.h"

namespace gantry {
namespace {

struct Step {
  const Pass* pass;
  int level;
  std::string name;  ///< of the stage: the pass's, and which time it runs from the second on
};

std::vector<Step> steps(int opt_level) {
  std::vector<Step> chosen;
  std::map<std::string_view, int> times;
  for (const PipelineStep& line : pipeline()) {
    if (line.level > opt_level) continue;
    const std::string_view name = line.pass->name;
    const int time = ++times[name];
    chosen.push_back({line.pass, line.level, time == 1 ? std::string(name) : fmt::format("{}_{}", name, time)});
  }
  return chosen;
}

/// User error for a line that no node has taken: of the program that a target has alone, or of any of its
/// programs once the last one has taken its own.
void expect_used(GivenDecisions& given, const Target& target, UsedDecisions* programs) {
  if (programs != nullptr) {
    given.share_taken(programs->places);
    if (!programs->last) return;
  }
  expect_all_taken(given, target, /*deciding=*/true);
}

/// All passes on the functions that control flow calls, the innermost first: each by itself. They run where the plan
/// that calls them does.
void run_on_bodies(Function& function, PassContext& context, CompileOptions options) {
  options.observer.graph_pass = nullptr;  // listeners know the main function
  for (Node* node : function.nodes()) {
    if (!is_control_flow(*node)) continue;
    for (auto& body : node->bodies) {
      run_on_bodies(*body, context, options);
      Graph alone;
      alone.main = std::move(*body);
      for (const Step& step : steps(options.opt_level)) run_pass(*step.pass, step.name, alone, context, options);
      *body = std::move(alone.main);
    }
  }
}

}  // namespace

std::vector<PassInfo> all_passes() {
  std::vector<PassInfo> passes;
  for (const Step& step : steps(kMostOptLevel))
    passes.push_back({step.name, step.level, std::string(step.pass->purpose)});
  return passes;
}

std::vector<std::string> pass_names(int opt_level) {
  std::vector<std::string> names;
  for (const Step& step : steps(opt_level)) names.push_back(step.name);
  return names;
}

PassContext make_pass_context(const Target& target, const CompileOptions& options) {
  PassContext context;
  context.for_gpu = target.for_gpu();
  context.small = options.optimize == Optimize::kSize;
  context.fast_math = options.optimize == Optimize::kFastMath;
  context.multiplies_bytes = tile_unit(target, DType::kI8).has_value();
  context.fuse = options.opt_level >= 2;
  context.fusion = options.observer.fusion;
  context.layouts = options.observer.layouts;
  context.decisions = options.observer.decisions;
  context.candidates = options.observer.candidates;
  context.spill = options.spill.get();
  if (!context.for_gpu) context.attention = make_attention_policy(target);
  context.forms = [target, small = context.small, spill = context.spill](const Function& network) {
    return forms::make_forms(target, small, &network, spill_if_large(network, spill));
  };
  return context;
}

PassRun run_pass(const Pass& pass, const std::string& stage, Graph& graph, PassContext& context,
                 const CompileOptions& options) {
  PassRun result;
  const int64_t rewrites = context.rewrites;
  const auto start = std::chrono::steady_clock::now();
  {
    TimedSpan span(options.observer.spans, "pass", stage);
    if (pass.applies(context)) {
      pass.run(graph, context);
      if (std::ranges::find(graph.passes, pass.name) == graph.passes.end()) graph.passes.emplace_back(pass.name);
    }
    result.rewrites = context.rewrites - rewrites;
    span.say("nodes", static_cast<double>(graph.main.nodes().size()));
    span.say("rewrites", static_cast<double>(result.rewrites));
  }
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  result.milliseconds = took.count();
  spdlog::debug("pass {}: {} rewrites, {} nodes, {:.1f} ms", stage, result.rewrites, graph.main.nodes().size(),
                result.milliseconds);
  bool check = options.verify;
#ifndef NDEBUG
  check = true;
#endif
  if (check) verify(graph, FusedOpTable(op_set()), stage);
  if (options.observer.graph_pass) options.observer.graph_pass(stage, graph);
  return result;
}

void expect_all_taken(const GivenDecisions& given, const Target& target, bool deciding,
                      const std::function<bool(const NodeDecision&)>& left_out) {
  const GivenDecisions::Line* line = given.left_over(left_out);
  if (line == nullptr) return;
  const std::string node =
      fmt::format("{} of {}", line->node.op->name,
                  line->node.origin.empty() ? "no node" : origin_text(line->node.origin));
  if (!deciding)
    user_error("{}: nothing is decided for {} without {}, a pass of --opt {}", line->place, node,
               kDecidingPass, kMostOptLevel);
  if (const GivenDecisions::Line* other = given.taken_like(*line))
    user_error("{}: {} is decided already, by {}; leave one of the lines out", line->place, node,
               other->place);
  user_error(
      "{}: nothing is decided for {} when the model is compiled for {}; `gantry ir MODEL --forms` lists what "
      "is",
      line->place, node, target.name);
}

GraphDecisions run_graph_passes(Graph& graph, const Target& target, const CompileOptions& options) {
  if (options.verify) verify(graph, FusedOpTable(op_set()), "import");
  const bool deciding = options.opt_level == kMostOptLevel;
  expect_forms_of(graph, target, deciding);
  if (!target.for_gpu()) forget_devices(graph);
  if (options.observer.graph_pass) options.observer.graph_pass("import", graph);
  PassContext context = make_pass_context(target, options);
  std::vector<NodeDecision> own;
  if (context.decisions == nullptr) context.decisions = &own;
  const size_t before = context.decisions->size();
  std::optional<GivenDecisions> given;
  if (options.decisions) context.given = &given.emplace(options.decisions->for_target(target.name));
  const std::shared_ptr<RecordedDecisions> recorded = options.records ? options.records(target) : nullptr;
  context.recorded = recorded.get();
  if (given && !deciding) expect_all_taken(*given, target, deciding);
  run_on_bodies(graph.main, context, options);
  NetworkDecider network(target, options, context);
  CompileOptions checked = options;
  // Before the observer, which may show what was decided and end the compilation.
  checked.observer.graph_pass = [&](const std::string& stage, const Graph& after) {
    if (given && stage == kDecidingPass) expect_used(*given, target, options.used_decisions.get());
    if (options.observer.graph_pass) options.observer.graph_pass(stage, after);
  };
  for (const Step& step : steps(options.opt_level)) {
    network.before(step.name, graph);
    run_pass(*step.pass, step.name, graph, context, checked);
    network.after(step.name);
  }
  return {{context.decisions->begin() + static_cast<std::ptrdiff_t>(before), context.decisions->end()},
          network.decided()};
}

}  // namespace gantry
