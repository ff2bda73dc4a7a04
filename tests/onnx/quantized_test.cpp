// Quantised ops against their definitions in doubles.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "host/ops/reduce.h"
#include "host/support/error.h"
#include "tests/onnx/quantized.h"

namespace gantry {
namespace {

using namespace quantized;  // NOLINT

TEST(Quantize, TakesBlocksOfWhichTheLastIsShorter) {
  const Floats x{1, 2, 3, 4, 5, -1, -2, -3, -4, -5};
  OneNode node("", "QuantizeLinear", 21);
  node.input<float>(DType::kF32, {2, 5}, x).input<float>(DType::kF32, {2, 3}, {1, 2, 0.5F, 1, 4, 0.1F});
  node.input<int8_t>(DType::kI4, {2, 3}, {1, 0, -1, 0, 2, 0})
      .with("axis", int64_t{1})
      .with("block_size", int64_t{2});
  // Row 0: blocks of scales 1, 2, 0.5: x / scale + zero point; 3 / 2 and 4 / 2 round to 2 and 2, 5 / 0.5 - 1
  // is limited.
  EXPECT_THAT(node.run<int8_t>(DType::kI4), ::testing::ElementsAre(2, 3, 2, 2, 7, -1, -2, 1, 1, -8));
}

TEST(Quantize, HasParametersForEachBlock) {
  const auto with_blocks_of = [](int64_t block, int64_t count) {
    OneNode node("", "QuantizeLinear", 21);
    node.input<float>(DType::kF32, {2, 5}, {1, 2, 3, 4, 5, -1, -2, -3, -4, -5});
    node.input<float>(DType::kF32, {2, count}, Floats(static_cast<size_t>(2 * count), 2));
    node.with("axis", int64_t{1}).with("block_size", block).with("output_dtype", int64_t{3});
    return node.run<int8_t>(DType::kI8);
  };
  EXPECT_EQ(with_blocks_of(int64_t{1} << 40, 1), with_blocks_of(2, 3)) << "one of more than there are";
  EXPECT_THROW(with_blocks_of(int64_t{1} << 40, 3), Error);
  EXPECT_THROW(with_blocks_of(2, 2), Error);
}

TEST(Quantize, RoundsTiesToEvenAndLimitsWhatNoIntegerHolds) {
  OneNode node("", "QuantizeLinear", 13);
  node.input<float>(DType::kF32, {7}, {0.5F, 1.5F, 2.5F, -0.5F, 3e38F, -3e38F, 1e10F});
  parameters(node, 1, 10).with("axis", int64_t{0});
  EXPECT_THAT(node.run<uint8_t>(DType::kU8), ::testing::ElementsAre(10, 12, 12, 10, 255, 0, 255));
}

// Neither 24004 is a number of bf16's 8 bits, nor anything below zero one of f8e8m0fnu.
TEST(Quantize, DividesIntegersInMoreThanTheScalesTypeHolds) {
  OneNode by_bf16("", "QuantizeLinear", 24);
  by_bf16.input<int32_t>(DType::kI32, {2}, {-6000, 6001}).input<uint16_t>(DType::kBF16, {}, {0x3e80});
  EXPECT_THAT(by_bf16.with("output_dtype", int64_t{5}).run<int16_t>(DType::kI16),
              ::testing::ElementsAre(-24000, 24004));
  OneNode by_power("", "QuantizeLinear", 24);
  by_power.input<int32_t>(DType::kI32, {2}, {-9, 7}).input<uint8_t>(DType::kF8E8M0FNU, {}, {126});
  EXPECT_THAT(by_power.with("output_dtype", int64_t{5}).run<int16_t>(DType::kI16),
              ::testing::ElementsAre(-18, 14));
}

TEST(Quantize, SaturatesFloatsUnlessToldNotTo) {
  for (const int64_t saturate : {1, 0}) {
    OneNode node("", "QuantizeLinear", 19);
    node.input<float>(DType::kF32, {3}, {1000, 2, -INFINITY}).input<float>(DType::kF32, {}, {2});
    node.input<uint8_t>(DType::kF8E4M3FN, {}, {0}).with("saturate", saturate).with("axis", int64_t{0});
    const uint8_t large = saturate != 0 ? 0x7e : 0x7f, least = saturate != 0 ? 0xfe : 0xff;
    EXPECT_THAT(node.run<uint8_t>(DType::kF8E4M3FN), ::testing::ElementsAre(large, 0x38, least));
  }
}

TEST(Dequantize, HasAScaleForEachIndexOfItsAxis) {
  OneNode node("", "DequantizeLinear", 13);
  node.input<uint8_t>(DType::kU8, {2, 2}, {1, 2, 3, 255}).input<float>(DType::kF32, {2}, {0.5F, 2});
  node.input<uint8_t>(DType::kU8, {2}, {0, 128}).with("axis", int64_t{-2});
  EXPECT_THAT(node.run<float>(DType::kF32), ::testing::ElementsAre(0.5F, 1, -250, 254));
}

TEST(DynamicQuantize, OfZerosHasAScaleThatIsNotZero) {
  OneNode node("", "DynamicQuantizeLinear", 11, 3);
  node.input<float>(DType::kF32, {3}, {0, 0, 0});
  const std::vector<ConstantPtr> results = node.results();
  EXPECT_EQ(results[0]->as<uint8_t>()[1], 0);
  EXPECT_GT(results[1]->as<float>()[0], 0);
  EXPECT_EQ(results[2]->as<uint8_t>()[0], 0);
}

TEST(Cast, RoundsToPowersOfTwoByItsMode) {
  const Floats x{1, 1.25F, 1.5F, 3, 0x1p-127F, 1e38F};
  const std::vector<std::pair<const char*, Bytes>> modes{{"up", {127, 128, 128, 129, 0, 254}},
                                                         {"down", {127, 127, 127, 128, 0, 253}},
                                                         {"nearest", {127, 127, 128, 129, 0, 253}}};
  for (const auto& [mode, expected] : modes) {
    OneNode node("", "Cast", 24);
    node.input<float>(DType::kF32, {6}, x).with("to", int64_t{24}).with("round_mode", mode);
    EXPECT_THAT(node.run<uint8_t>(DType::kF8E8M0FNU), ::testing::ElementsAreArray(expected)) << mode;
  }
}

TEST(Cast, RoundsDownToTheLargestPowerOfTwoWithoutSaturation) {
  const Floats x{0x1.8p127F, 0x1.ccp127F, 0x1.3p127F, 0x1p127F, INFINITY, NAN, -1};
  OneNode node("", "Cast", 24);
  node.input<float>(DType::kF32, {7}, x).with("to", int64_t{24}).with("saturate", int64_t{0});
  EXPECT_THAT(node.with("round_mode", "down").run<uint8_t>(DType::kF8E8M0FNU),
              ::testing::ElementsAre(0xfe, 0xfe, 0xfe, 0xfe, 0xff, 0xff, 0xff));
  OneNode of_doubles("", "Cast", 24);
  of_doubles.input<double>(DType::kF64, {4}, {0x1.8p127, 0x1.fffffffffffffp127, 0x1p128, 0x1p-127})
      .with("to", int64_t{24})
      .with("saturate", int64_t{0});
  EXPECT_THAT(of_doubles.with("round_mode", "down").run<uint8_t>(DType::kF8E8M0FNU),
              ::testing::ElementsAre(0xfe, 0xfe, 0xff, 0));
}

TEST(QLinear, AddAndMulBroadcastWhatTheyReadAsFloats) {
  const Bytes a = random_bytes<uint8_t>(12, 1), b = random_bytes<uint8_t>(4, 2);
  for (const bool adds : {true, false}) {
    OneNode node(kMicrosoft, adds ? "QLinearAdd" : "QLinearMul", 13);
    parameters(node.input(DType::kU8, {3, 4}, a), 0.1F, 100);
    parameters(node.input(DType::kU8, {4}, b), 0.2F, 30);
    parameters(node, adds ? 0.3F : 1.5F, 90);
    std::vector<double> expected;
    for (size_t i = 0; i < a.size(); ++i) {
      const double x = (a[i] - 100) * 0.1, y = (b[i % 4] - 30) * 0.2;
      expected.push_back(to_byte(adds ? (x + y) / 0.3 : x * y / 1.5, 90));
    }
    expect_steps(node.run<uint8_t>(DType::kU8), expected);
  }
}

TEST(QLinear, FunctionsOfOneElementAreThoseOfFloats) {
  const Bytes x = random_bytes<uint8_t>(256, 3);
  for (const bool sigmoid : {true, false}) {
    OneNode node(kMicrosoft, sigmoid ? "QLinearSigmoid" : "QLinearLeakyRelu", 13);
    parameters(node.input(DType::kU8, {256}, x), 0.05F, 120);
    parameters(node, sigmoid ? 1.0F / 256 : 0.06F, sigmoid ? 0 : 50);
    if (!sigmoid) node.with("alpha", 0.25);
    std::vector<double> expected;
    for (const uint8_t each : x) {
      const double v = (each - 120) * 0.05;
      expected.push_back(sigmoid ? to_byte(256 / (1 + std::exp(-v)), 0)
                                 : to_byte((v < 0 ? 0.25 * v : v) / 0.06, 50));
    }
    expect_steps(node.run<uint8_t>(DType::kU8), expected);
  }
}

TEST(QLinear, ConcatGivesItsPartsOneScale) {
  OneNode node(kMicrosoft, "QLinearConcat", 13);
  parameters(node, 0.5F, 10);
  parameters(node.input<uint8_t>(DType::kU8, {1, 2}, {20, 30}), 1, 20);
  parameters(node.input<uint8_t>(DType::kU8, {1, 1}, {200}), 0.25F, 0).with("axis", int64_t{1});
  EXPECT_THAT(node.run<uint8_t>(DType::kU8), ::testing::ElementsAre(10, 30, 110));
}

TEST(QLinear, GlobalAverageIsOfExactSums) {
  const Bytes x = random_bytes<uint8_t>(2 * 3 * 100, 4);
  OneNode node(kMicrosoft, "QLinearGlobalAveragePool", 13);
  parameters(node.input(DType::kU8, {2, 3, 10, 10}, x), 0.1F, 7);
  parameters(node, 0.02F, 3);
  std::vector<double> expected;
  for (size_t c = 0; c < 6; ++c) {
    double sum = 0;
    for (size_t i = 0; i < 100; ++i) sum += x[c * 100 + i] - 7;
    expected.push_back(to_byte(sum / 100 * 0.1 / 0.02, 3));
  }
  expect_steps(node.run<uint8_t>(DType::kU8), expected);
}

TEST(QLinear, ReduceMeanIsOverTheAxesItLists) {
  OneNode node(kMicrosoft, "QLinearReduceMean", 13);
  parameters(node.input<uint8_t>(DType::kU8, {2, 2, 2}, {10, 20, 30, 40, 50, 60, 70, 90}), 0.5F, 10);
  parameters(node, 0.25F, 3).with_list("axes", {-1, 0}).with("keepdims", int64_t{0});
  // Sums of x - 10 are 100 and 190; a fourth of that, in steps of half the size.
  EXPECT_THAT(node.results()[0]->type.shape, ::testing::ElementsAre(Dim(2)));
  EXPECT_THAT(node.run<uint8_t>(DType::kU8), ::testing::ElementsAre(53, 98));
}

TEST(QLinear, ReduceMeanWithoutZeroPointsAndAxesIsOfAll) {
  OneNode node(kMicrosoft, "QLinearReduceMean", 13);
  node.input<int8_t>(DType::kI8, {2, 2}, {-7, 1, 3, 9}).input<float>(DType::kF32, {}, {2}).absent();
  node.input<float>(DType::kF32, {}, {0.5F});
  EXPECT_THAT(node.run<int8_t>(DType::kI8), ::testing::ElementsAre(6));
}

/// Of the node's sum.
DType type_of_sum(const OneNode& node) {
  const Graph graph = node.graph();
  for (const Node* each : graph.main.nodes()) {
    if (each->is(op::sum)) return each->result()->type.dtype;
  }
  ADD_FAILURE() << "no sum";
  return DType::kBool;
}

TEST(QLinear, MeansOfMoreBytesThanI32HoldsTheSumOfAreSummedInI64) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max() / 255;
  for (const int64_t count : {kMost, kMost + 1}) {
    OneNode node(kMicrosoft, "QLinearReduceMean", 13);
    parameters(node.input(DType::kU8, {count}, Bytes(static_cast<size_t>(count), 255)), 1, 0);
    parameters(node, 1, 0);
    EXPECT_EQ(type_of_sum(node), count > kMost ? DType::kI64 : DType::kI32) << count;
  }
}

TEST(Integers, SumsAndProductsAreIn32Bits) {
  OneNode sum(kMicrosoft, "ReduceSumInteger", 13);
  sum.input<uint8_t>(DType::kU8, {2, 2}, {255, 254, 1, 2})
      .with_list("axes", {1})
      .with("keepdims", int64_t{0});
  EXPECT_THAT(sum.run<uint32_t>(DType::kU32), ::testing::ElementsAre(509, 3));
  OneNode signed_sum(kMicrosoft, "ReduceSumInteger", 13);
  signed_sum.input<int8_t>(DType::kI8, {2}, {-128, -127}).with_list("axes", {0}).with("keepdims", int64_t{1});
  EXPECT_THAT(signed_sum.run<int32_t>(DType::kI32), ::testing::ElementsAre(-255));
  OneNode product(kMicrosoft, "MulInteger", 13);
  product.input<uint8_t>(DType::kU8, {2, 2}, {255, 254, 1, 2}).input<uint8_t>(DType::kU8, {}, {100});
  product.input<uint8_t>(DType::kU8, {2}, {0, 250});
  EXPECT_THAT(product.run<int32_t>(DType::kI32), ::testing::ElementsAre(0, 38500, 0, -24500));
}

TEST(Integers, MatricesOf16BitsHaveAProductOf32) {
  OneNode node(kMicrosoft, "MatMulInteger16", 13);
  node.input<int16_t>(DType::kI16, {2, 2}, {30000, -2, 3, 4})
      .input<int16_t>(DType::kI16, {2, 1}, {-30000, 7});
  EXPECT_THAT(node.run<int32_t>(DType::kI32), ::testing::ElementsAre(-900000014, -89972));
  OneNode without_sign(kMicrosoft, "MatMulInteger16", 13);
  without_sign.input<uint16_t>(DType::kU16, {1, 1}, {65535}).input<uint16_t>(DType::kU16, {1, 1}, {65535});
  EXPECT_THAT(without_sign.run<uint32_t>(DType::kU32), ::testing::ElementsAre(4294836225U));
}

TEST(QLinear, AveragePoolCountsTheWindowWithoutItsPadding) {
  OneNode node(kMicrosoft, "QLinearAveragePool", 13);
  parameters(node.input<uint8_t>(DType::kU8, {1, 1, 4}, {10, 20, 40, 60}), 0.5F, 10);
  parameters(node, 1, 5)
      .with("auto_pad", "SAME_UPPER")
      .with_list("kernel_shape", {3})
      .with_list("strides", {1});
  // (x - 10) / 2 = 0, 5, 15, 25: means of 2, 3, 3 and 2; ties to even.
  EXPECT_THAT(node.run<uint8_t>(DType::kU8), ::testing::ElementsAre(7, 12, 20, 25));
}

TEST(QLinear, SoftmaxBeforeOpset13IsOverAllAxesFromItsOwn) {
  const Bytes x = random_bytes<uint8_t>(12, 20);
  for (const int64_t opset : {11, 13}) {
    OneNode node(kMicrosoft, "QLinearSoftmax", 13);
    parameters(node.input(DType::kU8, {2, 3, 2}, x), 0.02F, 100);
    parameters(node, 1.0F / 256, 0).with("axis", int64_t{1}).with("opset", opset);
    const size_t step = opset < 13 ? 1 : 2, extent = opset < 13 ? 6 : 3;
    std::vector<double> expected(12);
    for (size_t i = 0; i < 12; ++i) {
      const size_t first = i / 6 * 6 + (opset < 13 ? 0 : i % 2);
      double total = 0;
      for (size_t k = 0; k < extent; ++k) total += std::exp((x[first + k * step] - 100) * 0.02);
      expected[i] = to_byte(256 * std::exp((x[i] - 100) * 0.02) / total, 0);
    }
    expect_steps(node.run<uint8_t>(DType::kU8), expected);
  }
}

TEST(QLinear, WhereGivesBothOneScale) {
  OneNode node(kMicrosoft, "QLinearWhere", 13);
  node.input<uint8_t>(DType::kBool, {3}, {1, 0, 1});
  parameters(node.input<uint8_t>(DType::kU8, {3}, {10, 20, 30}), 1, 10);
  parameters(node.input<uint8_t>(DType::kU8, {}, {40}), 0.5F, 0);
  parameters(node, 2, 3);
  EXPECT_THAT(node.run<uint8_t>(DType::kU8), ::testing::ElementsAre(3, 13, 13));
}

}  // namespace
}  // namespace gantry
