#include <algorithm>
#include <vector>

#include "host/passes/pass.h"

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

const Pass* find_pass(std::string_view name) {
  const auto passes = graph_passes();
  const auto found = std::ranges::find(passes, name, &Pass::name);
  return found == passes.end() ? nullptr : *found;
}

}  // namespace gantry
