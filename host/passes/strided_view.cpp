#include "host/passes/strided_view.h"

#include <algorithm>

#include "host/ops/bitcast.h"
#include "host/ops/elementwise.h"
#include "host/ops/movement.h"
#include "host/ops/op.h"
#include "host/passes/canonicalize.h"
#include "host/passes/rewriter.h"

namespace gantry {
namespace {

using Axis = std::vector<AxisPart>;

std::optional<StridedView> through_transpose(const Node& node, ViewThrough through) {
  const auto* attrs = node.match(op::transpose);
  if (attrs == nullptr) return std::nullopt;
  StridedView in = strided_view(node.inputs[0], through), view = in;
  for (size_t i = 0; i < attrs->axes.size(); ++i) view.axes[i] = in.axes[static_cast<size_t>(attrs->axes[i])];
  return view;
}

std::optional<StridedView> through_slice(const Node& node, ViewThrough through) {
  const auto* attrs = node.match(op::strided_slice);
  if (attrs == nullptr) return std::nullopt;
  StridedView view = strided_view(node.inputs[0], through);
  const Shape& shape = node.result()->type.shape;
  for (size_t i = 0; i < attrs->begin.size(); ++i) {
    const bool whole = attrs->begin[i] == Dim(0) && attrs->strides[i] == 1 && view.extent(i) == shape[i];
    if (whole) continue;
    const std::optional<Dim> stride = view.stride(i);
    if (!stride) return std::nullopt;
    view.offset = view.offset + attrs->begin[i] * *stride;
    view.axes[i] = {{shape[i], *stride * attrs->strides[i]}};
  }
  return view;
}

/// Whether an index, which counts from the end where it is negative, is one of an axis of this extent. An
/// axis has a first and a last position: nothing reads from one that is empty.
bool is_inside(int64_t index, const Dim& extent) {
  if (index == 0 || index == -1) return true;
  const auto least = extent.lower_bound();
  return least && *least > 0 && -*least <= index && index < *least;
}

// gather with one constant index takes a single position of an axis. What is beyond the axis it takes from
// its end.
std::optional<StridedView> through_selection(const Node& node, ViewThrough through) {
  if (producer_of(node.result(), op::gather) == nullptr) return std::nullopt;
  const Value* index = node.inputs[1];
  if (!index->is_constant() || !(element_count(index->type.shape) == Dim(1)) || index->type.rank() > 1 ||
      index->type.dtype != DType::kI64)
    return std::nullopt;
  StridedView view = strided_view(node.inputs[0], through);
  const auto axis = static_cast<size_t>(node.attrs_as<AxisAttrs>().axis);
  const std::optional<Dim> stride = view.stride(axis);
  if (!stride) return std::nullopt;
  const int64_t given = *index->constant->as<int64_t>();
  if (!is_inside(given, view.extent(axis))) return std::nullopt;
  const Dim position = given < 0 ? view.extent(axis) + given : Dim(given);
  view.offset = view.offset + position * *stride;
  if (index->type.rank() == 1) {
    view.axes[axis] = {{1, *stride}};
  } else {
    view.axes.erase(view.axes.begin() + static_cast<std::ptrdiff_t>(axis));
  }
  return view;
}

std::optional<StridedView> through_broadcast(const Node& node, ViewThrough through) {
  if (node.match(op::broadcast_to) == nullptr) return std::nullopt;
  StridedView view = strided_view(node.inputs[0], through);
  const Shape& shape = node.result()->type.shape;
  const size_t added = shape.size() - view.rank();
  view.axes.insert(view.axes.begin(), added, Axis{{1, 0}});
  for (size_t i = 0; i < shape.size(); ++i) {
    if (view.extent(i) == shape[i]) continue;
    if (!(view.extent(i) == Dim(1))) return std::nullopt;  // one or all: known only when it runs
    view.axes[i] = {{shape[i], 0}};
  }
  return view;
}

std::optional<StridedView> through_reshape(const Node& node, ViewThrough through) {
  if (!views_elements(node)) return std::nullopt;
  StridedView view = strided_view(node.inputs[0], through);
  Axis parts;
  for (const Axis& axis : view.axes) parts.insert(parts.end(), axis.begin(), axis.end());
  auto axes = regroup(parts, node.result()->type.shape);
  if (!axes) return std::nullopt;
  auto is_split = [](const Axis& axis) { return axis.size() != 1; };
  if (!through.split_axes && std::ranges::any_of(*axes, is_split)) return std::nullopt;
  view.axes = std::move(*axes);
  return view;
}

std::optional<StridedView> through_scale(const Node& node, ViewThrough through) {
  const bool product = producer_of(node.result(), op::multiply) != nullptr;
  if (!product && producer_of(node.result(), op::divide) == nullptr) return std::nullopt;
  std::optional<double> factor = constant_scalar(node.inputs[1]);
  Value* data = node.inputs[0];
  if (!factor && product) {
    factor = constant_scalar(node.inputs[0]);
    data = node.inputs[1];
  }
  if (!factor || (!product && *factor == 0) || !(data->type == node.result()->type)) return std::nullopt;
  StridedView view = strided_view(data, through);
  view.factor *= product ? *factor : 1 / *factor;
  return view;
}

/// Puts a part in front of an axis's others, or makes one of both where they follow each other in memory.
void prepend(Axis& axis, const AxisPart& part) {
  if (!axis.empty() && part.stride == axis.front().stride * axis.front().extent) {
    axis.front().extent = axis.front().extent * part.extent;
  } else {
    axis.insert(axis.begin(), part);
  }
}

bool divides(const Dim& divisor, const Dim& dividend) {
  return dividend == divisor || floordiv(dividend, divisor) * divisor == dividend;
}

}  // namespace

Dim StridedView::extent(size_t axis) const {
  Dim all = 1;
  for (const AxisPart& part : axes[axis]) all = all * part.extent;
  return all;
}

std::optional<Dim> StridedView::stride(size_t axis) const {
  if (axes[axis].size() != 1) return std::nullopt;
  return axes[axis].front().stride;
}

StridedView contiguous_view(Value* value) {
  StridedView view;
  view.base = value;
  const Shape& shape = value->type.shape;
  view.axes.resize(shape.size());
  Dim stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    view.axes[i] = {{shape[i], stride}};
    stride = stride * shape[i];
  }
  return view;
}

