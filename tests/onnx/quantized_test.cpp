// Quantised ops against their definitions in doubles.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "host/ops/reduce.h"
#include "host/support/error.h"
#include "host/tensor/element.h"
#include "tests/onnx/one_node.h"

namespace gantry {
namespace {

using testing::OneNode;
using Bytes = std::vector<uint8_t>;
using SignedBytes = std::vector<int8_t>;
using Floats = std::vector<float>;
constexpr const char* kMicrosoft = "com.microsoft";

template <typename T>
std::vector<T> random_bytes(size_t count, uint32_t seed, int low = 0, int high = 255) {
  std::mt19937 generator(seed);
  std::uniform_int_distribution<int> any(low, high);
  std::vector<T> values(count);
  for (T& value : values) value = static_cast<T>(any(generator));
  return values;
}

double to_byte(double x, double zero_point, double low = 0, double high = 255) {
  return std::clamp(std::nearbyint(x) + zero_point, low, high);
}

/// Results that are quantised in f32 may be one step from those that were computed in doubles, at a tie.
template <typename T>
void expect_steps(const std::vector<T>& actual, const std::vector<double>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  int off = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double difference = std::fabs(static_cast<double>(actual[i]) - expected[i]);
    EXPECT_LE(difference, 1) << i;
    if (difference > 0) ++off;
  }
  EXPECT_LE(off, 1 + static_cast<int>(actual.size()) / 50);
}
void expect_near(const Floats& actual, const std::vector<double>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i)
    EXPECT_NEAR(static_cast<double>(actual[i]), expected[i], 1e-5 * (1 + std::fabs(expected[i]))) << i;
}

OneNode& parameters(OneNode& node, float scale, uint8_t zero_point) {
  return node.input<float>(DType::kF32, {}, {scale}).input<uint8_t>(DType::kU8, {}, {zero_point});
}

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

TEST(Products, GemmHasAScaleForEachColumnAndABiasInItsUnits) {
  const Bytes a = random_bytes<uint8_t>(3 * 4, 5);
  const SignedBytes b = random_bytes<int8_t>(2 * 4, 6, -128, 127);
  for (const bool quantised : {false, true}) {
    OneNode node(kMicrosoft, "QGemm", 13);
    parameters(node.input(DType::kU8, {3, 4}, a), 0.1F, 100);
    node.input(DType::kI8, {2, 4}, b).input<float>(DType::kF32, {2}, {0.2F, 0.3F});
    node.input<int8_t>(DType::kI8, {2}, {5, -6}).input<int32_t>(DType::kI32, {2}, {1000, -2000});
    if (quantised) parameters(node, 20, 128);
    node.with("transB", int64_t{1}).with("alpha", 0.5);
    std::vector<double> expected;
    for (size_t i = 0; i < 3; ++i) {
      for (size_t j = 0; j < 2; ++j) {
        double sum = j == 0 ? 1000 : -2000;
        for (size_t k = 0; k < 4; ++k) sum += (a[i * 4 + k] - 100) * (b[j * 4 + k] - (j == 0 ? 5 : -6));
        const double y = 0.5 * 0.1 * (j == 0 ? 0.2 : 0.3) * sum;
        expected.push_back(quantised ? to_byte(y / 20, 128) : y);
      }
    }
    if (quantised)
      expect_steps(node.run<uint8_t>(DType::kU8), expected);
    else
      expect_near(node.run<float>(DType::kF32), expected);
  }
}

