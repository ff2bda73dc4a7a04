#include <algorithm>
#include <string>
#include <vector>

#include "host/passes/pass.h"
#include "host/support/error.h"

namespace gantry {

// Each pass's file defines its value.
#define GANTRY_STEP(pass, level) extern const Pass pass##_pass;
#include "host/passes/pipeline.def"
#undef GANTRY_STEP

namespace {

const PipelineStep kPipeline[] = {
#define GANTRY_STEP(pass, level) {&pass##_pass, level},
#include "host/passes/pipeline.def"
#undef GANTRY_STEP
};

void expect_earlier(const Pass& pass, const std::vector<std::string>& ran, const PassContext& context) {
  for (const std::string_view earlier : pass.after) {
    if (std::ranges::find(ran, earlier) != ran.end() || !find_pass(earlier)->applies(context)) continue;
    user_error(
        "{0} works on what {1} leaves: put {1} before it; or, if this text is past that, say so in a line before fn: "
        "passes {1}",
        pass.name, earlier);
  }
}

}  // namespace

std::span<const PipelineStep> pipeline() {
  return kPipeline;
}

std::span<const Pass* const> graph_passes() {
  static const std::vector<const Pass*> passes = [] {
    std::vector<const Pass*> once;
    for (const PipelineStep& step : kPipeline) {
      if (std::ranges::find(once, step.pass) == once.end()) once.push_back(step.pass);
    }
    return once;
  }();
  return passes;
}

std::vector<std::string> graph_pass_names() {
  std::vector<std::string> names;
  for (const Pass* pass : graph_passes()) names.emplace_back(pass->name);
  return names;
}

const Pass* find_pass(std::string_view name) {
  const auto passes = graph_passes();
  const auto found = std::ranges::find(passes, name, &Pass::name);
  return found == passes.end() ? nullptr : *found;
}

int level_of(const Pass& pass) {
  const auto found = std::ranges::find(kPipeline, &pass, &PipelineStep::pass);
  internal_check(found != std::end(kPipeline), "pass {} stands in no pipeline", pass.name);
  return found->level;
}

void expect_order(std::span<const Pass* const> passes, const Graph& graph, const PassContext& context) {
  std::vector<std::string> ran = graph.passes;
  bool fused = false;
  for (const Pass* pass : passes) {
    if (!pass->applies(context)) continue;
    expect_earlier(*pass, ran, context);
    if (fused && !pass->works_on_groups)
      user_error("{} does not look into the groups that fuse_ops makes: put it before fuse_ops", pass->name);
    fused = fused || pass == &fuse_ops_pass;
    ran.emplace_back(pass->name);
  }
}

}  // namespace gantry
