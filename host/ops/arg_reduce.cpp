// argmax and argmin: the extreme value, then the first (last) index that holds it; that of a NaN where there
// is one, as in NumPy.
#include "host/ops/families.h"
#include "host/ops/reduce.h"
#include "host/ops/support.h"

namespace gantry {
namespace {

using ops::input_type;

std::vector<TensorType> infer_arg(const Node& node, Function&) {
  const auto& attrs = node.attrs_as<ArgReduceAttrs>();
  const TensorType& x = input_type(node, 0);
  ops::require_dtype(x.dtype != DType::kBool && x.dtype != DType::kString, x.dtype);
  ops::require_axis(attrs.axis, x.rank());
  Shape shape = x.shape;
  auto at = shape.begin() + attrs.axis;
  if (attrs.keepdims)
    *at = 1;
  else
    shape.erase(at);
  return {{DType::kI64, shape}};
}

std::vector<Tensor> compute_arg(const Node& node, const std::vector<Tensor>& in, ReduceKind kind) {
  const auto& attrs = node.attrs_as<ArgReduceAttrs>();
  const Tensor& x = in[0];
  size_t axis = static_cast<size_t>(attrs.axis);
  Expr extent = x.shape()[axis];
  std::vector<Expr> shape = x.shape();
  shape[axis] = 1;
  auto at = [axis](std::vector<Expr> i, Expr k) {
    i[axis] = std::move(k);
    return i;
  };
  auto k = reduce_axis(0, extent, "k");
  Tensor best = compute(
      shape, [&](const std::vector<Expr>& i) { return reduce(kind, ops::widen(x(at(i, k->var))), {k}); },
      "extreme", Role::kReduction);
  auto j = reduce_axis(0, extent, "k");
  // NaNs have indices of their own, which precede those of all numbers.
  const bool has_nan = is_float(x.dtype());
  auto position = [&](const std::vector<Expr>& i) {
    const Expr element = ops::widen(x(at(i, j->var)));
    const Expr nan_index = attrs.select_last ? j->var + extent : j->var - extent;
    Expr place = select(eq(element, best(i)), j->var, attrs.select_last ? Expr(-1) : extent);
    if (has_nan) place = select(call(MathFn::kIsNan, {element}), nan_index, place);
    return reduce(attrs.select_last ? ReduceKind::kMax : ReduceKind::kMin, place, {j});
  };
  Tensor index = compute(shape, position, "index", Role::kReduction);
  auto without_nan = [&](const Expr& place) {
    if (!has_nan) return place;
    return attrs.select_last ? select(ge(place, extent), place - extent, place)
                             : select(lt(place, 0), place + extent, place);
  };
  // Without a hit (an empty axis) the index stays inside the tensor.
  auto body = [&](const std::vector<Expr>& i) {
    std::vector<Expr> full = i;
    if (attrs.keepdims)
      full[axis] = 0;
    else
      full.insert(full.begin() + attrs.axis, Expr(0));
    return max(Expr(0), min(without_nan(index(full)), extent - 1));
  };
  return {compute(ops::result_shape(node), body, "arg_reduce")};
}

}  // namespace

void add_arg_reduce_ops(OpSet& set) {
  const std::pair<const OpHandle*, ReduceKind> kinds[] = {{&op::argmax, ReduceKind::kMax},
                                                          {&op::argmin, ReduceKind::kMin}};
  for (const auto& [handle, kind] : kinds) {
    OpDef op = ops::define(*handle, FusionClass::kOpaque, LayoutBehaviour::kNone, {"data"});
    op.infer = infer_arg;
    op.compute = [kind = kind](const Node& node, const std::vector<Tensor>& in) {
      return compute_arg(node, in, kind);
    };
    set.add(std::move(op));
  }
}

}  // namespace gantry
