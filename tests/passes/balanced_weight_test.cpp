#include "host/passes/balanced_weight.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace gantry {
namespace {

constexpr int64_t kOutputs = 24, kInputs = 640;

float nearest_bf16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  return std::bit_cast<float>((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u);
}

float sum_of_parts(float x, int64_t parts) {
  const float high = nearest_bf16(x);
  return parts == 1 ? high : high + nearest_bf16(x - high);
}

std::vector<float> random_weights() {
  std::mt19937_64 random(1);
  std::normal_distribution<float> values(0, 0.05f);
  std::vector<float> weights(kOutputs * kInputs);
  for (float& w : weights) w = values(random);
  return weights;
}

std::vector<float> balanced(const std::vector<float>& weights, int64_t parts) {
  const ConstantPtr given = make_constant({DType::kF32, {kOutputs, kInputs / 10, 2, 5}}, weights.data());
  const ConstantPtr result = balanced_weight(*given, parts);
  EXPECT_EQ(result->type, given->type);
  return {result->as<float>(), result->as<float>() + kOutputs * kInputs};
}

class BalancedWeight : public ::testing::TestWithParam<int64_t> {};
INSTANTIATE_TEST_SUITE_P(Parts, BalancedWeight, ::testing::Values(1, 2));

TEST_P(BalancedWeight, IsHeldByThePartsAndNear) {
  const std::vector<float> weights = random_weights(), result = balanced(weights, GetParam());
  const double relative = GetParam() == 1 ? 0x1p-7 : 0x1p-16;
  for (size_t i = 0; i < weights.size(); ++i) {
    EXPECT_EQ(sum_of_parts(result[i], GetParam()), result[i]) << i;
    EXPECT_LE(std::abs(double(result[i]) - weights[i]), relative * std::abs(weights[i])) << i;
  }
}

TEST_P(BalancedWeight, OutputsMayBeTheLastAxis) {
  const std::vector<float> weights = random_weights(), expected = balanced(weights, GetParam());
  std::vector<float> transposed(weights.size());
  for (size_t i = 0; i < weights.size(); ++i)
    transposed[i % kInputs * kOutputs + i / kInputs] = weights[i];
  const ConstantPtr given = make_constant({DType::kF32, {kInputs, kOutputs}}, transposed.data());
  const ConstantPtr result = balanced_weight(*given, GetParam(), OutputAxis::kLast);
  ASSERT_EQ(result->type, given->type);
  for (size_t i = 0; i < weights.size(); ++i)
    ASSERT_EQ(result->as<float>()[i % kInputs * kOutputs + i / kInputs], expected[i]) << i;
}

TEST_P(BalancedWeight, RestsOfAnOutputAddUpToNothing) {
  const std::vector<float> weights = random_weights(), result = balanced(weights, GetParam());
  double of_nearest = 0, of_balanced = 0;
  for (size_t o = 0; o < kOutputs; ++o) {
    double nearest = 0, rests = 0;
    for (size_t i = o * kInputs; i < (o + 1) * kInputs; ++i) {
      nearest += double(weights[i]) - sum_of_parts(weights[i], GetParam());
      rests += double(weights[i]) - result[i];
    }
    of_nearest += nearest * nearest;
    of_balanced += rests * rests;
  }
  EXPECT_LT(std::sqrt(of_balanced), 0.05 * std::sqrt(of_nearest));
}

// By the moments of half-normal data 0.6 of the error is left; of the weights that are not the nearest, a
// little comes on top.
TEST_P(BalancedWeight, RectifiedDataSeeLessError) {
  const std::vector<float> weights = random_weights(), result = balanced(weights, GetParam());
  std::mt19937_64 random(2);
  std::normal_distribution<double> values;
  double nearest = 0, balanced = 0;
  for (int sample = 0; sample < 100; ++sample) {
    std::vector<double> data(kInputs);
    for (double& x : data) x = std::max(0.0, values(random));
    for (size_t o = 0; o < kOutputs; ++o) {
      double of_nearest = 0, of_balanced = 0;
      for (size_t i = 0; i < kInputs; ++i) {
        const float w = weights[o * kInputs + i];
        of_nearest += data[i] * (double(w) - sum_of_parts(w, GetParam()));
        of_balanced += data[i] * (double(w) - result[o * kInputs + i]);
      }
      nearest += of_nearest * of_nearest;
      balanced += of_balanced * of_balanced;
    }
  }
  EXPECT_LT(std::sqrt(balanced), 0.9 * std::sqrt(nearest));
}

TEST_P(BalancedWeight, OutputsThatAreNotFiniteStay) {
  std::vector<float> weights = random_weights();
  weights[3] = std::numeric_limits<float>::infinity();
  weights[kInputs + 5] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> result = balanced(weights, GetParam());
  for (size_t i = 0; i < 2 * kInputs; ++i)
    EXPECT_EQ(std::bit_cast<uint32_t>(result[i]), std::bit_cast<uint32_t>(weights[i])) << i;
}

TEST_P(BalancedWeight, ZerosStay) {
  for (float w : balanced(std::vector<float>(kOutputs * kInputs), GetParam())) EXPECT_EQ(w, 0);
}

}  // namespace
}  // namespace gantry
