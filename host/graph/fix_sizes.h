// What sizes that a user gives (--shape, --dim) make of the open dimensions of a model's inputs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "host/graph/type.h"

namespace gantry {

/// In a shape that a user gives: this dimension is as the model has it.
inline constexpr int64_t kOpenSize = -1;

struct GivenSizes {
  /// Fixes inputs' shapes: by input name. kOpenSize leaves a dimension as it is.
  std::map<std::string, std::vector<int64_t>> shapes;
  /// Fixes symbolic dimensions: by their names in the model or in the graph.
  std::map<std::string, int64_t> sizes;
};

struct OpenInput {
  std::string name;
  Shape shape;
};

/// The symbols of the inputs' shapes that the sizes fix. `symbols`: what the model's own names for dimensions are in
/// the graph, where they differ. User errors: an input or dimension that there is not, another rank, a negative size,
/// two sizes for one symbol, a size that the model contradicts or that only follows from its symbols.
std::map<std::string, int64_t> fixed_sizes(const GivenSizes& given, const std::vector<OpenInput>& inputs,
                                           const std::map<std::string, std::string>& symbols = {});

}  // namespace gantry
