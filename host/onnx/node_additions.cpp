// What the converter of a node adds to the function: constants and nodes.
#include <algorithm>

#include "host/onnx/importer.h"
#include "host/onnx/node_import.h"
#include "host/onnx/open_operands.h"
#include "host/onnx/required_dims.h"
#include "host/ops/elementwise.h"
#include "host/ops/movement.h"
#include "host/ops/repeat.h"

namespace gantry {
namespace {

/// Whether a constraint of the function says that a <= most, by itself.
bool is_said(const Function& function, const Dim& a, const Dim& most) {
  return std::ranges::any_of(function.constraints, [&](const DimConstraint& c) {
    return certainly_at_most(a + c.left, most + c.right) || certainly_at_most(a + c.right, most + c.left);
  });
}

/// Nothing may read beyond the data: what a slice reads of an axis of that extent is there. A user error
/// where it never is.
void require_inside(NodeImport& n, const Dim& extent, const Dim& begin, const Dim& end, int64_t stride) {
  const Dim low = stride > 0 ? begin : end + 1, high = stride > 0 ? end : begin + 1;
  if (certainly_at_most(high, low)) return;  // it reads nothing
  const auto require = [&](const Dim& a, const Dim& most) {
    if (certainly_at_most(a, most) || is_said(n.function(), a, most)) return;
    if (provably_different(min(a, most), a))
      n.fail("reads elements {} to {} of an axis of {}", begin.str(), end.str(), extent.str());
    require_at_most(n, a, most);
  };
  require(high, extent);
  require(0, low);
}

}  // namespace

Value* NodeImport::dims_as_data(Shape dims) {
  return importer_.dims_as_data(Contents::vector(std::move(dims)), name_);
}

std::vector<Value*> NodeImport::add_any(const OpHandle& op, std::vector<Value*> inputs,
                                        std::shared_ptr<const Attrs> attrs) {
  Function& function = importer_.function();
  std::vector<ConstantPtr> known = importer_.try_evaluate(op, attrs, inputs);
  if (known.empty()) {
    const OpDef& declared = op_set().get(op);
    repeat_open_operands(function, declared, inputs, name_, importer_.data_dims());
    return infer_and_add(function, declared, std::move(attrs), std::move(inputs), {name_})->results;
  }
  std::vector<Value*> values;
  for (ConstantPtr& data : known) values.push_back(function.add_constant(name_, std::move(data)));
  return values;
}

Value* NodeImport::constant_value(ConstantPtr data, const char* hint) {
  return importer_.function().add_constant(name_ + "." + hint, std::move(data));
}

Value* NodeImport::scalar(DType dtype, double value) {
  if (dtype == DType::kF32) {
    float narrow = static_cast<float>(value);
    return constant_value(make_constant({DType::kF32, {}}, &narrow), "scalar");
  }
  Value* wide = constant_value(make_constant({DType::kF64, {}}, &value), "scalar");
  if (dtype == DType::kF64) return wide;
  return cast(wide, dtype);
}

Value* NodeImport::cast(Value* x, DType dtype) {
  if (x->type.dtype == dtype) return x;
  auto attrs = std::make_shared<CastAttrs>();
  attrs->to = dtype;
  return add(op::cast, {x}, attrs);
}

Value* NodeImport::reshape(Value* x, Shape shape) {
  if (x->type.shape == shape) return x;
  auto attrs = std::make_shared<ReshapeAttrs>();
  attrs->shape = std::move(shape);
  return add(op::reshape, {x}, attrs);
}

Value* NodeImport::broadcast(Value* x, Shape shape) {
  if (x->type.shape == shape) return x;
  return add(op::broadcast_to, {x}, ops::broadcast_attrs(x->type.shape, std::move(shape)));
}

Value* NodeImport::slice(Value* x, int64_t axis, Dim begin, Dim end, int64_t stride) {
  const Shape& shape = x->type.shape;
  if (axis >= 0 && axis < std::ssize(shape))
    require_inside(*this, shape[static_cast<size_t>(axis)], begin, end, stride);
  return slice_inside(x, axis, std::move(begin), std::move(end), stride);
}

Value* NodeImport::slice_inside(Value* x, int64_t axis, Dim begin, Dim end, int64_t stride) {
  if (axis < 0 || axis >= static_cast<int64_t>(x->type.shape.size()))
    fail("an input of type {} has too few dimensions", x->type.str());
  auto attrs = std::make_shared<StridedSliceAttrs>();
  attrs->begin.assign(x->type.shape.size(), 0);
  attrs->end = x->type.shape;
  attrs->strides.assign(x->type.shape.size(), 1);
  attrs->begin[static_cast<size_t>(axis)] = std::move(begin);
  attrs->end[static_cast<size_t>(axis)] = std::move(end);
  attrs->strides[static_cast<size_t>(axis)] = stride;
  return add(op::strided_slice, {x}, attrs);
}

Value* NodeImport::transpose(Value* x, std::vector<int64_t> axes) {
  auto attrs = std::make_shared<TransposeAttrs>();
  attrs->axes = std::move(axes);
  return add(op::transpose, {x}, attrs);
}

}  // namespace gantry
