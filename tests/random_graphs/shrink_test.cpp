// The shrinker, by a pass that is deliberately wrong.
#include <gtest/gtest.h>

#include <algorithm>

#include "host/ops/builder.h"
#include "host/ops/unary.h"
#include "host/support/error.h"
#include "tests/random_graphs/reference.h"
#include "tests/random_graphs/shrink.h"
#include "tests/random_graphs/sketch.h"
#include "tests/support/interpreted.h"

namespace gantry::random_graphs {
namespace {

/// Takes the cosine for the sine.
void break_sines(Graph& graph) {
  const std::vector<Node*> nodes = graph.main.nodes();
  for (Node* node : nodes) {
    if (!node->is(op::sin)) continue;
    graph.main.replace_uses(node->result(), Builder(graph.main, *node)(op::cos, {node->inputs[0]}));
  }
}

bool breaks(const Case& test) {
  const Graph graph = bound(test.graph, test.symbols);
  const std::vector<ConstantPtr> inputs = inputs_of(test, graph);
  Graph broken = clone_graph(graph);
  break_sines(broken);
  return !difference(testing::interpret_function(broken.main, inputs), reference(graph, inputs, test.seed))
              .empty();
}

size_t sines_of(const Graph& graph) {
  return static_cast<size_t>(std::ranges::count_if(
      graph.main.nodes(), [](const Node* node) { return node->is(op::sin); }));
}

TEST(Shrinking, LeavesTheNodeThatAWrongPassChanges) {
  int broken = 0;
  for (uint64_t seed = 1; seed < 3000 && broken < 5; ++seed) {
    const Case test = random_case(seed);
    if (sines_of(test.graph) == 0 || !breaks(test)) continue;
    ++broken;
    const Case small = shrunk(test, breaks);
    ASSERT_TRUE(breaks(small)) << text_of(small.graph);
    EXPECT_EQ(small.graph.main.nodes().size(), 1u) << text_of(small.graph);
    EXPECT_EQ(sines_of(small.graph), 1u);
    EXPECT_EQ(small.graph.main.outputs.size(), 1u);
    EXPECT_TRUE(small.symbols.empty());
    EXPECT_LE(small.graph.main.parameters.size() + small.graph.main.constants().size(), 1u);
  }
  EXPECT_EQ(broken, 5);
}

TEST(Shrinking, KeepsWhatTheFailureNeeds) {
  const Case test{
      1,
      parse_graph(
          R"(fn @main(%x: Tensor[(4, 6), f32], %y: Tensor[(6), f32]) -> (Tensor[(6, 4), f32], Tensor[(4, 6), f32]) {
  %0 = add(%x, %y)
  %1 = sin(%0)
  %2 = transpose(%1, axes=[1, 0])
  %3 = exp(%x)
  return %2 as "a", %3 as "b"
})",
          op_set()),
      {},
      false};
  const auto transposes_sine = [](const Case& c) {
    const auto& nodes = c.graph.main.nodes();
    return breaks(c) && std::ranges::any_of(nodes, [](const Node* n) {
             return n->is(op::transpose) && n->inputs[0]->producer != nullptr;
           });
  };
  const Case small = shrunk(test, transposes_sine);
  EXPECT_EQ(small.graph.main.nodes().size(), 2u) << text_of(small.graph);
  EXPECT_EQ(element_count(small.graph.main.parameters.at(0)->type.shape), Dim(1)) << text_of(small.graph);
}

}  // namespace
}  // namespace gantry::random_graphs
