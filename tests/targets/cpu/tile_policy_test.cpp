// Which networks use tiles, and that they are computed in the precision that was asked for.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "host/codegen/find_target.h"
#include "host/support/error.h"
#include "tests/targets/cpu/tile_products.h"
#include "tests/targets/nest_facts.h"

namespace gantry {
namespace {

using namespace test;

TEST(TilePolicy, UsesTilesOnlyWhereThePrecisionAsksForThem) {
  const Graph graph = parse_graph(
      "fn @main(%x: Tensor[(64, 256), f32]) -> Tensor[(64, 256), f32] {\n"
      "  %y = nn.dense(%x, @w: Tensor[(256, 256), f32], units=256)\n  return %y\n}\n",
      op_set());
  auto uses_tiles = [&](const char* precision, const char* target) {
    CompileOptions options;
    options.precision = find_precision(precision);
    const LoweredProgram program = lower_program(graph, find_target(target), options);
    return test::has(program.kernels.at(0), StmtKind::kTile);
  };
  EXPECT_TRUE(uses_tiles("auto", kTarget));
  EXPECT_TRUE(uses_tiles("bf16", kTarget));
  EXPECT_FALSE(uses_tiles("fp32", kTarget));
  EXPECT_FALSE(uses_tiles("auto", "x86-64-v4"));
  for (const char* precision : {"bf16", "fp32-split", "fp32-split3"}) {
    EXPECT_TRUE(uses_tiles(precision, kArmTarget)) << precision;
    EXPECT_TRUE(uses_tiles(precision, "neoverse-v1")) << precision;
    EXPECT_TRUE(uses_tiles(precision, "cortex-a510")) << precision;
  }
  for (const char* precision : {"bf16", "fp32-split", "fp32-split3"}) {
    EXPECT_TRUE(uses_tiles(precision, kVectorTarget)) << precision;
    EXPECT_TRUE(uses_tiles(precision, "znver4")) << precision;
  }
  EXPECT_FALSE(uses_tiles("auto", kArmTarget));
  EXPECT_FALSE(uses_tiles("auto", "znver4"));
  EXPECT_THROW(uses_tiles("bf16", "neoverse-n1"), Error);
  EXPECT_THROW(uses_tiles("bf16", "x86-64-v4"), Error);
  EXPECT_THROW(uses_tiles("fp32-split", "aarch64"), Error);
  try {
    uses_tiles("fp32-split3", "cortex-a76");
    FAIL() << "a CPU without bfmmla";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("add +bf16"), std::string::npos) << error.what();
  }
}

/// A residual block between a first layer of few channels and a classifier.
Graph small_network() {
  const std::string conv = "dilations=[1, 1], padding=(1, 1, 1, 1))\n";
  return parse_graph(
      "fn @main(%x: Tensor[(1, 3, 33, 30), f32]) -> Tensor[(1, 10), f32] {\n"
      "  %a = nn.conv(%x, @w1: Tensor[(32, 3, 3, 3), f32], channels=32, kernel=[3, 3], strides=[2, 2], " +
          conv +
          "  %b = nn.relu(%a)\n"
          "  %c = nn.conv(%b, @w2: Tensor[(32, 32, 3, 3), f32], channels=32, kernel=[3, 3], strides=[1, "
          "1], " +
          conv +
          "  %d = add(%c, %b)\n"
          "  %e = nn.relu(%d)\n"
          "  %f = mean(%e, axes=[2, 3], keepdims=true)\n"
          "  %g = reshape(%f, shape=(1, 32))\n"
          "  %y = nn.dense(%g, @w3: Tensor[(32, 10), f32], units=10)\n  return %y\n}\n",
      op_set(),
      {{"w1", testing::random_tensor(DType::kF32, {32, 3, 3, 3}, 1)},
       {"w2", testing::random_tensor(DType::kF32, {32, 32, 3, 3}, 2)},
       {"w3", testing::random_tensor(DType::kF32, {32, 10}, 3)}});
}

/// `result`: of the network in a precision, for the same data.
void expect_precisions(const std::function<ConstantPtr(const char* precision)>& result) {
  const ConstantPtr exact = result("fp32");
  const double bf16 = testing::relative_error(*result("bf16"), *exact);
  EXPECT_LT(bf16, 2e-2);
  EXPECT_GT(bf16, 1e-5) << "computed in f32";
  EXPECT_LT(testing::relative_error(*result("fp32-split"), *exact), 1e-5);
  EXPECT_LT(testing::relative_error(*result("fp32-split3"), *exact), 5e-6);
}

TEST(TilePolicy, ComputesNetworksForArmInThePrecisionAskedFor) {
  if (!testing::emulated_board_program())
    GTEST_SKIP() << "no qemu-aarch64, or no gantry-device built for AArch64";
  const Graph graph = small_network();
  const ConstantPtr x = testing::random_tensor(DType::kF32, {1, 3, 33, 30}, 4);
  testing::EmulatedBoard board;
  expect_precisions([&](const char* precision) {
    const auto module = testing::compile_to_bytes(graph, {.target = kArmTarget, .precision = precision});
    return testing::run_on_board(board.client(), module, {x}).at(0);
  });
}

TEST(TilePolicy, ComputesNetworksByVectorsInThePrecisionAskedFor) {
  if (!this_cpu_has("avx512bf16")) GTEST_SKIP() << "this machine has no vector products of bf16 (avx512bf16)";
  const Graph graph = parse_graph(
      "fn @main(%x: Tensor[(64, 256), f32]) -> Tensor[(64, 96), f32] {\n"
      "  %a = nn.dense(%x, @w1: Tensor[(256, 320), f32], units=320)\n"
      "  %b = nn.relu(%a)\n"
      "  %y = nn.dense(%b, @w2: Tensor[(320, 96), f32], units=96)\n  return %y\n}\n",
      op_set(),
      {{"w1", testing::random_tensor(DType::kF32, {256, 320}, 1)},
       {"w2", testing::random_tensor(DType::kF32, {320, 96}, 2)}});
  const ConstantPtr x = testing::random_tensor(DType::kF32, {64, 256}, 4);
  expect_precisions([&](const char* precision) {
    const auto module = testing::compile_to_bytes(graph, {.target = kVectorTarget, .precision = precision});
    return testing::LocalModel(module, 2).run({x}).at(0);
  });
}

TEST(TilePolicy, LeavesImagesOfUnknownSizeToMultiplyAdds) {
  const Graph graph = parse_graph(
      "fn @main(%x: Tensor[(1, 64, h, w), f32]) -> Tensor[(1, 64, h, w), f32] {\n"
      "  %y = nn.conv(%x, @w: Tensor[(64, 64, 1, 1), f32], channels=64, kernel=[1, 1], strides=[1, 1], "
      "dilations=[1, 1], padding=(0, 0, 0, 0))\n  return %y\n}\n",
      op_set());
  for (const LoopKernel& kernel : lower_program(graph, find_target(kTarget), {}).kernels)
    EXPECT_FALSE(test::has(kernel, StmtKind::kTile));
}

TEST(TilePolicy, ProductsOfNothingTakeNoKernel) {
  const Graph graph = parse_graph(
      "fn @main(%a: Tensor[(2, 0, 8), f32], %b: Tensor[(2, 8, 0), f32]) -> Tensor[(2, 0, 0), f32] {\n"
      "  %y = matmul(%a, %b)\n  return %y\n}\n",
      op_set());
  for (const char* target : {kTarget, "x86-64-v3"})
    EXPECT_EQ(lower_program(graph, find_target(target), {}).kernels.size(), 0U);
}

}  // namespace
}  // namespace gantry