TEST(Products, ToFloatsAndOfDataThatAreQuantisedOnTheWay) {
  const SignedBytes b = random_bytes<int8_t>(4 * 3, 7, -128, 127);
  const Bytes a = random_bytes<uint8_t>(2 * 4, 8);
  std::vector<double> expected;
  for (size_t i = 0; i < 2; ++i) {
    for (size_t j = 0; j < 3; ++j) {
      double sum = 0;
      for (size_t k = 0; k < 4; ++k) sum += (a[i * 4 + k] - 128) * (b[k * 3 + j] - 1);
      expected.push_back(sum * 0.1 * (0.1 * static_cast<double>(j + 1)) + static_cast<double>(j));
    }
  }
  const Floats scales{0.1F, 0.2F, 0.3F}, bias{0, 1, 2};
  OneNode node(kMicrosoft, "MatMulIntegerToFloat", 13);
  node.input(DType::kU8, {2, 4}, a).input(DType::kI8, {4, 3}, b).input<float>(DType::kF32, {}, {0.1F});
  node.input(DType::kF32, {3}, scales)
      .input<uint8_t>(DType::kU8, {}, {128})
      .input<int8_t>(DType::kI8, {3}, {1, 1, 1});
  expect_near(node.input(DType::kF32, {3}, bias).run<float>(DType::kF32), expected);

  // Data from -25.5 to 0 in steps of 0.1 are what they were before.
  Floats x{-25.5F, 0};
  for (size_t k = 0; k < 6; ++k) x.push_back(-0.1F * static_cast<float>(k * 10));
  OneNode dynamic(kMicrosoft, "DynamicQuantizeMatMul", 13);
  dynamic.input(DType::kF32, {2, 4}, x).input(DType::kI8, {4, 3}, b).input(DType::kF32, {3}, scales);
  const Floats y =
      dynamic.input<int8_t>(DType::kI8, {3}, {1, 1, 1}).input(DType::kF32, {3}, bias).run<float>(DType::kF32);
  for (size_t i = 0; i < 2; ++i) {
    for (size_t j = 0; j < 3; ++j) {
      double sum = static_cast<double>(bias[j]);
      for (size_t k = 0; k < 4; ++k)
        sum += static_cast<double>(x[i * 4 + k]) * (b[k * 3 + j] - 1) * static_cast<double>(scales[j]);
      EXPECT_NEAR(static_cast<double>(y[i * 3 + j]), sum, 1e-3) << i << " " << j;
    }
  }
}

/// Rows of K elements of `bits` as MatMulNBits packs them.
Bytes packed(const Bytes& elements, int64_t rows, int64_t depth, int64_t padded, int64_t bits) {
  Bytes bytes(static_cast<size_t>(rows * padded * bits / 8));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t k = 0; k < depth; ++k) {
      const int64_t bit = (r * padded + k) * bits;
      bytes[static_cast<size_t>(bit / 8)] |=
          static_cast<uint8_t>(elements[static_cast<size_t>(r * depth + k)] << (bit % 8));
    }
  }
  return bytes;
}

