// What tests of quantised ops have in common: their data, and how near to doubles results have to be.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "tests/onnx/one_node.h"

namespace gantry::quantized {

using testing::OneNode;
using Bytes = std::vector<uint8_t>;
using SignedBytes = std::vector<int8_t>;
using Floats = std::vector<float>;
inline constexpr const char* kMicrosoft = "com.microsoft";

template <typename T>
std::vector<T> random_bytes(size_t count, uint32_t seed, int low = 0, int high = 255) {
  std::mt19937 generator(seed);
  std::uniform_int_distribution<int> any(low, high);
  std::vector<T> values(count);
  for (T& value : values) value = static_cast<T>(any(generator));
  return values;
}

inline double to_byte(double x, double zero_point, double low = 0, double high = 255) {
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
inline void expect_near(const Floats& actual, const std::vector<double>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i)
    EXPECT_NEAR(static_cast<double>(actual[i]), expected[i], 1e-5 * (1 + std::fabs(expected[i]))) << i;
}

inline OneNode& parameters(OneNode& node, float scale, uint8_t zero_point) {
  return node.input<float>(DType::kF32, {}, {scale}).input<uint8_t>(DType::kU8, {}, {zero_point});
}

}  // namespace gantry::quantized
