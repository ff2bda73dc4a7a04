// Composed ops whose dimensions are symbols: what they infer, and what they compute for sizes that are given
// later.
#include <gmock/gmock.h>

#include "tests/onnx/model_text.h"

namespace gantry {
namespace {

using namespace model_text;  // NOLINT

std::vector<std::string> output_types(const Graph& graph) {
  std::vector<std::string> types;
  for (const Value* output : graph.main.outputs) types.push_back(output->type.str());
  return types;
}

TEST(SymbolicAttention, APastOfAnyLengthGrowsByTheQueries) {
  const Graph graph = imported_graph(
      open_input("q", "B L 32") + open_input("k", "B L 16") + open_input("v", "B L 16") +
          open_input("pk", "B 2 P 8") + open_input("pv", "B 2 P 8") +
          node("Attention", "q k v - pk pv", "y nk nv",
               integer("q_num_heads", 4) + integer("kv_num_heads", 2) + integer("is_causal", 1)),
      "y nk nv");
  EXPECT_THAT(output_types(graph),
              ::testing::ElementsAre("Tensor[(B, L, 32), f32]", "Tensor[(B, 2, L+P, 8), f32]",
                                     "Tensor[(B, 2, L+P, 8), f32]"));
}

TEST(SymbolicLinearAttention, TakesAnyNumberOfSteps) {
  const Graph graph =
      imported_graph(open_input("q", "B T 12") + open_input("k", "B T 12") + open_input("v", "B T 6") +
                         node("LinearAttention", "q k v", "y state",
                              integer("q_num_heads", 3) + integer("kv_num_heads", 3) +
                                  attribute("update_rule", "type: STRING s: 'linear'")),
                     "y state");
  EXPECT_THAT(output_types(graph),
              ::testing::ElementsAre("Tensor[(B, T, 6), f32]", "Tensor[(B, 3, 4, 2), f32]"));
}

TEST(SymbolicGridSample, TakesImagesAndGridsOfAnySize) {
  const Graph graph = imported_graph(
      open_input("x", "N 3 H W") + open_input("grid", "N P Q 2") + node("GridSample", "x grid", "y"), "y");
  EXPECT_THAT(output_types(graph), ::testing::ElementsAre("Tensor[(N, 3, P, Q), f32]"));
}

TEST(SymbolicLoss, IsOneNumberOfAnyNumberOfTargets) {
  const Graph graph = imported_graph(
      open_input("x", "N 5 D") + open_input("t", "N D", 7) + node("SoftmaxCrossEntropyLoss", "x t", "y p"),
      "y p");
  EXPECT_THAT(output_types(graph), ::testing::ElementsAre("Tensor[(), f32]", "Tensor[(N, 5, D), f32]"));
}

TEST(SymbolicRotation, PositionsOfAnyLengthAreLookedUp) {
  const Graph graph = imported_graph(open_input("x", "B L 32") + open_input("c", "64 4") +
                                         open_input("s", "64 4") + open_input("p", "B L", 7) +
                                         node("RotaryEmbedding", "x c s p", "y", integer("num_heads", 4)),
                                     "y");
  EXPECT_THAT(output_types(graph), ::testing::ElementsAre("Tensor[(B, L, 32), f32]"));
}

TEST(SymbolicEinsum, ADiagonalNeedsAsManyRowsAsColumns) {
  const Graph graph =
      imported_graph(open_input("x", "B N M") +
                         node("Einsum", "x", "y", attribute("equation", "type: STRING s: '...ii->...i'")),
                     "y");
  EXPECT_THAT(output_types(graph), ::testing::ElementsAre("Tensor[(B, N), f32]"));
  ASSERT_EQ(graph.main.constraints.size(), 1U);
  EXPECT_EQ(graph.main.constraints.front().left.str(), "N");
  EXPECT_EQ(graph.main.constraints.front().right.str(), "M");
}

TEST(SymbolicScatter, HasNoMoreIndicesThanElementsBesideItsAxis) {
  const Graph graph =
      imported_graph(open_input("x", "N T 4") + open_input("i", "M L 4", 7) + open_input("u", "M L 4") +
                         node("ScatterElements", "x i u", "y", integer("axis", 1)),
                     "y");
  EXPECT_THAT(output_types(graph), ::testing::ElementsAre("Tensor[(N, T, 4), f32]"));
  ASSERT_EQ(graph.main.constraints.size(), 1U);
  const auto& [left, right, origin] = graph.main.constraints.front();
  for (const int64_t m : {0, 2, 3, 4}) {
    const std::map<std::string, int64_t> sizes{{"N", 3}, {"M", m}};
    EXPECT_EQ(left.evaluate(sizes) == right.evaluate(sizes), m <= 3) << m;
  }
}

TEST(SymbolicReverse, EachSequenceIsTurnedAroundWithinItsLength) {
  const Graph graph = imported_graph(
      open_input("x", "T B") + open_input("n", "B", 7) +
          node("ReverseSequence", "x n", "y", integer("time_axis", 0) + integer("batch_axis", 1)),
      "y");
  EXPECT_THAT(output_types(graph), ::testing::ElementsAre("Tensor[(T, B), f32]"));
}

// As exporters pad by a difference that is nothing. Nothing is computed of it when it is read: N is unknown.
TEST(SymbolicConstantOfShape, HasNoElementsWhereAnotherDimensionIsZero) {
  const Graph graph = imported_graph(
      open_input("x", "N 3 1") + node("Shape", "x", "n", integer("end", 1)) +
          node("Constant", "", "rest", attribute("value_ints", "type: INTS ints: 0 ints: 1")) +
          node("Concat", "n rest", "shape", integer("axis", 0)) + node("ConstantOfShape", "shape", "none") +
          node("Constant", "", "two", attribute("value_float", "type: FLOAT f: 2")) +
          node("Mul", "none two", "still") + node("Concat", "x still", "y", integer("axis", 1)),
      "still y");
  EXPECT_THAT(output_types(graph),
              ::testing::ElementsAre("Tensor[(N, 0, 1), f32]", "Tensor[(N, 3, 1), f32]"));
}

}  // namespace
}  // namespace gantry