/// MatMulNBits of blocks of 16 elements, with a g_idx of that many entries (0: none) that is in no order.
void expect_few_bits(int64_t bits, bool with_zero_points, int64_t indices) {
  constexpr int64_t kRows = 3, kDepth = 40, kBlock = 16, kBlocks = 3;
  const auto block_of = [&](int64_t k) { return indices == 0 ? k / kBlock : (k * 5 + 1) % kBlocks; };
  const Bytes b = random_bytes<uint8_t>(kRows * kDepth, 9, 0, (1 << bits) - 1);
  const Bytes zeros = random_bytes<uint8_t>(kRows * kBlocks, 10, 0, (1 << bits) - 1);
  Floats x, scales;
  for (int i = 0; i < 2 * kDepth; ++i) x.push_back(std::sin(static_cast<float>(i)));
  for (int i = 0; i < kRows * kBlocks; ++i) scales.push_back(0.1F + 0.01F * static_cast<float>(i));
  OneNode node(kMicrosoft, "MatMulNBits", 21);
  node.input(DType::kF32, {2, kDepth}, x);
  node.input(DType::kU8, {kRows, kBlocks, kBlock * bits / 8},
             packed(b, kRows, kDepth, kBlock * kBlocks, bits));
  node.input(DType::kF32, {kRows * kBlocks}, scales);
  const int64_t zero_bytes = (kBlocks * bits + 7) / 8;
  if (with_zero_points)
    node.input(DType::kU8, {kRows * zero_bytes}, packed(zeros, kRows, kBlocks, zero_bytes * 8 / bits, bits));
  else
    node.absent();
  std::vector<int32_t> blocks(static_cast<size_t>(indices));
  for (int64_t k = 0; k < std::min(indices, kDepth); ++k)
    blocks[static_cast<size_t>(k)] = static_cast<int32_t>(block_of(k));
  if (indices != 0) node.input(DType::kI32, {indices}, blocks);
  node.with("K", kDepth).with("N", kRows).with("bits", bits).with("block_size", kBlock);
  std::vector<double> expected;
  for (int64_t m = 0; m < 2; ++m) {
    for (int64_t r = 0; r < kRows; ++r) {
      double sum = 0;
      for (int64_t k = 0; k < kDepth; ++k) {
        const auto group = static_cast<size_t>(r * kBlocks + block_of(k));
        const double zero = with_zero_points ? zeros[group] : 1 << (bits - 1);
        sum += static_cast<double>(x[static_cast<size_t>(m * kDepth + k)]) *
               static_cast<double>(scales[group]) * (b[static_cast<size_t>(r * kDepth + k)] - zero);
      }
      expected.push_back(sum);
    }
  }
  expect_near(node.run<float>(DType::kF32), expected);
}

TEST(Products, OfFewBitsHaveAScaleAndAZeroPointABlock) {
  for (const int64_t bits : {2, 4, 8}) {
    for (const bool with_zero_points : {false, true}) expect_few_bits(bits, with_zero_points, 0);
  }
}

// K is 40, in three blocks of 16.
TEST(Products, OfFewBitsHaveTheBlocksOfGidxWhichMayBePadded) {
  for (const int64_t indices : {40, 48}) {
    for (const bool with_zero_points : {false, true}) expect_few_bits(4, with_zero_points, indices);
  }
}

TEST(Products, OfFewBitsThatAreLaidOutForAKernelAreRefused) {
  for (const int64_t layout : {0, 1, 2}) {
    OneNode node(kMicrosoft, "MatMulNBits", 21);
    node.input(DType::kF32, {1, 16}, Floats(16, 1)).input(DType::kU8, {1, 1, 8}, Bytes(8, 0x99));
    node.input(DType::kF32, {1}, Floats{0.5F}).with("K", int64_t{16}).with("N", int64_t{1});
    node.with("bits", int64_t{4}).with("block_size", int64_t{16}).with("weight_prepacked", layout);
    if (layout == 0) {
      expect_near(node.run<float>(DType::kF32), {8});  // 16 times (9 - 8) * 0.5
      continue;
    }
    try {
      node.results();
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr(fmt::format("a weight_prepacked of {}", layout)));
    }
  }
}

