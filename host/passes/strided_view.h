// Values seen through the index maps that made them.
#pragma once

#include <optional>
#include <vector>

#include "host/graph/graph.h"

namespace gantry {

/// Positions along an axis, or along some of its digits: each lies `stride` elements from the last.
struct AxisPart {
  Dim extent, stride;
};

/// A value as elements of another that lies row-major in memory: an index moves by its digits' strides.
struct StridedView {
  Value* base = nullptr;
  /// What each axis is made of, outermost digit first. One part, but where no single stride leads from each
  /// position to the next: heads that share keys, (8, 4) of 32, have the parts {8, s} and {4, 0}.
  std::vector<std::vector<AxisPart>> axes;
  Dim offset = 0;
  double factor = 1;  ///< elements are to be multiplied by it

  size_t rank() const { return axes.size(); }
  Dim extent(size_t axis) const;
  /// Of an axis of one part.
  std::optional<Dim> stride(size_t axis) const;
};

/// The value itself, row-major.
StridedView contiguous_view(Value* value);
/// What a view goes through besides transpositions, slices, selections, broadcasts and reshapes.
struct ViewThrough {
  bool scales = false;     ///< products with constant scalars
  bool split_axes = true;  ///< reshapes that leave an axis of several parts
};
/// The value through what is before it, as far as that is strides of what it reads.
StridedView strided_view(Value* value, ViewThrough through = {});
/// The same elements as axes of `shape`, if strides can say it: parts split, and merge where they follow each
/// other in memory.
std::optional<std::vector<std::vector<AxisPart>>> regroup(const std::vector<AxisPart>& parts,
                                                          const Shape& shape);
/// Their strides where every axis of `shape` then has one part.
std::optional<Shape> strides_as(const std::vector<AxisPart>& parts, const Shape& shape);
/// A constant scalar's value.
std::optional<double> constant_scalar(const Value* value);

}  // namespace gantry
