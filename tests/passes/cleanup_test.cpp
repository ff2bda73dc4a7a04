// dead_code, eliminate_common_subexpr and simplify_inference.
#include <cmath>

#include "host/support/error.h"
#include "tests/passes/pass_test.h"

namespace gantry {
namespace {

TEST(DeadCode, DropsChainsThatNothingUsesAndTheirConstants) {
  EXPECT_EQ(after(R"(fn @main(%x: Tensor[(N, 32), f32]) -> Tensor[(N, 32), f32] {
  %0 = nn.relu(%x)
  %1 = add(%0, @unused: Tensor[(32), f32])
  %2 = exp(%1)
  return %0
})",
                  dead_code),
            R"(fn @main(%x: Tensor[(N, 32), f32]) -> Tensor[(N, 32), f32] {
  %0 = nn.relu(%x)
  return %0
}
)");
}

TEST(DeadCode, KeepsEverythingThatAnOutputNeeds) {
  const std::string text = R"(fn @main(%x: Tensor[(2), f32]) -> (Tensor[(2), f32], Tensor[(2), f32]) {
  %0 = nn.relu(%x)
  %1 = exp(%0)
  return %1 as "a", %x as "b"
}
)";
  EXPECT_EQ(after(text, dead_code), text);
}

TEST(CommonSubexpressions, EqualNodesAndConstantsBecomeOneAndKeepBothOrigins) {
  EXPECT_EQ(after(R"(fn @main(%x: Tensor[(N, 2), f32]) -> Tensor[(N, 2), f32] {
  %0 = add(%x, const(f32, [2], [1, 2]))  // A
  %1 = add(%x, const(f32, [2], [1, 2]))  // B
  %2 = exp(%0)
  %3 = exp(%1)
  %4 = multiply(%2, %3)
  return %4
})",
                  eliminate_common_subexpr),
            R"(fn @main(%x: Tensor[(N, 2), f32]) -> Tensor[(N, 2), f32] {
  %0 = add(%x, const(f32, [2], [1, 2]))  // A, B
  %2 = exp(%0)
  %4 = multiply(%2, %2)
  return %4
}
)");
}

TEST(CommonSubexpressions, DifferentAttributesTypesOrOrderStay) {
  const std::string text =
      R"(fn @main(%x: Tensor[(N, 2), f32], %y: Tensor[(N, 2), f32]) -> Tensor[(N, 2), f32] {
  %0 = subtract(%x, %y)
  %1 = subtract(%y, %x)
  %2 = clip(%0, min=0, max=6)
  %3 = clip(%0, min=0, max=1)
  %4 = add(%2, %3)
  %5 = add(%4, %1)
  %6 = add(%5, const(f32, [2], [0, 1]))
  %7 = add(%6, const(f32, [2], [0, 2]))
  return %7
}
)";
  EXPECT_EQ(after(text, eliminate_common_subexpr), text);
}

TEST(SimplifyInference, DropsIdentitiesAndReshapesToTheSameShape) {
  EXPECT_EQ(after(R"(fn @main(%x: Tensor[(N, 4), f32]) -> Tensor[(N, 4), f32] {
  %0 = nn.dropout(%x)
  %1 = nn.relu(%0)
  %2 = reshape(%1, shape=(N, 4))
  %3 = identity(%2)
  return %3 as "y"
})",
                  simplify_inference),
            R"(fn @main(%x: Tensor[(N, 4), f32]) -> Tensor[(N, 4), f32] {
  %1 = nn.relu(%x)
  return %1 as "y"
}
)");
}

TEST(SimplifyInference, DropsCastsToTheSameTypeWhoeverReadsThem) {
  EXPECT_EQ(after(R"(fn @main(%x: Tensor[(N), f32]) -> (Tensor[(N), f32], Tensor[(N), f64]) {
  %0 = nn.relu(%x)
  %1 = cast(%0, to=f32)
  %2 = exp(%1)
  %3 = add(%1, %2)
  %4 = cast(%3, to=f64)
  return %3, %4
})",
                  simplify_inference),
            R"(fn @main(%x: Tensor[(N), f32]) -> (Tensor[(N), f32], Tensor[(N), f64]) {
  %0 = nn.relu(%x)
  %2 = exp(%0)
  %3 = add(%0, %2)
  %4 = cast(%3, to=f64)
  return %3, %4
}
)");
}

