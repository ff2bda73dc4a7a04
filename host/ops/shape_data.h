// Small integer tensors that steer shapes and axes, normalised while the program runs: what bind_dims then binds is
// never negative, and what kernels read is inside their tensors.
#pragma once

#include "host/graph/attrs.h"
#include "host/graph/op_handle.h"

namespace gantry {

/// reshape_dims(shape): i64[n] -> i64[n], the dimensions of a reshape of a tensor of `extents`: -1 becomes what is
/// left of its elements, 0 the extent of the same axis if `zero_copies`.
struct ReshapeDimsAttrs : AttrsOf<ReshapeDimsAttrs> {
  Shape extents;
  bool zero_copies = true;
  void fields(AttrVisitor& visit) override {
    visit("extents", extents);
    visit("zero_copies", zero_copies);
  }
};

/// slice_bounds(starts, ends, axes, steps): i64[n] each, n known or not -> i64[3 * rank]: of ONNX's Slice of
/// a tensor of `extents` the first position on each axis, then the number of positions on each, then the step
/// on each. An axis that is not named is taken whole; a step of 0, or an axis that there is not, makes a
/// number of positions -1, which no dimension can be bound to. unsqueeze_dims(axes): i64[n] -> i64[rank + n]:
/// 1 at these axes of the result, the extents in order elsewhere. pad_amounts(pads, axes): i64[2n], i64[n] ->
/// i64[2 * rank]: amounts in front of each axis, then behind.
struct ExtentsAttrs : AttrsOf<ExtentsAttrs> {
  Shape extents;
  void fields(AttrVisitor& visit) override { visit("extents", extents); }
};

/// axes_table(axes): i64[n] -> i64[3 * rank + 2 + m], how a tensor of `extents` becomes a matrix whose
/// columns run over the named axes: its axes are ordered kept ones first, both in their own order. By place
/// in that order the extents, then the strides (elements) in the tensor; by axis of the tensor the strides in
/// the matrix; the matrix's rows and columns; and the m dimensions of a reduction of the named axes: rank if
/// `keepdims`, else `reduced_rank`, or rank - n where that is -1. Only with one of the former may n be known
/// when the program runs alone. The rows are -1 where other axes than so many are named. An empty list names
/// all axes if `all_if_empty`.
struct AxesTableAttrs : AttrsOf<AxesTableAttrs> {
  Shape extents;
  bool keepdims = true, all_if_empty = false;
  int64_t reduced_rank = -1;
  void fields(AttrVisitor& visit) override {
    visit("extents", extents);
    visit("keepdims", keepdims);
    visit("all_if_empty", all_if_empty);
    visit("reduced_rank", reduced_rank);
  }
};

/// to_matrix(data, table): the matrix of an axes_table, of `rows` by `columns`, of a tensor given as a vector, whose
/// number of axes the table's length says.
struct ToMatrixAttrs : AttrsOf<ToMatrixAttrs> {
  Dim rows, columns;
  int64_t rank = 0;  ///< of the tensor
  void fields(AttrVisitor& visit) override {
    visit("rows", rows);
    visit("columns", columns);
    visit("rank", rank);
  }
};

namespace op {
inline constexpr Op<ReshapeDimsAttrs> reshape_dims{"reshape_dims"};
inline constexpr Op<ExtentsAttrs> slice_bounds{"slice_bounds"};
inline constexpr Op<ExtentsAttrs> unsqueeze_dims{"unsqueeze_dims"};
inline constexpr Op<ExtentsAttrs> pad_amounts{"pad_amounts"};
inline constexpr Op<AxesTableAttrs> axes_table{"axes_table"};
inline constexpr Op<ToMatrixAttrs> to_matrix{"to_matrix"};
/// from_matrix(data, table): the tensor of `extents` whose matrix, given as a vector, that is.
inline constexpr Op<ExtentsAttrs> from_matrix{"from_matrix"};
/// nonzero_positions(data): the positions of the elements that are not 0, in order: i64[rank, extents[0]], of which
/// there are `extents[0]`.
inline constexpr Op<ExtentsAttrs> nonzero_positions{"nonzero_positions"};
}  // namespace op

}  // namespace gantry
