// Weights whose sums are exact in any order.
#pragma once

#include <vector>

#include "host/graph/graph.h"

namespace gantry::testing {

/// Integers of -2 to 2, f32, of that shape.
inline ConstantPtr small_weights(const std::vector<int64_t>& shape) {
  Shape dims;
  int64_t count = 1;
  for (int64_t extent : shape) dims.emplace_back(extent), count *= extent;
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(i * 7 % 5 - 2));
  return make_constant({DType::kF32, dims}, values.data());
}

}  // namespace gantry::testing
