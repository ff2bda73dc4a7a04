#include "tests/random_graphs/passes.h"

#include <algorithm>
#include <set>

#include "host/codegen/find_target.h"
#include "host/ops/conv.h"
#include "host/ops/dense.h"
#include "host/passes/passes.h"
#include "host/support/error.h"
#include "tests/forms/given_forms.h"
#include "tests/random_graphs/choices.h"

namespace gantry {

// Places in the pipeline that part the stages.
extern const Pass alter_layout_pass;
extern const Pass fuse_ops_pass;

namespace random_graphs {
namespace {

AttentionPolicy random_attention(uint64_t seed) {
  Choices choices(seed, "attention");
  AttentionPolicy policy;
  policy.lanes = choices.of({4, 8, 16});
  policy.registers = choices.of({16, 32});
  return policy;
}

/// Matrix products in the form that the combine_parallel passes look for, convolutions as they are.
std::unique_ptr<FormSet> gemm_forms() {
  return std::make_unique<GivenForms>(find_target("cuda:sm_80"), [](const FormQuestion& question, const FormSet&) {
    return Decision{question.node.is(nn::conv) ? "plain" : "gemm", {}};
  });
}

/// Matrix products on tile units, as combine_projections wants them.
std::unique_ptr<FormSet> tile_forms() {
  const Target target = with_precision(find_target("sapphirerapids"), Precision::kFp32Split3);
  return std::make_unique<GivenForms>(target, [](const FormQuestion& question, const FormSet& all) {
    const Decision tiles{"tiles", {{"parts", 3}}};
    return question.node.is(nn::dense) && !all.misfit(question, tiles) ? tiles : Decision{"plain", {}};
  });
}

/// What a target might ask for.
PassContext random_context(uint64_t seed) {
  PassContext context;
  context.combine_parallel = context.multiplies_bytes = true;
  context.small = Choices(seed, "optimize for size").chance(0.2);
  context.attention = random_attention(seed);
  context.forms = [seed](const Function&) { return random_forms(seed); };
  return context;
}

TestedPass tested(const Pass& pass, Stage stage) {
  auto run = [&pass](Graph& graph, uint64_t seed, int64_t most_rewrites) {
    PassContext context = random_context(seed);
    context.for_gpu = !pass.applies(context);
    context.most_rewrites = most_rewrites;
    pass.run(graph, context);
    return context.rewrites;
  };
  return {std::string(pass.name), stage, run, {}};
}

TestedPass choosing(std::string name, std::unique_ptr<FormSet> (*forms)()) {
  auto run = [forms](Graph& graph, uint64_t, int64_t most_rewrites) {
    PassContext context;
    context.most_rewrites = most_rewrites;
    context.forms = [forms](const Function&) { return forms(); };
    alter_layout(graph, context);
    return context.rewrites;
  };
  return {std::move(name), Stage::kLayout, run, {}};
}

/// Where a pass may stand follows from where it stands in the pipeline. Some stand in several places.
std::map<const Pass*, std::set<Stage>> stages_of_passes() {
  std::map<const Pass*, std::set<Stage>> stages;
  Stage stage = Stage::kModel;
  for (const PipelineStep& step : pipeline()) {
    if (step.pass == &alter_layout_pass) {
      stages[step.pass].insert(Stage::kLayout);
      stage = Stage::kForms;
    } else if (step.pass == &fuse_ops_pass) {
      stages[step.pass].insert(Stage::kFused);
      stage = Stage::kPlaced;
    } else {
      stages[step.pass].insert(stage);
    }
  }
  return stages;
}

/// Those that apply to CPUs or to GPUs without fast math: the others change results on purpose. `asked`: with
/// all that a user or a target may ask for besides.
bool keeps_results(const Pass& pass, bool asked) {
  PassContext context;
  context.combine_parallel = context.multiplies_bytes = asked;
  if (pass.applies(context)) return true;
  context.for_gpu = true;
  return pass.applies(context);
}

std::vector<TestedPass> make_list() {
  const std::map<std::string, std::vector<std::string>> prepared{
      {"combine_parallel_conv2d", {"choose_gemm"}},
      {"combine_parallel_dense", {"choose_gemm"}},
      {"combine_parallel_batch_matmul", {"choose_gemm"}},
      {"combine_projections", {"recognize_attention", "choose_tiles"}},
      {"place_devices", {"fuse_ops"}},
  };
  const auto stages = stages_of_passes();
  std::vector<TestedPass> passes;
  for (const Pass* pass : graph_passes()) {
    if (!keeps_results(*pass, true)) continue;
    const std::set<Stage>& found = stages.at(pass);
    passes.push_back(tested(*pass, found.size() > 1 ? Stage::kAny : *found.begin()));
    passes.back().by_default = keeps_results(*pass, false);
    passes.back().after.assign(pass->after.begin(), pass->after.end());
    const auto preparing = prepared.find(passes.back().name);
    if (preparing != prepared.end()) passes.back().after = preparing->second;
  }
  return passes;
}

}  // namespace

const std::vector<TestedPass>& list_of_passes() {
  static const std::vector<TestedPass> passes = make_list();
  return passes;
}

const TestedPass& tested_pass(const std::string& name) {
  static const std::vector<TestedPass> preparing{choosing("choose_gemm", gemm_forms),
                                                 choosing("choose_tiles", tile_forms)};
  for (const auto* list : {&list_of_passes(), &preparing}) {
    const auto found = std::ranges::find(*list, name, &TestedPass::name);
    if (found != list->end()) return *found;
  }
  user_error("there is no pass {}", name);
}

std::vector<std::string> random_order(uint64_t seed) {
  Choices choices(seed, "order");
  std::vector<std::pair<int, std::string>> order;
  std::vector<TestedPass> passes = list_of_passes();
  choices.shuffle(passes);
  for (const TestedPass& pass : passes) {
    if (choices.chance(0.25)) continue;
    int stage = static_cast<int>(pass.stage);
    // Cleaning up may happen between any two, and before the nodes are fused.
    if (pass.stage == Stage::kAny) stage = static_cast<int>(choices.between(1, 3));
    order.emplace_back(stage, pass.name);
  }
  std::ranges::stable_sort(order, {}, &std::pair<int, std::string>::first);
  std::vector<std::string> names;
  bool fused = false;
  for (auto& [stage, name] : order) {
    if (stage == static_cast<int>(Stage::kPlaced) && !fused) continue;
    fused = fused || name == "fuse_ops";
    names.push_back(std::move(name));
  }
  return names;
}

}  // namespace random_graphs
}  // namespace gantry
