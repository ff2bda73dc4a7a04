// What sizes and ranges that a user gives (--shape, --dim) make of the open dimensions of a model's inputs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "host/graph/type.h"

namespace gantry {

/// In a shape that a user gives: this dimension is as the model has it.
inline constexpr int64_t kOpenSize = -1;

/// A size for a dimension, or a range that it keeps to when the program runs.
struct GivenSize {
  GivenSize() : GivenSize(kOpenSize) {}
  GivenSize(int64_t size) : range{size, size} {}  // NOLINT: implicit by design, most are plain sizes
  GivenSize(DimRange given) : range(given) {}     // NOLINT: the same

  DimRange range;

  bool open() const { return range == DimRange{kOpenSize, kOpenSize}; }
  bool fixed() const { return range.low == range.high; }
  friend bool operator==(const GivenSize&, const GivenSize&) = default;
};
/// "3", "1..8", "?"
std::string to_string(const GivenSize& size);
std::vector<GivenSize> given_shape(const std::vector<int64_t>& sizes);

struct GivenSizes {
  /// Of inputs' shapes: by input name. kOpenSize leaves a dimension as it is. One size for what is no input is one for
  /// the dimension of that name: --shape N=1..8.
  std::map<std::string, std::vector<GivenSize>> shapes;
  /// Of symbolic dimensions: by their names in the model or in the graph.
  std::map<std::string, GivenSize> sizes;
};

struct OpenInput {
  std::string name;
  Shape shape;
};

/// The symbols of the inputs' shapes that the sizes fix or limit. `symbols`: what the model's own names for dimensions
/// are in the graph, where they differ. User errors: an input or dimension that there is not, another rank, a negative
/// size, an empty range, two sizes for one symbol, a size that the model contradicts or that only follows from its
/// symbols.
std::map<std::string, GivenSize> given_sizes(const GivenSizes& given, const std::vector<OpenInput>& inputs,
                                             const std::map<std::string, std::string>& symbols = {});
/// What to put in the symbols' places: a number, or the symbol with its range.
std::map<std::string, Dim> size_bindings(const std::map<std::string, GivenSize>& sizes);

}  // namespace gantry
