/* What the examples share: data, and the comparison with a reference in float64. */
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "host/compiler/compiler.h"

namespace example {

/// f32 values in [-1, 1), the same in every run.
inline std::vector<float> random_values(size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(count);
  for (float& value : values) value = uniform(generator);
  return values;
}

inline gantry::ConstantPtr tensor(const std::vector<int64_t>& shape, const std::vector<float>& values) {
  return gantry::make_constant({gantry::DType::kF32, gantry::Shape(shape.begin(), shape.end())}, values.data());
}

/// Prints the largest difference, relative to the largest value of the reference; true if it is small enough.
inline bool agrees(const std::string& what, const gantry::ConstantData& result, const std::vector<double>& reference) {
  double difference = 0, largest = 0;
  for (size_t i = 0; i < reference.size(); ++i) {
    difference = std::max(difference, std::abs(double{result.as<float>()[i]} - reference[i]));
    largest = std::max(largest, std::abs(reference[i]));
  }
  const bool good = result.size == reference.size() * sizeof(float) && difference <= 1e-5 * largest;
  std::printf("%s: %zu elements, off by %.1e of the largest: %s\n", what.c_str(), reference.size(),
              difference / largest, good ? "good" : "WRONG");
  return good;
}

/// Runs `main`'s work; errors go to stderr, as gantry's own.
template <typename Work>
int run(const Work& work) {
  try {
    return work() ? 0 : 1;
  } catch (const gantry::Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return static_cast<int>(error.kind());
  }
}

}  // namespace example
