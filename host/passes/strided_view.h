// Values seen through the index maps that made them.
#pragma once

#include <optional>
#include <vector>

#include "host/graph/graph.h"

namespace gantry {

/// A value as elements of another that lies row-major in memory: element (i, j, …) is at
/// offset + i * strides[0] + j * strides[1] + …
struct StridedView {
  Value* base = nullptr;
  Shape extents, strides;
  Dim offset = 0;
  double factor = 1;  ///< elements are to be multiplied by it
};

/// The value itself, row-major.
StridedView contiguous_view(Value* value);
/// The value through the transpositions, slices, selections and reshapes before it, and through products with
/// constant scalars where `scaled`; as far as these are strides of what they read.
StridedView strided_view(Value* value, bool scaled = false);
/// Strides of the same elements with other extents, if there are any: axes that split, and axes that merge
/// where they follow each other in memory.
std::optional<Shape> reshape_strides(const Shape& extents, const Shape& strides, const Shape& reshaped);
/// A constant scalar's value.
std::optional<double> constant_scalar(const Value* value);

}  // namespace gantry
