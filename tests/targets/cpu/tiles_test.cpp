// Convolutions and matrix products on tiles of bf16: their code run against float64, for AMX on the CPU or
// emulated, for vdpbf16ps where this CPU has it, for bfmmla on an emulated AArch64.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/targets/cpu/tile_products.h"

namespace gantry {
namespace {

using namespace test;

double conv_error(const Layer& l, const Arithmetic& by) {
  Graph graph = network(l, by);
  const ConstantPtr weight = graph.main.constants().at(0)->constant;
  const ConstantPtr x = testing::random_tensor(DType::kF32, l.data(), 7);
  return relative_error(run_graph(graph, x, by.unit), l.rectified(x->as<float>(), weight));
}

class TilesOnCpu : public ::testing::TestWithParam<Arithmetic> {
 protected:
  void SetUp() override {
    const TileUnit unit = GetParam().unit;
    if (unit == kAmx && !has_tile_registers())
      GTEST_SKIP() << "neither tile registers (amx-bf16) nor AVX512-BF16, beside which they are emulated";
    if (unit == kVdpbf16ps && !this_cpu_has("avx512bf16"))
      GTEST_SKIP() << "this machine has no vector products of bf16 (avx512bf16)";
    if (unit == kBfmmla && !testing::emulated_board_program())
      GTEST_SKIP() << "no qemu-aarch64, or no gantry-device built for AArch64";
  }
  void check(const Layer& layer) const { EXPECT_LT(conv_error(layer, GetParam()), bound(GetParam())); }
};

TEST_P(TilesOnCpu, MatchTheDefinition) {
  check({});
}
TEST_P(TilesOnCpu, TakeOneByOneWindows) {
  check({.height = 13, .width = 11, .kernel = 1, .padding = {0, 0, 0, 0}});
}
TEST_P(TilesOnCpu, TakeStridedWindows) {
  check({.height = 15, .width = 18, .stride = 2});
  check({.height = 15, .width = 18, .kernel = 1, .stride = 2, .padding = {0, 0, 0, 0}});
  check({.height = 17, .width = 20, .kernel = 5, .stride = 3, .padding = {2, 2, 2, 2}});
}
TEST_P(TilesOnCpu, TakeDilatedWindows) {
  check({.dilation = 2, .padding = {2, 2, 2, 2}});
}
TEST_P(TilesOnCpu, TakeUnevenPadding) {
  check({.height = 9, .width = 12, .padding = {0, 2, 1, 0}});
  check({.batch = 2, .height = 9, .width = 12, .padding = {1, 0, 1, 0}});
  check({.batch = 2, .height = 9, .width = 12, .dilation = 2, .padding = {0, 2, 0, 2}});
}
TEST_P(TilesOnCpu, TakeChannelsThatAreNoMultipleOfATile) {
  check({.height = 8, .width = 7, .inputs = 41, .outputs = 37});
  check({.height = 8, .width = 7, .inputs = 33, .outputs = 10});
}
TEST_P(TilesOnCpu, TakeTheFewChannelsOfAFirstLayer) {
  check({.height = 32,
         .width = 30,
         .inputs = 3,
         .outputs = 64,
         .kernel = 7,
         .stride = 2,
         .padding = {3, 3, 3, 3}});
  check({.height = 20, .width = 21, .inputs = 3, .outputs = 24, .stride = 2, .padding = {0, 1, 1, 0}});
}
TEST_P(TilesOnCpu, TakeSeveralImages) {
  check({.batch = 3, .height = 6, .width = 5});
  check({.batch = 2, .height = 7, .width = 7, .kernel = 1, .padding = {0, 0, 0, 0}});
}
TEST_P(TilesOnCpu, TakeSequences) {
  check({.width = 100, .padding = {1, 1}});
  check({.width = 90, .kernel = 1, .padding = {0, 0}});
  check({.width = 121, .kernel = 5, .stride = 3, .padding = {4, 0}});
  check({.width = 70, .dilation = 8, .padding = {16, 0}});
  check({.batch = 3, .width = 41, .inputs = 33, .outputs = 10, .padding = {2, 1}});
  check({.batch = 2, .width = 64, .inputs = 3, .outputs = 40, .kernel = 11, .stride = 2, .padding = {5, 5}});
  check({.width = 400, .inputs = 96, .outputs = 128, .padding = {1, 1}});
}
TEST_P(TilesOnCpu, TakeAnUnknownNumberOfImages) {
  for (const Layer& layer :
       {Layer{.batch = 3, .height = 9, .width = 7, .inputs = 20, .outputs = 24},
        Layer{.batch = 3, .width = 50, .inputs = 20, .outputs = 24, .padding = {1, 1}}}) {
    Graph graph = network(layer, GetParam(), "n");
    const ConstantPtr weight = graph.main.constants().at(0)->constant;
    const ConstantPtr x = testing::random_tensor(DType::kF32, layer.data(), 7);
    EXPECT_LT(relative_error(run_graph(graph, x, GetParam().unit), layer.rectified(x->as<float>(), weight)),
              bound(GetParam()));
  }
}
TEST_P(TilesOnCpu, TakeImagesOfManyBlocks) {
  check({.height = 56, .width = 56, .inputs = 32, .outputs = 32});
  check({.height = 3, .width = 600, .inputs = 32, .outputs = 32});
  check({.height = 40, .width = 41, .inputs = 32, .outputs = 160, .kernel = 1, .padding = {0, 0, 0, 0}});
}
TEST_P(TilesOnCpu, TakeWeightsLargerThanTheCache) {
  check({.height = 7, .width = 7, .inputs = 256, .outputs = 256});
}
INSTANTIATE_TEST_SUITE_P(Parts, TilesOnCpu,
                         ::testing::Values(Arithmetic{kAmx, 1}, Arithmetic{kAmx, 2},
                                           Arithmetic{kAmx, 3}, Arithmetic{kBfmmla, 1},
                                           Arithmetic{kBfmmla, 2}, Arithmetic{kBfmmla, 3},
                                           Arithmetic{kVdpbf16ps, 1}, Arithmetic{kVdpbf16ps, 2},
                                           Arithmetic{kVdpbf16ps, 3}),
                         [](const auto& test) {
                           return std::string(name_of(test.param.unit)) + std::to_string(test.param.parts);
                         });

TEST_P(TilesOnCpu, ConvolveWhatArithmeticMakesOfTheData) {
  // Blocks of rows that make what they read; all rows made once a thread; several images.
  for (const Layer& layer :
       {Layer{.height = 14, .inputs = 96, .outputs = 48, .kernel = 1, .padding = {0, 0, 0, 0}},
        Layer{.height = 9, .inputs = 264, .outputs = 1056, .kernel = 1, .padding = {0, 0, 0, 0}},
        Layer{.batch = 3, .height = 5, .kernel = 1, .padding = {0, 0, 0, 0}}}) {
    const Graph graph = network(layer, GetParam(), "", true);
    const ConstantPtr weight = graph.main.constants().at(0)->constant;
    const ConstantPtr x = testing::random_tensor(DType::kF32, layer.data(), 7);
    std::vector<float> squares(x->as<float>(), x->as<float>() + x->size / sizeof(float));
    for (float& value : squares) value = value > 0 ? value * value : 0;
    EXPECT_LT(relative_error(run_graph(graph, x, GetParam().unit), layer.rectified(squares.data(), weight)),
              bound(GetParam()))
        << layer.inputs << " to " << layer.outputs;
  }
}

TEST_P(TilesOnCpu, MultiplyMatricesOfAnySize) {
  for (auto [rows, depth, units] : {std::array<int64_t, 3>{1, 64, 48},
                                    {7, 96, 16},
                                    {33, 40, 100},
                                    {130, 64, 64},
                                    {300, 33, 129},
                                    {128, 2080, 48},
                                    {49, 96, 64},
                                    {196, 64, 96},
                                    {11, 64, 64}}) {
    Graph graph = dense_network(std::to_string(rows), depth, units, GetParam());
    const ConstantPtr weight = graph.main.constants().at(0)->constant;
    const ConstantPtr x = testing::random_tensor(DType::kF32, {rows, depth}, 3);
    EXPECT_LT(relative_error(run_graph(graph, x, GetParam().unit),
                             expected_product(x->as<float>(), weight->as<float>(), rows, depth, units)),
              bound(GetParam()))
        << rows << " x " << depth << " x " << units;
  }
}

/// One program for all of these numbers of rows.
void expect_open_products(int64_t depth, int64_t units, const Arithmetic& by,
                          const std::vector<int64_t>& lengths) {
  const Graph graph = dense_network("n", depth, units, by);
  const ConstantPtr weight = graph.main.constants().at(0)->constant;
  const std::vector<std::byte> module = module_of(graph, by.unit);
  for (int64_t rows : lengths) {
    const ConstantPtr x = testing::random_tensor(DType::kF32, {rows, depth}, 5);
    EXPECT_LT(relative_error(run_module(module, x, by.unit),
                             expected_product(x->as<float>(), weight->as<float>(), rows, depth, units)),
              bound(by))
        << rows << " x " << depth << " x " << units;
  }
}

TEST_P(TilesOnCpu, MultiplyMatricesOfUnknownHeight) {
  expect_open_products(64, 96, GetParam(), {1, 2, 15, 16, 17, 31, 32, 33, 100, 127, 128, 129, 400});
}
// Sums lie in memory between parts of the depth.
TEST_P(TilesOnCpu, MultiplyDeepMatricesOfUnknownHeight) {
  expect_open_products(2080, 48, GetParam(), {1, 17, 33, 129});
}

}  // namespace
}  // namespace gantry
