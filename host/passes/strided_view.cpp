#include "host/passes/strided_view.h"

#include "host/ops/movement.h"
#include "host/ops/op.h"
#include "host/passes/canonicalize.h"

namespace gantry {
namespace {

std::optional<StridedView> through_transpose(const Node& node, bool scaled) {
  const auto* attrs = dynamic_cast<const TransposeAttrs*>(node.attrs.get());
  if (attrs == nullptr) return std::nullopt;
  StridedView in = strided_view(node.inputs[0], scaled), view = in;
  for (size_t i = 0; i < attrs->axes.size(); ++i) {
    view.extents[i] = in.extents[static_cast<size_t>(attrs->axes[i])];
    view.strides[i] = in.strides[static_cast<size_t>(attrs->axes[i])];
  }
  return view;
}

std::optional<StridedView> through_slice(const Node& node, bool scaled) {
  const auto* attrs = dynamic_cast<const StridedSliceAttrs*>(node.attrs.get());
  if (attrs == nullptr) return std::nullopt;
  StridedView view = strided_view(node.inputs[0], scaled);
  for (size_t i = 0; i < attrs->begin.size(); ++i) {
    view.offset = view.offset + attrs->begin[i] * view.strides[i];
    view.strides[i] = view.strides[i] * attrs->strides[i];
  }
  view.extents = node.result()->type.shape;
  return view;
}

// gather with one constant index takes a single position of an axis.
std::optional<StridedView> through_selection(const Node& node, bool scaled) {
  if (producer_of(node.result(), "gather") == nullptr) return std::nullopt;
  const Value* index = node.inputs[1];
  if (!index->is_constant() || !(element_count(index->type.shape) == Dim(1)) || index->type.rank() > 1 ||
      index->type.dtype != DType::kI64)
    return std::nullopt;
  StridedView view = strided_view(node.inputs[0], scaled);
  const auto axis = static_cast<size_t>(node.attrs_as<AxisAttrs>().axis);
  Dim position = *index->constant->as<int64_t>();
  if (position.value() < 0) position = position + view.extents[axis];
  view.offset = view.offset + position * view.strides[axis];
  if (index->type.rank() == 1) {
    view.extents[axis] = 1;
  } else {
    view.extents.erase(view.extents.begin() + static_cast<std::ptrdiff_t>(axis));
    view.strides.erase(view.strides.begin() + static_cast<std::ptrdiff_t>(axis));
  }
  return view;
}

std::optional<StridedView> through_reshape(const Node& node, bool scaled) {
  if (!node.op->is_view || node.inputs.size() != 1) return std::nullopt;
  StridedView view = strided_view(node.inputs[0], scaled);
  const Shape& shape = node.result()->type.shape;
  auto strides = reshape_strides(view.extents, view.strides, shape);
  if (!strides) return std::nullopt;
  view.extents = shape;
  view.strides = *strides;
  return view;
}

std::optional<StridedView> through_scale(const Node& node) {
  const bool product = producer_of(node.result(), "multiply") != nullptr;
  if (!product && producer_of(node.result(), "divide") == nullptr) return std::nullopt;
  std::optional<double> factor = constant_scalar(node.inputs[1]);
  Value* data = node.inputs[0];
  if (!factor && product) {
    factor = constant_scalar(node.inputs[0]);
    data = node.inputs[1];
  }
  if (!factor || (!product && *factor == 0) || !(data->type == node.result()->type)) return std::nullopt;
  StridedView view = strided_view(data, true);
  view.factor *= product ? *factor : 1 / *factor;
  return view;
}

}  // namespace

StridedView contiguous_view(Value* value) {
  StridedView view;
  view.base = value;
  view.extents = value->type.shape;
  view.strides.assign(view.extents.size(), Dim(0));
  Dim stride = 1;
  for (size_t i = view.extents.size(); i-- > 0;) {
    view.strides[i] = stride;
    stride = stride * view.extents[i];
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

std::optional<Shape> reshape_strides(const Shape& extents, const Shape& strides, const Shape& reshaped) {
  Shape result(reshaped.size(), Dim(0));
  size_t from = extents.size();
  Dim left = 1, stride = 0;  // of the axis being shared out: elements not yet used, and their stride
  auto next_axis = [&] {
    while (from > 0 && extents[from - 1] == Dim(1)) --from;
    return from > 0;
  };
  for (size_t to = reshaped.size(); to-- > 0;) {
    const Dim& wanted = reshaped[to];
    if (wanted == Dim(1)) continue;
    if (wanted == Dim(0)) return std::nullopt;
    if (left == Dim(1)) {
      if (!next_axis()) return std::nullopt;
      --from;
      left = extents[from];
      stride = strides[from];
    }
    // An axis that merges several needs them to follow each other.
    while (!(left == wanted) && !(floordiv(left, wanted) * wanted == left)) {
      if (!next_axis() || !(strides[from - 1] == stride * left)) return std::nullopt;
      --from;
      left = left * extents[from];
    }
    result[to] = stride;
    stride = stride * wanted;
    left = left == wanted ? Dim(1) : floordiv(left, wanted);
  }
  if (!(left == Dim(1)) || next_axis()) return std::nullopt;
  return result;
}

StridedView strided_view(Value* value, bool scaled) {
  const Node* node = value->producer;
  if (node == nullptr || node->results.size() != 1 || !node->bodies.empty()) return contiguous_view(value);
  if (auto view = through_transpose(*node, scaled)) return *view;
  if (auto view = through_slice(*node, scaled)) return *view;
  if (auto view = through_selection(*node, scaled)) return *view;
  if (auto view = through_reshape(*node, scaled)) return *view;
  if (scaled) {
    if (auto view = through_scale(*node)) return *view;
  }
  return contiguous_view(value);
}

}  // namespace gantry