TEST(SimplifyInference, BatchNormBecomesOneMultiplyAndOneAddAlongTheChannels) {
  Graph graph = parse_graph(R"(fn @main(%x: Tensor[(N, 2, H, W), f32]) -> Tensor[(N, 2, H, W), f32] {
  %0 = nn.batch_norm(%x, const(f32, [2], [2, 3]), const(f32, [2], [0.5, -1]), const(f32, [2], [4, 5]), const(f32, [2], [0.25, 9]), epsilon=0.75, axis=1)  // Bn
  return %0
})",
                            table());
  simplify_inference(graph, fresh_context());
  verify(graph, table(), "simplify_inference");
  ASSERT_EQ(graph.main.nodes().size(), 2u);
  const Node &multiply = *graph.main.nodes()[0], &add = *graph.main.nodes()[1];
  EXPECT_EQ(multiply.op->name, "multiply");
  EXPECT_EQ(add.op->name, "add");
  EXPECT_THAT(add.origin, testing::ElementsAre("Bn"));
  const ConstantData &scale = *multiply.inputs[1]->constant, &shift = *add.inputs[1]->constant;
  EXPECT_EQ(to_string(scale.type.shape), "(2, 1, 1)");
  EXPECT_EQ(graph.main.constants().size(), 2u);
  // (x - mean) / sqrt(var + eps) * gain + bias at x = 1 and x = 0
  EXPECT_NEAR(scale.as<float>()[0] + shift.as<float>()[0], (1 - 4) / std::sqrt(0.25 + 0.75) * 2 + 0.5, 1e-5);
  EXPECT_NEAR(shift.as<float>()[1], (0 - 5) / std::sqrt(9 + 0.75) * 3 - 1, 1e-5);
}

TEST(SimplifyInference, BatchNormWithParametersFromOutsideStays) {
  const std::string text =
      R"(fn @main(%x: Tensor[(N, 2), f32], %s: Tensor[(2), f32]) -> Tensor[(N, 2), f32] {
  %0 = nn.batch_norm(%x, %s, %s, %s, %s)
  return %0
}
)";
  EXPECT_EQ(after(text, simplify_inference), text);
}

TEST(SimplifyMovement, WhatIsMovedTwiceIsMovedOnceOrStays) {
  EXPECT_EQ(
      after(
          R"(fn @main(%x: Tensor[(N, 6, 4), f32]) -> (Tensor[(N, 24), f32], Tensor[(4, N, 6), f32], Tensor[(N, 6, 4), f32]) {
  %0 = reshape(%x, shape=(N, 3, 8))
  %1 = reshape(%0, shape=(N, 24))
  %2 = exp(%1)
  %3 = transpose(%x, axes=[0, 2, 1])
  %4 = transpose(%3, axes=[1, 0, 2])
  %5 = exp(%4)
  %6 = transpose(%3, axes=[0, 2, 1])
  %7 = reshape(%6, shape=(N, 24))
  %8 = reshape(%7, shape=(N, 6, 4))
  %9 = exp(%8)
  return %2 as "a", %5 as "b", %9 as "c"
})",
          simplify_movement),
      R"(fn @main(%x: Tensor[(N, 6, 4), f32]) -> (Tensor[(N, 24), f32], Tensor[(4, N, 6), f32], Tensor[(N, 6, 4), f32]) {
  %10 = reshape(%x, shape=(N, 24))
  %2 = exp(%10)
  %11 = transpose(%x, axes=[2, 0, 1])
  %5 = exp(%11)
  %9 = exp(%x)
  return %2 as "a", %5 as "b", %9 as "c"
}
)");
}

TEST(SimplifyMovement, OutputsStayNodes) {
  const std::string text = R"(fn @main(%x: Tensor[(2, 3), f32]) -> Tensor[(2, 3), f32] {
  %0 = transpose(%x, axes=[1, 0])
  %1 = transpose(%0, axes=[1, 0])
  return %1
}
)";
  EXPECT_EQ(after(text, simplify_movement), text);
}

}  // namespace
}  // namespace gantry
