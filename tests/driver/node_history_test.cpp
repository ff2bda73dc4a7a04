#include "host/driver/node_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/codegen/find_target.h"
#include "host/driver/compile.h"
#include "host/ops/op.h"

namespace gantry {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// What becomes of the nodes of a graph on its way through all passes.
NodeHistory history_of(const std::string& nodes, const std::string& result) {
  const Graph graph = parse_graph("fn @main(%x: Tensor[(2, 4), f32]) -> Tensor[(2, 4), f32] {\n" + nodes +
                                      "  return %" + result + "\n}\n",
                                  op_set());
  NodeHistory history;
  CompileOptions options;
  options.observer.graph_pass = [&](const std::string& pass, const Graph& after) {
    history.record(pass, after);
  };
  lower_program(graph, find_target("x86-64-v3"), options);
  return history;
}

TEST(NodeHistory, NodesOfAKernelHaveNoEnd) {
  const NodeHistory history = history_of("  %a = exp(%x)  // Exp_0\n  %b = nn.relu(%a)  // Relu_1\n", "b");
  EXPECT_EQ(history.end_of("Exp_0"), std::nullopt);
  EXPECT_EQ(history.end_of("Relu_1"), std::nullopt);
}

TEST(NodeHistory, FoldedNodesAreConstants) {
  const auto end =
      history_of("  %c = exp(const(f32, [4], [1, 2, 3, 4]))  // Exp_0\n  %b = add(%x, %c)  // Add_1\n", "b")
          .end_of("Exp_0");
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->pass, "fold_constant");
  EXPECT_THAT(end->readers, ElementsAre("Add_1"));
  EXPECT_THAT(to_string(*end),
              HasSubstr("Tensor[(4), f32], is a constant: fold_constant computed it; read by Add_1"));
}

TEST(NodeHistory, WhatDoesNothingIsLeftOut) {
  const auto end =
      history_of("  %a = cast(%x, to=f32)  // Cast_0\n  %b = nn.relu(%a)  // Relu_1\n", "b").end_of("Cast_0");
  ASSERT_TRUE(end.has_value());
  EXPECT_THAT(to_string(*end), HasSubstr("it (cast) does nothing to its input: simplify_inference"));
}

TEST(NodeHistory, UnreadNodesAreDropped) {
  const auto end =
      history_of("  %a = exp(%x)  // Exp_0\n  %b = nn.relu(%x)  // Relu_1\n", "b").end_of("Exp_0");
  ASSERT_TRUE(end.has_value());
  EXPECT_THAT(to_string(*end), HasSubstr("nothing reads its result any more"));
}

TEST(NodeHistory, WhatNeverWasThereEndedWithTheImport) {
  EXPECT_EQ(history_of("  %a = exp(%x)  // Exp_0\n", "a").end_of("Constant_0")->pass, "import");
}

}  // namespace
}  // namespace gantry
