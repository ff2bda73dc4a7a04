// Every network of the zoo: each member of each kernel and each edge between kernels has its reason, and the
// planned memory is close to the least possible.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "host/cli/explanation.h"
#include "host/codegen/find_target.h"
#include "host/driver/pipeline.h"
#include "host/onnx/import.h"
#include "host/ops/conv.h"
#include "host/ops/dense.h"
#include "host/ops/device_copy.h"
#include "host/ops/op.h"
#include "host/zoo/zoo.h"

namespace gantry::cli {
namespace {

/// The kernel whose bytes the value shows, perhaps copied to another device; null for inputs and constants.
const Node* kernel_behind(const Value* value) {
  while (value != nullptr && value->producer != nullptr &&
         (op_def(*value->producer).is_view || is_device_copy(*value->producer)))
    value = value->producer->inputs[0];
  return value == nullptr ? nullptr : value->producer;
}

/// All pairs of kernels of which the second reads a result of the first, found from the graph alone.
std::set<std::pair<const Node*, const Node*>> edges_of(const Graph& graph) {
  std::set<std::pair<const Node*, const Node*>> edges;
  for (const Node* node : graph.main.nodes()) {
    if (op_def(*node).is_view || is_device_copy(*node)) continue;
    for (const Value* input : node->inputs) {
      if (const Node* maker = kernel_behind(input)) edges.emplace(maker, node);
    }
  }
  return edges;
}

bool keeps_apart(FusionRule rule) {
  return rule >= FusionRule::kDisabled;
}

void expect_members_explained(const FusionReport::Kernel& kernel) {
  std::set<const Node*> told;
  for (const FusionReport::Member& member : kernel.members) {
    EXPECT_TRUE(told.insert(member.node).second);
    EXPECT_FALSE(keeps_apart(member.why.rule)) << member.node->op->name;
    EXPECT_FALSE(to_string(member.why, op_def(*member.node)).empty());
  }
  if (kernel.node->bodies.empty()) {
    EXPECT_TRUE(told == std::set<const Node*>{kernel.node});
  } else {
    const auto& nodes = kernel.node->bodies[0]->nodes();
    EXPECT_TRUE(told == std::set<const Node*>(nodes.begin(), nodes.end()));
  }
}

void expect_all_explained(const Graph& network, const std::string& target, int opt_level) {
  SCOPED_TRACE(target);
  Graph graph = clone_graph(network);
  FusionReport report;
  CompileOptions options;
  options.opt_level = opt_level;
  options.observer.fusion = &report;
  run_graph_passes(graph, find_target(target), options);
  std::set<const Node*> kernels;
  for (const Node* node : graph.main.nodes()) {
    if (!op_def(*node).is_view && !is_device_copy(*node)) kernels.insert(node);
  }
  EXPECT_EQ(report.kernels.size(), kernels.size());
  for (const FusionReport::Kernel& kernel : report.kernels) {
    EXPECT_EQ(kernels.count(kernel.node), 1u);
    expect_members_explained(kernel);
  }
  std::set<std::pair<const Node*, const Node*>> told;
  for (const FusionReport::Edge& edge : report.edges) {
    told.emplace(report.kernels.at(edge.from).node, report.kernels.at(edge.to).node);
    EXPECT_TRUE(keeps_apart(edge.why.rule)) << name_of(edge.why.rule);
    EXPECT_FALSE(to_string(edge.why, *edge.maker).empty());
  }
  EXPECT_TRUE(told == edges_of(graph)) << told.size() << " of " << edges_of(graph).size();
}

class ExplainedNetworks : public ::testing::TestWithParam<std::string> {
 protected:
  static Graph network() { return import_onnx_bytes(build_zoo_model(GetParam()), ""); }
};

TEST_P(ExplainedNetworks, EveryMemberAndEveryEdgeHasItsReason) {
  const Graph graph = network();
  expect_all_explained(graph, "x86-64-v3", 3);
  expect_all_explained(graph, "cuda:sm_80/x86-64-v3", 3);
  expect_all_explained(graph, "x86-64-v3", 1);
}

TEST_P(ExplainedNetworks, TheMemoryPlanTakesLittleMoreThanLivesAtOnce) {
  const Graph graph = network();
  for (const char* target : {"x86-64-v4", "cortex-a72"}) {
    const Explanations all = explain_program(graph, find_target(target), {});
    for (const MemoryMap& map : all.memories) {
      EXPECT_GE(map.ratio(), 1) << target;
      EXPECT_LE(map.ratio(), 1.05) << target;
    }
  }
}

TEST(ExplainedKernels, ResidualNetworksHaveOneForEachProductAndPoolingAndOneForTheInput) {
  for (const char* name : {"resnet18", "resnet50"}) {
    const Graph graph = import_onnx_bytes(build_zoo_model(name), "");
    const auto needed = std::ranges::count_if(graph.main.nodes(), [](const Node* node) {
      return node->is(nn::conv) || node->is(nn::dense) || op_def(*node).fusion == FusionClass::kReduction;
    });
    const Explanations all = explain_program(graph, find_target("x86-64-v3"), {});
    EXPECT_LE(all.kernels.size(), static_cast<size_t>(needed) + 1) << name;
  }
}

std::vector<std::string> names() {
  std::vector<std::string> names;
  for (const ZooNetwork& network : zoo_networks()) names.push_back(network.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Zoo, ExplainedNetworks, ::testing::ValuesIn(names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace gantry::cli