std::optional<double> constant_scalar(const Value* value) {
  if (value == nullptr || !value->is_constant() || !(element_count(value->type.shape) == Dim(1)))
    return std::nullopt;
  if (value->type.dtype == DType::kF32) return static_cast<double>(*value->constant->as<float>());
  if (value->type.dtype == DType::kF64) return *value->constant->as<double>();
  return std::nullopt;
}

std::optional<std::vector<Axis>> regroup(const Axis& parts, const Shape& shape) {
  std::vector<Axis> result(shape.size());
  size_t from = parts.size();
  AxisPart left{1, 0};  // of the part being shared out: what is not yet used
  auto next_part = [&] {
    while (from > 0 && parts[from - 1].extent == Dim(1)) --from;
    return from > 0;
  };
  for (size_t to = shape.size(); to-- > 0;) {
    Dim wanted = shape[to];
    if (wanted == Dim(0)) return std::nullopt;
    while (!(wanted == Dim(1))) {
      if (left.extent == Dim(1)) {
        if (!next_part()) return std::nullopt;
        left = parts[--from];
        if (left.extent == Dim(0)) return std::nullopt;
      }
      if (divides(wanted, left.extent)) {
        prepend(result[to], {wanted, left.stride});
        left = {left.extent == wanted ? Dim(1) : floordiv(left.extent, wanted), left.stride * wanted};
        wanted = 1;
      } else if (divides(left.extent, wanted)) {
        prepend(result[to], left);
        wanted = floordiv(wanted, left.extent);
        left.extent = 1;
      } else {
        // What cannot be shared out by itself may be together with what follows it.
        if (!next_part() || !(parts[from - 1].stride == left.stride * left.extent)) return std::nullopt;
        left.extent = left.extent * parts[--from].extent;
      }
    }
    if (result[to].empty()) result[to] = {{1, 0}};
  }
  if (!(left.extent == Dim(1)) || next_part()) return std::nullopt;
  return result;
}

std::optional<Shape> strides_as(const Axis& parts, const Shape& shape) {
  const auto axes = regroup(parts, shape);
  if (!axes) return std::nullopt;
  Shape strides;
  for (const Axis& axis : *axes) {
    if (axis.size() != 1) return std::nullopt;
    strides.push_back(axis.front().stride);
  }
  return strides;
}

StridedView strided_view(Value* value, ViewThrough through) {
  const Node* node = value->producer;
  if (node == nullptr || node->results.size() != 1 || !node->bodies.empty()) return contiguous_view(value);
  if (auto view = through_transpose(*node, through)) return *view;
  if (auto view = through_slice(*node, through)) return *view;
  if (auto view = through_selection(*node, through)) return *view;
  if (auto view = through_broadcast(*node, through)) return *view;
  if (auto view = through_reshape(*node, through)) return *view;
  if (through.scales) {
    if (auto view = through_scale(*node, through)) return *view;
  }
  return contiguous_view(value);
}

}  // namespace gantry