/// 5 columns of 7 elements: an odd number, in blocks of 16 that end within a row.
TEST(Products, OfFp4AndNf4HaveALargestMagnitudeABlock) {
  constexpr int64_t kDepth = 7, kColumns = 5, kBlock = 16, kCount = kDepth * kColumns;
  const std::vector<double> fp4{0,   0.0625 / 12,  8. / 12,  1,  4. / 12,  0.5,  2. / 12,  0.25,
                                -0., -0.0625 / 12, -8. / 12, -1, -4. / 12, -0.5, -2. / 12, -0.25};
  // What ONNX Runtime multiplies the identity with.
  const std::vector<double> nf4{-1.0,
                                -0.6961928009986877,
                                -0.5250730514526367,
                                -0.39491748809814453,
                                -0.28444138169288635,
                                -0.18477343022823334,
                                -0.09105003625154495,
                                0,
                                0.07958029955625534,
                                0.16093020141124725,
                                0.24611230194568634,
                                0.33791524171829224,
                                0.44070982933044434,
                                0.5626170039176941,
                                0.7229568362236023,
                                1.0};
  const Bytes codes = random_bytes<uint8_t>(kCount, 13, 0, 15);
  Bytes bytes((kCount + 1) / 2);
  for (size_t i = 0; i < codes.size(); ++i)
    bytes[i / 2] |= static_cast<uint8_t>(codes[i] << (i % 2 == 0 ? 4 : 0));
  const Floats magnitudes{0.5F, 2, 1.25F};
  Floats x;
  for (int i = 0; i < 2 * kDepth; ++i) x.push_back(std::sin(static_cast<float>(i)));
  for (const int64_t kind : {0, 1}) {
    OneNode node(kMicrosoft, "MatMulBnb4", 21);
    node.input(DType::kF32, {2, kDepth}, x).input(DType::kU8, {(kCount + 1) / 2}, bytes);
    node.input(DType::kF32, {3}, magnitudes).with("K", kDepth).with("N", kColumns);
    node.with("block_size", kBlock).with("quant_type", kind);
    std::vector<double> expected;
    for (int64_t m = 0; m < 2; ++m) {
      for (int64_t c = 0; c < kColumns; ++c) {
        double sum = 0;
        for (int64_t k = 0; k < kDepth; ++k) {
          const auto at = static_cast<size_t>(c * kDepth + k);
          sum += static_cast<double>(x[static_cast<size_t>(m * kDepth + k)]) *
                 (kind == 0 ? fp4 : nf4)[codes[at]] * static_cast<double>(magnitudes[at / kBlock]);
        }
        expected.push_back(sum);
      }
    }
    expect_near(node.run<float>(DType::kF32), expected);
  }
}

TEST(Products, OfOtherCodesThanFp4AndNf4AreRefused) {
  OneNode node(kMicrosoft, "MatMulBnb4", 21);
  node.input<float>(DType::kF32, {1, 2}, {1, 2}).input<uint8_t>(DType::kU8, {2}, {0, 0});
  node.input<float>(DType::kF32, {1}, {1}).with("K", int64_t{2}).with("N", int64_t{2});
  node.with("block_size", int64_t{16}).with("quant_type", int64_t{2});
  try {
    node.results();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("its quant_type is 2, neither 0 (FP4) nor 1 (NF4)"));
  }
}

/// QAttention over 3 rows with 2 heads of 2 features each, by its definition.
struct SmallAttention {
  static constexpr int kLength = 3, kWidth = 2, kHeads = 2, kHidden = kWidth * kHeads, kInputs = 4;

  double scale, step;  ///< of data and of weight; of the bias from a column to the next
  int past = 0;        ///< keys before those of the data
  Bytes x = random_bytes<uint8_t>(kLength * kInputs, 11);
  SignedBytes w = random_bytes<int8_t>(kInputs * 3 * kHidden, 12, -128, 127);

