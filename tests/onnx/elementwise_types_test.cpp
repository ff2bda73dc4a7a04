// Ops on types that other ops of their kind do not take.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <iterator>
#include <limits>

#include "tests/onnx/model_text.h"
#include "tests/onnx/one_node.h"

namespace gantry {
namespace {

using testing::OneNode;

std::vector<int8_t> shifted(const char* direction, const std::vector<int8_t>& x, const std::vector<int8_t>& by) {
  const auto count = static_cast<int64_t>(x.size());
  OneNode node("", "BitShift", 28);
  node.input(DType::kI8, {count}, x).input(DType::kI8, {count}, by).with("direction", direction);
  return node.run<int8_t>(DType::kI8);
}

TEST(BitShift, OfSignedIntegersKeepsTheirSignToTheRight) {
  EXPECT_THAT(shifted("RIGHT", {-8, 4, -1, -128, -8, 4, -1}, {1, 1, 7, 3, 8, -1, -8}),
              ::testing::ElementsAre(-4, 2, -1, -16, -1, 0, -1));
  EXPECT_THAT(shifted("LEFT", {-8, 4, 64, 1, -1, 3}, {1, 2, 1, 7, 8, -1}),
              ::testing::ElementsAre(-16, 16, -128, -128, 0, 0));
}

TEST(Mod, OfFloatsHasTheSignOfTheDivisor) {
  std::vector<float> a, b;
  for (const float x : {-7.5F, -4.0F, -0.25F, 0.25F, 4.0F, 7.5F}) {
    for (const float y : {-3.5F, -2.0F, 2.0F, 3.5F}) {
      a.push_back(x);
      b.push_back(y);
    }
  }
  const auto count = static_cast<int64_t>(a.size());
  OneNode node("", "Mod", 28);
  const auto y = node.input(DType::kF32, {count}, a).input(DType::kF32, {count}, b).run<float>(DType::kF32);
  for (size_t i = 0; i < y.size(); ++i) {
    EXPECT_EQ(y[i], a[i] - std::floor(a[i] / b[i]) * b[i]) << a[i] << " mod " << b[i];
    EXPECT_EQ(std::signbit(y[i]), std::signbit(b[i])) << a[i] << " mod " << b[i];
  }
}

TEST(Mod, OfFloatsAndInfinityIsTheDividendOrTheDivisor) {
  OneNode node("", "Mod", 28);
  node.input<float>(DType::kF32, {4}, {-3, 3, -0.0F, INFINITY});
  const auto y = node.input<float>(DType::kF32, {4}, {INFINITY, INFINITY, INFINITY, 2}).run<float>(DType::kF32);
  EXPECT_EQ(y[0], INFINITY);
  EXPECT_EQ(y[1], 3);
  EXPECT_FALSE(std::signbit(y[2]));
  EXPECT_TRUE(std::isnan(y[3]));
}

std::vector<float> powers_by(DType exponents, const std::vector<float>& bases, const auto& values) {
  const auto count = static_cast<int64_t>(bases.size());
  OneNode node("", "Pow", 15);
  return node.input(DType::kF32, {count}, bases)
      .input(exponents, {count}, values)
      .template run<float>(DType::kF32);
}

TEST(Pow, HasExponentsOfAWiderTypeAsTheyAre) {
  constexpr double kTiny = std::numeric_limits<double>::denorm_min(),
                   kLargest = std::numeric_limits<double>::max();
  const std::vector<float> bases{-INFINITY, -0.5F, 0, 0.75F, 0.75F, 2, -3, 1.5F};
  const std::vector<double> exponents{kTiny, kTiny, -kTiny, -kLargest, kLargest, 1 + 0x1p-24, 3, -2.5};
  const std::vector<float> powers = powers_by(DType::kF64, bases, exponents);
  for (size_t i = 0; i < bases.size(); ++i) {
    const auto expected = static_cast<float>(std::pow(static_cast<double>(bases[i]), exponents[i]));
    EXPECT_THAT(powers[i], ::testing::NanSensitiveFloatEq(expected)) << bases[i] << " to " << exponents[i];
  }
}

TEST(Pow, OfMinusOneToALargeOddIntegerIsMinusOne) {
  const std::vector<float> bases{-1, -1, -1, -1};
  EXPECT_THAT(powers_by(DType::kI32, bases, std::vector<int32_t>{16777217, 16777218, -16777217, INT32_MAX}),
              ::testing::ElementsAre(-1, 1, -1, -1));
  EXPECT_THAT(powers_by(DType::kI64, bases,
                        std::vector<int64_t>{16777217, int64_t{1} << 40, (int64_t{1} << 40) + 1, 3}),
              ::testing::ElementsAre(-1, 1, -1, -1));
}

// As C's pow has it, and unlike the square root.
TEST(Pow, ByAHalfIsPositiveOfNegativeInfinityAndZero) {
  const float x[] = {-INFINITY, -0.0F, 0, 4, INFINITY}, expected[] = {INFINITY, 0, 0, 2, INFINITY};
  for (const char* half : {"data_type: 1 float_data: 0.5", "data_type: 1 dims: 1 float_data: 0.5",
                           "data_type: 11 double_data: 0.5"}) {
    const Graph graph = model_text::imported_graph(
        model_text::open_input("x", "5") + fmt::format("initializer {{ name: 'half' {} }} ", half) +
            model_text::node("Pow", "x half", "y"),
        "y");
    const ConstantPtr given = make_constant({DType::kF32, {5}}, x);
    const ConstantPtr y = testing::interpret_function(graph.main, {given}).at(0);
    for (size_t i = 0; i < std::size(x); ++i) {
      EXPECT_EQ(y->as<float>()[i], expected[i]) << x[i] << ", " << half;
      EXPECT_FALSE(std::signbit(y->as<float>()[i])) << x[i] << ", " << half;
    }
  }
}

TEST(Reductions, ThatAreNoIntegersAreCutOff) {
  // The root of 34, log 10, and log(2 e^3 + e^4) = 4.55.
  for (const auto& [op, expected] : {std::pair{"ReduceL2", 5}, {"ReduceLogSum", 2}, {"ReduceLogSumExp", 4}}) {
    OneNode node("", op, 13);
    node.input<int32_t>(DType::kI32, {3}, {3, 4, 3}).with("keepdims", int64_t{0});
    EXPECT_THAT(node.run<int32_t>(DType::kI32), ::testing::ElementsAre(expected)) << op;
  }
}

// 7.5 and -7.5; with half of C, 8.5 and -6.5.
TEST(Gemm, OfIntegersIsCutOffAfterFractionsOfThemAreAdded) {
  OneNode product("", "Gemm", 13), sum("", "Gemm", 13);
  for (OneNode* node : {&product, &sum})
    node->input<int32_t>(DType::kI32, {1, 1}, {5})
        .input<int32_t>(DType::kI32, {1, 2}, {3, -3})
        .with("alpha", 0.5);
  sum.input<int32_t>(DType::kI32, {2}, {2, 2}).with("beta", 0.5);
  EXPECT_THAT(product.run<int32_t>(DType::kI32), ::testing::ElementsAre(7, -7));
  EXPECT_THAT(sum.run<int32_t>(DType::kI32), ::testing::ElementsAre(8, -6));
}

TEST(Gemm, OfUnsignedIntegersTakesANegativeFactor) {
  OneNode node("", "Gemm", 13);
  node.input<uint32_t>(DType::kU32, {1, 1}, {2}).input<uint32_t>(DType::kU32, {1, 1}, {3});
  node.input<uint32_t>(DType::kU32, {1}, {10}).with("alpha", -1.0);
  EXPECT_THAT(node.run<uint32_t>(DType::kU32), ::testing::ElementsAre(4));
}

TEST(Gemm, ReadsNothingOfWhatItAddsZeroTimes) {
  const auto product = [](const std::vector<float>& c) {
    OneNode node("", "Gemm", 13);
    node.input<float>(DType::kF32, {1, 1}, {2}).input<float>(DType::kF32, {1, 2}, {3, 4});
    node.input<float>(DType::kF32, {static_cast<int64_t>(c.size())}, c).with("beta", 0.0);
    return node.run<float>(DType::kF32);
  };
  EXPECT_THAT(product({NAN, INFINITY}), ::testing::ElementsAre(6, 8));
  EXPECT_THROW(product({1, 2, 3}), Error) << "none that could be added";
}

TEST(Gemm, AddsNothingThatIsLargerThanItsProduct) {
  OneNode node("", "Gemm", 13);
  node.input<float>(DType::kF32, {1, 1}, {2}).input<float>(DType::kF32, {1, 1}, {3});
  node.input<float>(DType::kF32, {3, 1}, {1, 2, 3});
  EXPECT_THROW(node.results(), Error);
}

TEST(BitCast, KeepsTheBits) {
  OneNode floats("", "BitCast", 26), bytes("", "BitCast", 26), nibbles("", "BitCast", 26),
      truths("", "BitCast", 26);
  floats.input<float>(DType::kF32, {4}, {1, -0.0F, -INFINITY, 1e-45F}).with("to", int64_t{6});
  EXPECT_THAT(floats.run<int32_t>(DType::kI32),
              ::testing::ElementsAre(0x3F800000, INT32_MIN, static_cast<int32_t>(0xFF800000), 1));
  bytes.input<int8_t>(DType::kI8, {3}, {-1, 5, -128}).with("to", int64_t{2});
  EXPECT_THAT(bytes.run<uint8_t>(DType::kU8), ::testing::ElementsAre(255, 5, 128));
  nibbles.input<uint8_t>(DType::kU4, {3}, {15, 7, 8}).with("to", int64_t{22});
  EXPECT_THAT(nibbles.run<int8_t>(DType::kI4), ::testing::ElementsAre(-1, 7, -8));
  truths.input<uint8_t>(DType::kBool, {2}, {1, 0}).with("to", int64_t{3});
  EXPECT_THAT(truths.run<int8_t>(DType::kI8), ::testing::ElementsAre(1, 0));
}

TEST(BitCast, OfAnotherWidthIsRefused) {
  OneNode node("", "BitCast", 26);
  node.input<float>(DType::kF32, {1}, {1}).with("to", int64_t{11});
  EXPECT_THROW(node.results(), Error);
}

}  // namespace
}  // namespace gantry
