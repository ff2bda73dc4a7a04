// Derivatives of ops that read or write at positions which are data: what was read from one place several
// times is added there.
#include <algorithm>

#include "host/onnx/gradient.h"
#include "host/ops/elementwise.h"
#include "host/ops/movement.h"
#include "host/ops/scatter.h"
#include "host/ops/sort.h"

namespace gantry {
namespace {

Term scattered(const Op<ScatterAttrs>& scatter, const Term& data, const Term& indices, const Term& updates,
               int64_t axis, ScatterReduction reduction) {
  auto attrs = std::make_shared<ScatterAttrs>();
  attrs->axis = axis;
  attrs->reduction = reduction;
  return {data.node(), data.node().add(scatter, {data, indices, updates}, attrs)};
}
Term zeros(const Term& like, const Shape& shape) {
  return Term::filled(like.node(), like.dtype(), 0, shape);
}

/// The slices of x along `axis` first, the other axes in their order.
Term axis_first(const Term& x, int64_t axis) {
  if (axis == 0) return x;
  std::vector<int64_t> axes{axis};
  for (int64_t d = 0; d < x.rank(); ++d) {
    if (d != axis) axes.push_back(d);
  }
  return x.transposed(std::move(axes));
}
Term axis_back(const Term& x, int64_t axis) {
  if (axis == 0) return x;
  std::vector<int64_t> axes;
  for (int64_t d = 1; d <= axis; ++d) axes.push_back(d);
  axes.push_back(0);
  for (int64_t d = axis + 1; d < x.rank(); ++d) axes.push_back(d);
  return x.transposed(std::move(axes));
}

void back_through_gather(Pullback& back) {
  const int64_t axis = back.attrs<AxisAttrs>().axis;
  const Term x = back.input(0), indices = back.input(1), adjoint = back.adjoint();
  // All of the indices as one axis.
  const auto first = adjoint.shape().begin() + axis;
  Shape flat(adjoint.shape().begin(), first);
  const Dim count = element_count(indices.shape());
  flat.push_back(count);
  flat.insert(flat.end(), first + indices.rank(), adjoint.shape().end());
  back.give(0, spread(adjoint.reshaped(std::move(flat)), indices.reshaped({count}), axis, x.dim(axis)));
}

void back_through_gather_elements(Pullback& back) {
  const int64_t axis = back.attrs<AxisAttrs>().axis;
  const Term x = back.input(0);
  const Term share = scattered(op::scatter_elements, zeros(x, x.shape()), back.input(1), back.adjoint(), axis,
                               ScatterReduction::kAdd);
  back.give(0, share);
}

/// Rows of indices with their batch coordinates in front.
Term with_batch(const Term& indices, int64_t batch_dims) {
  NodeImport& n = indices.node();
  std::vector<Term> parts;
  Shape column = indices.shape();
  column.back() = 1;
  for (int64_t d = 0; d < batch_dims; ++d) {
    Shape along(column.size(), Dim(1));
    along[static_cast<size_t>(d)] = column[static_cast<size_t>(d)];
    parts.push_back(
        Term::range(n, indices.dim(d)).reshaped(std::move(along)).broadcast(column).cast(indices.dtype()));
  }
  parts.push_back(indices);
  return batch_dims == 0 ? indices : concatenated(parts, -1);
}

void back_through_gather_nd(Pullback& back) {
  const Term x = back.input(0);
  const Term rows = with_batch(back.input(1), back.attrs<GatherNdAttrs>().batch_dims);
  back.give(0,
            scattered(op::scatter_nd, zeros(x, x.shape()), rows, back.adjoint(), 0, ScatterReduction::kAdd));
}

/// What the scatter wrote, read back.
Term read_back(Pullback& back, const Op<ScatterAttrs>& scatter, const Term& from) {
  if (&scatter == &op::scatter_nd) return gather_nd(from, back.input(1), 0);
  return gather_elements(from, back.input(1), back.attrs<ScatterAttrs>().axis);
}

template <const Op<ScatterAttrs>& scatter>
void back_through_scatter(Pullback& back) {
  const auto& attrs = back.attrs<ScatterAttrs>();
  const Term data = back.input(0), indices = back.input(1), updates = back.input(2), adjoint = back.adjoint();
  if (attrs.reduction == ScatterReduction::kAdd) {
    back.give(0, adjoint);
    if (back.wants(2)) back.give(2, read_back(back, scatter, adjoint));
    return;
  }
  if (attrs.reduction != ScatterReduction::kNone) back.refuse("with a reduction other than the sum");
  if (back.wants(0)) {
    const Term none = zeros(updates, updates.shape());
    back.give(0, scattered(scatter, adjoint, indices, none, attrs.axis, ScatterReduction::kNone));
  }
  if (!back.wants(2)) return;
  // Of several updates to one place the last one has won.
  const Term numbers = Term::range(back.import(), element_count(updates.shape())).reshaped(updates.shape());
  const Term nobody = Term::filled(back.import(), DType::kI64, -1, data.shape());
  const Term winners = scattered(scatter, nobody, indices, numbers, attrs.axis, ScatterReduction::kNone);
  const Term won = equal(read_back(back, scatter, winners), numbers);
  back.give(2, where(won, read_back(back, scatter, adjoint), 0));
}

/// Of the values, its first result.
void back_through_topk(Pullback& back) {
  const Term x = back.input(0);
  const Term share = scattered(op::scatter_elements, zeros(x, x.shape()), back.result(1), back.adjoint(),
                               back.attrs<TopKAttrs>().axis, ScatterReduction::kAdd);
  back.give(0, share);
}

}  // namespace

Term spread(const Term& x, const Term& positions, int64_t axis, const Dim& extent) {
  const Term rows = axis_first(x, axis);
  Shape wide = rows.shape();
  wide.front() = extent;
  const Term added =
      scattered(op::scatter_nd, zeros(x, wide), positions.unsqueezed(-1), rows, 0, ScatterReduction::kAdd);
  return axis_back(added, axis);
}

void add_index_gradients(GradientTable& table) {
  const GradientEntry entries[] = {
      {&op::gather, back_through_gather},
      {&op::gather_elements, back_through_gather_elements},
      {&op::gather_nd, back_through_gather_nd},
      {&op::scatter_elements, back_through_scatter<op::scatter_elements>},
      {&op::scatter_nd, back_through_scatter<op::scatter_nd>},
      {&op::topk, back_through_topk},
  };
  table.insert(table.end(), std::begin(entries), std::end(entries));
}

}  // namespace gantry