  double projection(int row, int column) const {
    double sum = 0;
    for (int k = 0; k < kInputs; ++k) sum += (x[row * kInputs + k] - 128) * w[k * 3 * kHidden + column];
    return sum * scale * scale + step * column;
  }
  /// Feature d of key k, or of its value (of = 1).
  double kept(int of, int head, int k, int d) const {
    if (k >= past) return projection(k - past, (of + 1) * kHidden + head * kWidth + d);
    return 0.25 * (of + head) - 0.5 * (k + d);
  }
  /// Keys and values of the first `keys`, (2, 1, kHeads, keys, kWidth).
  std::vector<double> all_kept(int keys) const {
    std::vector<double> all;
    for (const int of : {0, 1})
      for (int head = 0; head < kHeads; ++head)
        for (int k = 0; k < keys; ++k)
          for (int d = 0; d < kWidth; ++d) all.push_back(kept(of, head, k, d));
    return all;
  }
  /// The result where query q sees the first visible(q) keys.
  template <typename Visible>
  std::vector<double> attended(const Visible& visible) const {
    std::vector<double> results;
    for (int q = 0; q < kLength; ++q) {
      for (int c = 0; c < kHidden; ++c) {
        const int head = c / kWidth;
        double total = 0, sum = 0;
        for (int k = 0; k < visible(q); ++k) {
          double score = 0;
          for (int d = 0; d < kWidth; ++d) score += projection(q, head * kWidth + d) * kept(0, head, k, d);
          const double weight = std::exp(score / std::sqrt(kWidth));
          total += weight;
          sum += weight * kept(1, head, k, c % kWidth);
        }
        results.push_back(sum / total);
      }
    }
    return results;
  }
  /// Inputs up to the scales; of the type in which `rounded` gives a float are the bias and they.
  template <typename Rounded>
  void give_operands(OneNode& node, DType dtype, const Rounded& rounded) const {
    std::vector<decltype(rounded(1.0F))> bias, scales{rounded(static_cast<float>(scale))};
    for (int i = 0; i < 3 * kHidden; ++i) bias.push_back(rounded(static_cast<float>(step * i)));
    node.input(DType::kU8, {1, kLength, kInputs}, x).input(DType::kI8, {kInputs, 3 * kHidden}, w);
    node.input(dtype, {3 * kHidden}, bias).input(dtype, {}, scales).input(dtype, {}, scales);
    node.with("num_heads", int64_t{kHeads});
  }
};

TEST(QAttention, LetsQueriesSeeTheKeysThatTheirSequenceHas) {
  const SmallAttention attention{0.01, 0.1};
  for (const bool causal : {false, true}) {
    OneNode node(kMicrosoft, "QAttention", 13);
    attention.give_operands(node, DType::kF32, [](float value) { return value; });
    node.input<int32_t>(DType::kI32, {1}, {2}).input<uint8_t>(DType::kU8, {}, {128});
    node.with("unidirectional", int64_t{causal});
    expect_near(node.run<float>(DType::kF32),
                attention.attended([&](int q) { return std::min(2, causal ? q + 1 : 2); }));
  }
}

void expect_near_halves(const ConstantPtr& actual, const std::vector<double>& expected) {
  ASSERT_EQ(actual->type.dtype, DType::kF16);
  ASSERT_EQ(actual->size, expected.size() * sizeof(uint16_t));
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(static_cast<double>(half_to_float(actual->as<uint16_t>()[i])), expected[i], 1e-2) << i;
}

TEST(QAttention, IsOfTheTypeThatItsBiasAndScalesHave) {
  const SmallAttention attention{1.0 / 256, 0.125};
  OneNode node(kMicrosoft, "QAttention", 13);
  attention.give_operands(node, DType::kF16, float_to_half);
  node.input<int32_t>(DType::kI32, {1}, {2}).input<uint8_t>(DType::kU8, {}, {128});
  expect_near_halves(node.results().at(0), attention.attended([](int) { return 2; }));
}

TEST(QAttention, AppendsToAPastInHalfPrecision) {
  constexpr int kPast = 2, kKeys = kPast + SmallAttention::kLength;
  const SmallAttention attention{1.0 / 256, 0.125, kPast};
  OneNode node(kMicrosoft, "QAttention", 13, 2);
  attention.give_operands(node, DType::kF16, float_to_half);
  std::vector<uint16_t> past;
  for (const double value : attention.all_kept(kPast))
    past.push_back(float_to_half(static_cast<float>(value)));
  node.absent().input<uint8_t>(DType::kU8, {}, {128}).absent();
  node.input(DType::kF16, {2, 1, SmallAttention::kHeads, kPast, SmallAttention::kWidth}, past);
  const std::vector<ConstantPtr> results = node.with("unidirectional", int64_t{1}).results();
  expect_near_halves(results.at(0), attention.attended([](int q) { return kPast + q + 1; }));
  expect_near_halves(results.at(1), attention.all_kept(kKeys));
}

}  // namespace
}  // namespace gantry
