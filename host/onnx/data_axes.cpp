#include "host/onnx/data_axes.h"

#include <algorithm>
#include <numeric>

#include "host/onnx/term.h"
#include "host/ops/elementwise.h"
#include "host/ops/movement.h"
#include "host/ops/shape_data.h"

namespace gantry {

bool is_known_list(NodeImport& n, size_t i) {
  const auto known = n.contents(i);
  return known && constant_shape(known->dims).has_value();
}

Value* as_index_vector(NodeImport& n, size_t i) {
  if (!element_count(n.type(i).shape).is_constant())
    n.unsupported(UnsupportedKind::kRunTimeValue, "input {} of a length that is only known when the model runs", i);
  return as_index_list(n, i);
}

Value* as_index_list(NodeImport& n, size_t i) {
  Value* x = n.input(i);
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

namespace {

/// Dimensions of the tensor without as many axes as the running model names.
int64_t rank_without_axes(NodeImport& n, int rank) {
  if (const auto declared = n.declared_rank(0)) return std::min(*declared, rank);
  n.unsupported(UnsupportedKind::kRunTimeValue,
                "a number of axes that leave its result, whose declared shape does not say how many stay");
}

}  // namespace

AxesMatrix axes_matrix(NodeImport& n, const Shape& shape, Value* axes, AxesMeaning meaning) {
  auto attrs = std::make_shared<AxesTableAttrs>();
  attrs->extents = shape;
  attrs->keepdims = meaning.keepdims;
  attrs->all_if_empty = meaning.all_if_empty;
  const auto rank = static_cast<int64_t>(shape.size());
  if (!meaning.keepdims && !axes->type.shape[0].is_constant())
    attrs->reduced_rank = rank_without_axes(n, static_cast<int>(rank));
  AxesMatrix made;
  made.table = n.add(op::axes_table, {axes}, attrs);
  const int64_t dims = 3 * rank, count = made.table->type.shape[0].value() - dims;
  const Shape sizes = bind_part(n, made.table, dims, count, "axes");
  made.rows = sizes[0];
  made.columns = sizes[1];
  made.reduced.assign(sizes.begin() + 2, sizes.end());
  return made;
}

Value* to_matrix(NodeImport& n, Value* x, const AxesMatrix& like) {
  auto attrs = std::make_shared<ToMatrixAttrs>();
  attrs->rows = like.rows;
  attrs->columns = like.columns;
  attrs->rank = x->type.rank();
  return n.add(op::to_matrix, {n.reshape(x, {element_count(x->type.shape)}), like.table}, attrs);
}

AxesMatrix matrix_over_axes(NodeImport& n, Value* x, Value* axes, AxesMeaning meaning) {
  AxesMatrix made = axes_matrix(n, x->type.shape, axes, meaning);
  made.matrix = to_matrix(n, x, made);
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

SliceAxes axes_of_slice(NodeImport& n, const Dim& entries, int rank) {
  SliceAxes s;
  if (entries.is_constant()) {
    std::vector<int64_t> all(static_cast<size_t>(entries.value())), ones(all.size(), 1);
    std::iota(all.begin(), all.end(), int64_t{0});
    if (!n.has(3)) s.known_axes = all;
    if (!n.has(4)) s.known_steps = ones;
  }
  if (n.has(3) && is_known_list(n, 3)) s.known_axes = n.integers(3, "axes");
  if (n.has(4) && is_known_list(n, 4)) s.known_steps = n.integers(4, "steps");
  if (s.known_axes) {
    for (int64_t& axis : *s.known_axes) axis = n.axis(axis, rank);
  }
  const auto list = [&](const auto& known, size_t i, const Term& otherwise) -> Value* {
    if (known) return index_constant(n, *known);
    return n.has(i) ? as_index_list(n, i) : otherwise;
  };
  s.axes = list(s.known_axes, 3, Term::range(n, entries));
  s.steps = list(s.known_steps, 4, Term::filled(n, DType::kI64, 1, {entries}));
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
  Value *starts = as_index_list(n, 1), *ends = as_index_list(n, 2);
  const int64_t rank = x->type.rank();
  const SliceAxes s = axes_of_slice(n, starts->type.shape[0], x->type.rank());
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
      // The op has brought them into the axis.
      x = n.slice_inside(x, axis, begin, begin + count * stride - (stride > 0 ? 0 : stride + 1), stride);
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
