// Patterns as data: what they meet, and what a rule does with it.
#include "host/passes/pattern.h"

#include "host/ops/elementwise.h"
#include "tests/passes/pass_test.h"

namespace gantry {
namespace {

using testing::ElementsAre;

Graph graph_of(const std::string& nodes, const std::string& results) {
  return parse_graph("fn @main(%x: Tensor[(4), f32], %y: Tensor[(4), f32]) -> Tensor[(4), f32] {\n" + nodes +
                         "  return " + results + "\n}\n",
                     table());
}

Value* result_of(Graph& graph) {
  return graph.main.outputs[0];
}

TEST(Pattern, MeetsBothOrdersOfOperands) {
  const Pattern pattern = commuted(op::add, node(op::exp, {any("a")}), any("b"));
  for (const char* sum : {"add(%0, %y)", "add(%y, %0)"}) {
    Graph graph = graph_of(std::string("  %0 = exp(%x)\n  %1 = ") + sum + "\n", "%1");
    Match found;
    ASSERT_TRUE(match(pattern, result_of(graph), found)) << sum;
    EXPECT_EQ(found["a"], graph.main.parameters[0]);
    EXPECT_EQ(found["b"], graph.main.parameters[1]);
    EXPECT_EQ(found.nodes().size(), 2u);
  }
}

TEST(Pattern, WhatIsCapturedTwiceIsOneValue) {
  const Pattern square = node(op::multiply, {any("x"), any("x")});
  Graph same = graph_of("  %0 = multiply(%x, %x)\n", "%0"), other = graph_of("  %0 = multiply(%x, %y)\n", "%0");
  Match found, missed;
  EXPECT_TRUE(match(square, result_of(same), found));
  EXPECT_FALSE(match(square, result_of(other), missed));
}

TEST(Pattern, GoesBackToAnotherOrderWhereALaterCaptureContradicts) {
  // Only the second order of the inner sum agrees with the product.
  const Pattern pattern = node(op::multiply, {commuted(op::add, any("a"), any("b")), any("b")});
  Graph graph = graph_of("  %0 = add(%y, %x)\n  %1 = multiply(%0, %y)\n", "%1");
  Match found;
  ASSERT_TRUE(match(pattern, result_of(graph), found));
  EXPECT_EQ(found["b"], graph.main.parameters[1]);
  EXPECT_EQ(found["a"], graph.main.parameters[0]);
}

TEST(Pattern, ScalarsAreConstantsOfOneElementCloseToTheNumber) {
  const Pattern half = node(op::multiply, {any("x"), scalar(0.5)});
  const auto meets = [&](const std::string& constant) {
    Graph graph = graph_of("  %0 = multiply(%x, " + constant + ")\n", "%0");
    Match found;
    return match(half, result_of(graph), found);
  };
  EXPECT_TRUE(meets("const(f32, [], [0.5])"));
  EXPECT_TRUE(meets("const(f32, [1], [0.5])"));
  EXPECT_FALSE(meets("const(f32, [], [0.51])"));
  EXPECT_FALSE(meets("const(f32, [4], [0.5, 0.5, 0.5, 0.5])"));
}

const std::vector<Rule>& double_negation() {
  static const std::vector<Rule> rules = {{node(op::negative, {node(op::negative, {any("x")})}),
                                           [](const Builder& build, const Match& m) {
                                             return build(op::copy, {m["x"]});
                                           }}};
  return rules;
}

std::string applied(Graph& graph, PassContext& context) {
  apply_rules(Rewriter(graph.main, context), double_negation());
  remove_dead_nodes(graph.main);
  verify(graph, table(), "the rules");
  return print(graph, table());
}

TEST(Rules, ReplaceTheRootAndJoinTheOrigins) {
  Graph graph = graph_of("  %0 = negative(%x)  // A\n  %1 = negative(%0)  // B\n  %2 = exp(%1)  // C\n", "%2");
  PassContext context;
  EXPECT_THAT(applied(graph, context), IsGraph(print(graph_of("  %1 = copy(%x)\n  %2 = exp(%1)\n", "%2"), table())));
  EXPECT_THAT(graph.main.nodes().front()->origin, testing::ElementsAre("A", "B"));
  EXPECT_EQ(context.rewrites, 1);
  EXPECT_EQ(graph.main.nodes().size(), 2u);
}

TEST(Rules, LeaveWhatIsReadOutsideOfTheMatch) {
  Graph graph = graph_of("  %0 = negative(%x)\n  %1 = negative(%0)\n  %2 = add(%0, %1)\n", "%2");
  PassContext context;
  applied(graph, context);
  EXPECT_EQ(context.rewrites, 0);
}

TEST(Rules, StopAfterTheRewritesThatAreLeft) {
  const std::string nodes =
      "  %0 = negative(%x)\n  %1 = negative(%0)\n  %2 = exp(%1)\n"
      "  %3 = negative(%2)\n  %4 = negative(%3)\n  %5 = exp(%4)\n";
  for (int64_t left : {0, 1, 2}) {
    Graph graph = graph_of(nodes, "%5");
    PassContext context;
    context.most_rewrites = left;
    applied(graph, context);
    EXPECT_EQ(context.rewrites, left);
    EXPECT_EQ(graph.main.nodes().size(), 6u - static_cast<size_t>(left));
  }
}

}  // namespace
}  // namespace gantry
