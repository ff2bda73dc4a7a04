// Axes, bounds and dimensions that the running model computes: what converters put in front of their ops.
#pragma once

#include "host/onnx/node_import.h"

namespace gantry {

/// Whether the input's elements are constants now.
bool is_known_list(NodeImport& n, size_t i);
/// The input, which holds integers, as a vector of i64.
Value* as_index_vector(NodeImport& n, size_t i);
/// A constant vector of i64.
Value* index_constant(NodeImport& n, const std::vector<int64_t>& values);

/// A tensor as a matrix whose columns run over axes that are data.
struct AxesMatrix {
  Value* matrix = nullptr;
  Value* table = nullptr;  ///< of op::axes_table
  Shape reduced;           ///< dimensions of the tensor once the axes are reduced
};
/// `axes`: i64 vector of a known length.
AxesMatrix matrix_over_axes(NodeImport& n, Value* x, Value* axes, bool keepdims);
/// The tensor of that type whose matrix `m` is.
Value* from_matrix(NodeImport& n, Value* m, const AxesMatrix& like, const Shape& shape);

/// Elements of a vector of i64 from `begin` on, as symbols.
Shape bind_part(NodeImport& n, Value* vector, int64_t begin, int64_t count, const char* what,
                Elements elements = Elements::kSizes);
/// Slice whose bounds, axes or steps are data.
Value* slice_by_data(NodeImport& n, Value* x);
/// The dimensions of a Reshape whose shape is data.
Shape reshape_dims_by_data(NodeImport& n, bool zero_copies);

}  // namespace gantry
