// Axes, bounds and dimensions that the running model computes: what converters put in front of their ops.
#pragma once

#include "host/onnx/node_import.h"

namespace gantry {

/// Whether the input's elements are constants now.
bool is_known_list(NodeImport& n, size_t i);
/// The input, which holds a known number of integers, as a vector of i64.
Value* as_index_vector(NodeImport& n, size_t i);
/// The same of any number of integers.
Value* as_index_list(NodeImport& n, size_t i);
/// A constant vector of i64.
Value* index_constant(NodeImport& n, const std::vector<int64_t>& values);

/// How tensors become matrices whose columns run over axes that are data.
struct AxesMatrix {
  Value* matrix = nullptr;  ///< of matrix_over_axes()'s tensor; null of axes_matrix()
  Value* table = nullptr;   ///< of op::axes_table
  Dim rows, columns;
  Shape reduced;  ///< dimensions of the tensor once the axes are reduced
};
/// What a list of axes means.
struct AxesMeaning {
  bool keepdims = true;       ///< they stay with extent 1
  bool all_if_empty = false;  ///< none stands for all of them
};
/// `x` as a matrix, a row for each place on the axes that stay. `axes`: i64 vector. Where its length is only
/// known when the model runs and its axes go, the declared shape of the node's result says how many stay:
/// unsupported without one.
AxesMatrix matrix_over_axes(NodeImport& n, Value* x, Value* axes, AxesMeaning meaning);
/// The same of any tensor of that shape.
AxesMatrix axes_matrix(NodeImport& n, const Shape& shape, Value* axes, AxesMeaning meaning);
/// A tensor of the shape that `like` was made for as a matrix.
Value* to_matrix(NodeImport& n, Value* x, const AxesMatrix& like);
/// The tensor of that shape whose matrix `m` is.
Value* from_matrix(NodeImport& n, Value* m, const AxesMatrix& like, const Shape& shape);

/// Elements of a vector of i64 from `begin` on, as symbols.
Shape bind_part(NodeImport& n, Value* vector, int64_t begin, int64_t count, const char* what,
                Elements elements = Elements::kSizes);
/// What Slice makes of x where bounds, axes or steps, the node's inputs 1 to 4, are data.
Value* slice_by_data(NodeImport& n, Value* x);
/// The dimensions of a Reshape whose shape, the node's input 1, is data. `zero_copies`: a 0 stands for the
/// dimension of the node's input 0 in its place, else for an empty axis.
Shape reshape_dims_by_data(NodeImport& n, bool zero_copies);

}  // namespace gantry
