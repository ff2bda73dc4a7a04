// Where nn.attention finds its operands in memory (AttentionAttrs: an offset, a stride a batch axis, strides
// of rows).
#pragma once

#include <optional>
#include <vector>

#include "host/graph/graph.h"
#include "host/passes/strided_view.h"

namespace gantry {

/// A value that the attention reads as matrices.
struct AttentionMatrix {
  /// `row` and `feature`: the axes of the matrix, counted from the last; `scores`: the leading axes that it
  /// is broadcast to; `scaled`: factors of the view may be left out of it.
  AttentionMatrix(Value* value, size_t row, size_t feature, Shape scores, bool scaled);

  Value* value;
  size_t row, feature;
  Shape scores;
  bool scaled;
  StridedView view;

  std::optional<Dim> row_stride() const { return view.stride(view.rank() - 1 - row); }
  std::optional<Dim> feature_stride() const { return view.stride(view.rank() - 1 - feature); }
  Dim rows() const { return view.extent(view.rank() - 1 - row); }
  Dim features() const { return view.extent(view.rank() - 1 - feature); }
  /// Extents of the leading axes' digits; none where the value is not broadcast to `scores`.
  std::optional<Shape> leading() const;
  /// Offset and strides for these batch axes. Where the view has none for them, it becomes one without split
  /// axes, which reads a copy in memory. None where features are not contiguous.
  std::optional<Shape> place(const Shape& batch);

 private:
  StridedView unsplit_view() const;
};

/// The finest of the batch axes in all shapes, which are the same elements.
Shape finest_batch(const std::vector<Shape>& all);

/// Strides of a matrix along the batch axes; `scores`: the leading axes that it is broadcast to.
std::optional<Shape> batch_strides(const StridedView& view, const Shape& scores, const Shape& batch);

/// Offset and strides of a bias, whose last axis is keys, or queries where it is `transposed`.
std::optional<Shape> place_bias(const StridedView& view, const Shape& scores, const Shape& batch,
                                bool transposed);

}  // namespace gantry
