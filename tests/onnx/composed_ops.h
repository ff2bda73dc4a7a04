// What tests of ops that converters compose of others have in common.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "tests/onnx/model_text.h"

namespace gantry::composed_ops {

using namespace model_text;  // NOLINT: the tests' own language

using Values = std::vector<double>;

inline constexpr const char* kMicrosoft = "domain: 'com.microsoft' ";

/// f32 as given, so that references see what the model sees.
inline std::string constants(const std::string& name, const Given& given) {
  std::string text =
      fmt::format("initializer {{ name: '{}' data_type: {} ", name, given.dtype == DType::kF32 ? 1 : 7);
  for (int64_t d : given.shape) text += fmt::format("dims: {} ", d);
  for (double v : given.values)
    text += given.dtype == DType::kF32 ? fmt::format("float_data: {} ", v)
                                       : fmt::format("int64_data: {} ", static_cast<int64_t>(v));
  return text + "} ";
}

/// One query's result over keys, all of one head, and over one of score `sink` without a value.
inline Values attended(const double* query, const std::vector<const double*>& keys,
                       const std::vector<const double*>& values, size_t size, double scale,
                       double sink = -1e30) {
  Values weights;
  double top = -1e30, total = 0;
  for (const double* key : keys) {
    double score = 0;
    for (size_t d = 0; d < size; ++d) score += query[d] * key[d];
    weights.push_back(score * scale);
    top = std::max(top, weights.back());
  }
  Values result(size, 0);
  total = std::exp(sink - top);
  for (double& w : weights) total += w = std::exp(w - top);
  for (size_t k = 0; k < keys.size(); ++k) {
    for (size_t d = 0; d < size; ++d) result[d] += weights[k] / total * values[k][d];
  }
  return result;
}

/// Whether all constraints hold for these sizes.
inline bool takes(const Graph& graph, const std::map<std::string, int64_t>& sizes) {
  return std::ranges::all_of(graph.main.constraints, [&](const DimConstraint& c) {
    return c.left.evaluate(sizes) == c.right.evaluate(sizes);
  });
}

}  // namespace gantry::composed_ops
