#include "host/conformance/comparison.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace gantry::conformance {
namespace {

template <typename T>
ConstantPtr tensor(DType dtype, const std::vector<T>& values) {
  return make_constant({dtype, {static_cast<int64_t>(values.size())}}, values.data());
}

TEST(Comparison, IntegersAndBoolsAreExact) {
  const auto expected = tensor<int32_t>(DType::kI32, {100000, -5, 7});
  EXPECT_EQ(difference(*expected, *expected), "");
  EXPECT_EQ(difference(*tensor<int32_t>(DType::kI32, {100001, -5, 7}), *expected),
            "element 0 is 100001 instead of 100000");
  const auto worst = worst_element(*tensor<int32_t>(DType::kI32, {100001, -5, 9}), *expected);
  EXPECT_EQ(worst->index, 2u);
  EXPECT_EQ(worst->differing, 2);
  EXPECT_EQ(worst->elements, 3);
  EXPECT_EQ(difference(*tensor<uint8_t>(DType::kBool, {1, 1}), *tensor<uint8_t>(DType::kBool, {1, 0})),
            "element 1 is true instead of false");
}

TEST(Comparison, IntegersThatDoublesCannotTellApartDiffer) {
  const int64_t large = (int64_t{1} << 53) + 1;
  EXPECT_EQ(difference(*tensor<int64_t>(DType::kI64, {large}), *tensor<int64_t>(DType::kI64, {large - 1})),
            "element 0 is 9007199254740993 instead of 9007199254740992");
  const uint64_t most = std::numeric_limits<uint64_t>::max();
  EXPECT_EQ(difference(*tensor<uint64_t>(DType::kU64, {most}), *tensor<uint64_t>(DType::kU64, {most - 1})),
            "element 0 is 18446744073709551615 instead of 18446744073709551614");
}

TEST(Comparison, FloatsMayDifferByTheTolerance) {
  const auto expected = tensor<float>(DType::kF32, {1000, 0, 1});
  EXPECT_EQ(difference(*tensor<float>(DType::kF32, {1000.9f, 5e-8f, 1}), *expected), "");
  EXPECT_NE(difference(*tensor<float>(DType::kF32, {1001.1f, 0, 1}), *expected), "");
  EXPECT_NE(difference(*tensor<float>(DType::kF32, {1000, 2e-7f, 1}), *expected), "");
  EXPECT_EQ(difference(*tensor<float>(DType::kF32, {1001.1f, 0, 1}), *expected, {2e-3, 0}), "");
}

TEST(Comparison, OnlyNanEqualsNanAndOnlyInfinityInfinity) {
  const float nan = std::nanf(""), infinity = HUGE_VALF;
  const auto expected = tensor<float>(DType::kF32, {nan, infinity, -infinity, 1});
  EXPECT_EQ(difference(*expected, *expected), "");
  for (size_t i = 0; i < 4; ++i) {
    for (const float other : {nan, infinity, -infinity, 1.0f}) {
      std::vector<float> values = {nan, infinity, -infinity, 1};
      const bool same = values[i] == other || (std::isnan(values[i]) && std::isnan(other));
      values[i] = other;
      EXPECT_EQ(difference(*tensor<float>(DType::kF32, values), *expected).empty(), same)
          << i << " " << other;
    }
  }
}

TEST(Comparison, TypesAndShapesAreTheSame) {
  const auto f32 = tensor<float>(DType::kF32, {1, 2});
  EXPECT_EQ(difference(*tensor<double>(DType::kF64, {1, 2}), *f32),
            "Tensor[(2), f64] instead of Tensor[(2), f32]");
  const float values[] = {1, 2};
  EXPECT_EQ(difference(*make_constant({DType::kF32, {1, 2}}, values), *f32),
            "Tensor[(1, 2), f32] instead of Tensor[(2), f32]");
}

}  // namespace
}  // namespace gantry::conformance
