#include "host/onnx/data_axes.h"

#include <algorithm>
#include <numeric>

#include "host/ops/elementwise.h"
#include "host/ops/movement.h"
#include "host/ops/shape_data.h"

namespace gantry {

bool is_known_list(NodeImport& n, size_t i) {
  const auto known = n.contents(i);
  return known && constant_shape(known->dims).has_value();
}

Value* as_index_vector(NodeImport& n, size_t i) {
  Value* x = n.input(i);
  if (!element_count(x->type.shape).is_constant())
    n.unsupported(UnsupportedKind::kRunTimeValue, "input {} of a length that is only known when the model runs", i);
  return n.cast(n.reshape(x, {element_count(x->type.shape)}), DType::kI64);
}

Value* index_constant(NodeImport& n, const std::vector<int64_t>& values) {
  const int64_t none = 0;
  return n.constant_value(make_constant({DType::kI64, {static_cast<int64_t>(values.size())}},
                                        values.empty() ? &none : values.data()),
                          "indices");
}

Shape bind_part(NodeImport& n, Value* vector, int64_t begin, int64_t count, const char* what, Elements elements) {
  return n.bind(n.slice(vector, 0, begin, begin + count), what, elements);
}

// --- axes

AxesMatrix matrix_over_axes(NodeImport& n, Value* x, Value* axes, bool keepdims) {
  auto attrs = std::make_shared<AxesTableAttrs>();
  attrs->extents = x->type.shape;
  attrs->keepdims = keepdims;
  AxesMatrix made;
  made.table = n.add(op::axes_table, {axes}, attrs);
  const int64_t rank = x->type.rank(), dims = 3 * rank;
  const int64_t count = made.table->type.shape[0].value() - dims;
  const Shape sizes = bind_part(n, made.table, dims, count, "axes");
  made.reduced.assign(sizes.begin() + 2, sizes.end());
  auto matrix = std::make_shared<ToMatrixAttrs>();
  matrix->rows = sizes[0];
  matrix->columns = sizes[1];
  matrix->rank = rank;
  made.matrix = n.add(op::to_matrix, {n.reshape(x, {element_count(x->type.shape)}), made.table}, matrix);
  return made;
}

Value* from_matrix(NodeImport& n, Value* m, const AxesMatrix& like, const Shape& shape) {
  auto attrs = std::make_shared<ExtentsAttrs>();
  attrs->extents = shape;
  return n.add(op::from_matrix, {n.reshape(m, {element_count(m->type.shape)}), like.table}, attrs);
}

// --- Slice

namespace {

/// Which axes a slice may touch, and by which steps, where that is known.
struct SliceAxes {
  Value* axes = nullptr;
  Value* steps = nullptr;
  std::optional<std::vector<int64_t>> known_axes, known_steps;
};

SliceAxes axes_of_slice(NodeImport& n, int64_t entries, int rank) {
  SliceAxes s;
  std::vector<int64_t> all(static_cast<size_t>(entries)), ones(static_cast<size_t>(entries), 1);
  std::iota(all.begin(), all.end(), int64_t{0});
  if (!n.has(3)) s.known_axes = all;
  if (!n.has(4)) s.known_steps = ones;
  if (n.has(3) && is_known_list(n, 3)) s.known_axes = n.integers(3, "axes");
  if (n.has(4) && is_known_list(n, 4)) s.known_steps = n.integers(4, "steps");
  if (s.known_axes) {
    for (int64_t& axis : *s.known_axes) axis = n.axis(axis, rank);
  }
  s.axes = s.known_axes ? index_constant(n, *s.known_axes) : as_index_vector(n, 3);
  s.steps = s.known_steps ? index_constant(n, *s.known_steps) : as_index_vector(n, 4);
  return s;
}

/// begin, begin + step, … on one axis, as data.
Value* positions(NodeImport& n, Value* bounds, int64_t axis, int64_t rank, const Dim& count) {
  auto attrs = std::make_shared<ArangeAttrs>();
  attrs->step = 1;
  attrs->count = count;
  Value* steps = n.add(op::multiply, {n.add(op::arange, {}, attrs), n.slice(bounds, 0, 2 * rank + axis, 2 * rank + axis + 1)});
  return n.add(op::add, {steps, n.slice(bounds, 0, axis, axis + 1)});
}

}  // namespace

Value* slice_by_data(NodeImport& n, Value* x) {
  Value *starts = as_index_vector(n, 1), *ends = as_index_vector(n, 2);
  const int64_t entries = starts->type.shape[0].value(), rank = x->type.rank();
  const SliceAxes s = axes_of_slice(n, entries, x->type.rank());
  auto attrs = std::make_shared<ExtentsAttrs>();
  attrs->extents = x->type.shape;
  Value* bounds = n.add(op::slice_bounds, {starts, ends, s.axes, s.steps}, attrs);
  const Shape sizes = bind_part(n, bounds, 0, 2 * rank, "bounds");
  for (int64_t axis = 0; axis < rank; ++axis) {
    const Dim &begin = sizes[static_cast<size_t>(axis)], &count = sizes[static_cast<size_t>(rank + axis)];
    int64_t entry = -1;
    for (size_t i = 0; s.known_axes && i < s.known_axes->size(); ++i) {
      if ((*s.known_axes)[i] == axis) entry = static_cast<int64_t>(i);
    }
    if (s.known_axes && entry < 0) continue;
    if (s.known_axes && s.known_steps && entry < static_cast<int64_t>(s.known_steps->size())) {
      const int64_t step = (*s.known_steps)[static_cast<size_t>(entry)];
      if (step == 0) n.fail("a step is 0");
      constexpr int64_t kLongest = int64_t{1} << 40;
      const int64_t stride = std::clamp(step, -kLongest, kLongest);
      x = n.slice(x, axis, begin, begin + count * stride - (stride > 0 ? 0 : stride + 1), stride);
    } else {
      auto gather = std::make_shared<AxisAttrs>();
      gather->axis = axis;
      x = n.add(op::gather, {x, positions(n, bounds, axis, rank, count)}, gather);
    }
  }
  return x;
}

// --- Reshape

Shape reshape_dims_by_data(NodeImport& n, bool zero_copies) {
  const Shape extents = n.type(0).shape;
  Value* given = n.input(1);
  auto attrs = std::make_shared<ReshapeDimsAttrs>();
  attrs->extents = extents;
  attrs->zero_copies = zero_copies;
  const Shape known = n.bind(given, "shape", Elements::kSigned);
  Shape dims = n.bind(n.add(op::reshape_dims, {as_index_vector(n, 1)}, attrs), "shape");
  for (size_t i = 0; i < dims.size() && i < known.size(); ++i) {
    const auto value = known[i].constant();
    if (value && *value > 0) dims[i] = known[i];
    if (value && *value == 0) dims[i] = zero_copies && i < extents.size() ? extents[i] : Dim(0);
  }
  return dims;
}

}  // namespace gantry
