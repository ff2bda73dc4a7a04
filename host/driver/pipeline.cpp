#include "host/driver/pipeline.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <map>

#include "host/ops/op.h"
#include "host/passes/passes.h"
#include "host/target/layout_policy.h"

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
  context.fuse = options.opt_level >= 2;
  context.fusion = options.observer.fusion;
  context.layouts = options.observer.layouts;
  if (!context.for_gpu) context.attention = make_attention_policy(target);
  context.layout_policy = [target, small = context.small](const Function& network) {
    LayoutPolicy policy = make_layout_policy(target, &network);
    if (small) keep_weights_small(policy);
    return policy;
  };
  return context;
}

void run_graph_passes(Graph& graph, const Target& target, const CompileOptions& options) {
  const auto& observe = options.observer.graph_pass;
  if (options.verify) verify(graph, op_set(), "import");
  if (observe) observe("import", graph);
  PassContext context = make_pass_context(target, options);
  for (const Step& step : steps(options.opt_level)) {
    const int64_t rewrites = context.rewrites;
    auto start = std::chrono::steady_clock::now();
    {
      TimedSpan span(options.observer.spans, "pass", step.name);
      if (step.pass->applies(context)) step.pass->run(graph, context);
      span.say("nodes", static_cast<double>(graph.main.nodes().size()));
      span.say("rewrites", static_cast<double>(context.rewrites - rewrites));
    }
    std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    spdlog::debug("pass {}: {} rewrites, {} nodes, {:.1f} ms", step.name, context.rewrites - rewrites,
                  graph.main.nodes().size(), took.count());
    bool check = options.verify;
#ifndef NDEBUG
    check = true;
#endif
    if (check) verify(graph, op_set(), step.name);
    if (observe) observe(step.name, graph);
  }
}

}  // namespace gantry
