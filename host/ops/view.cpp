// Ops whose result is their input's bytes under another type.
#include "host/ops/bitcast.h"
#include "host/ops/families.h"
#include "host/ops/movement.h"
#include "host/ops/support.h"

namespace gantry {
namespace {

using ops::input_type;

std::vector<TensorType> infer_reshape(const Node& node, Function& function) {
  const TensorType& x = input_type(node, 0);
  const Shape& shape = node.attrs_as<ReshapeAttrs>().shape;
  for (const Dim& d : shape) {
    ops::require(!d.is_constant() || d.value() >= 0, "the shape {} has a negative dimension",
                 to_string(shape));
  }
  Dim before = element_count(x.shape), after = element_count(shape);
  ops::require(!provably_different(before, after), "{} does not reshape to {}", x.str(), to_string(shape));
  ops::unify(before, after, function, node, "elements before and after");
  return {{x.dtype, shape}};
}

std::vector<Tensor> compute_reshape(const Node&, const Tensor& x, const std::vector<Expr>& shape) {
  auto body = [&](const std::vector<Expr>& i) {
    Expr flat = 0;
    for (size_t d = 0; d < shape.size(); ++d) flat = flat * shape[d] + i[d];
    std::vector<Expr> at(x.shape().size());
    for (size_t d = at.size(); d-- > 0;) {
      at[d] = d == 0 ? flat : mod(flat, x.shape()[d]);
      if (d > 0) flat = floordiv(flat, x.shape()[d]);
    }
    return x(at);
  };
  return {compute(shape, body, "reshape")};
}

}  // namespace

bool views_elements(const Node& node) {
  return op_def(node).is_view && node.inputs.size() == 1 && !node.is(op::bitcast);
}

void add_view_ops(OpSet& set) {
  OpDef reshape =
      ops::define(op::reshape, FusionClass::kInjective, LayoutBehaviour::kNone, {"data"});
  reshape.infer = infer_reshape;
  reshape.compute = [](const Node& node, const std::vector<Tensor>& in) {
    return compute_reshape(node, in[0], ops::result_shape(node));
  };
  reshape.is_view = true;
  set.add(std::move(reshape));

  OpDef bitcast = ops::define(op::bitcast, FusionClass::kOpaque, LayoutBehaviour::kNone, {"data"});
  bitcast.infer = [](const Node& node, Function&) {
    const TensorType& x = input_type(node, 0);
    const DType to = node.attrs_as<CastAttrs>().to;
    const auto fits = [](DType d) { return d != DType::kBool && d != DType::kI4 && d != DType::kI2; };
    ops::require(fits(x.dtype) && fits(to) && bit_width(x.dtype) == bit_width(to),
                 "{} has not the bits of {}", name_of(x.dtype), name_of(to));
    return std::vector<TensorType>{{to, x.shape}};
  };
  bitcast.is_view = true;
  bitcast.keeps_types = true;
  set.add(std::move(bitcast));

  for (const OpHandle* handle : {static_cast<const OpHandle*>(&op::identity), static_cast<const OpHandle*>(&nn::dropout)}) {
    OpDef op = ops::define(*handle, FusionClass::kElementwise, LayoutBehaviour::kAny, {"data"});
    op.infer = ops::same_as_first;
    op.compute = [](const Node&, const std::vector<Tensor>& in) {
      return std::vector<Tensor>{
          ops::map_elements(in[0], in[0].dtype(), "identity", [](Expr x) { return x; })};
    };
    op.is_view = true;
    set.add(std::move(op));
  }
}

}  // namespace gantry
