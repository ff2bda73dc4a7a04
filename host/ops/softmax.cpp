// nn.softmax, nn.log_softmax, nn.hardmax along one axis.
#include "host/ops/families.h"
#include "host/ops/norm.h"
#include "host/ops/support.h"

namespace gantry {
namespace {

using ops::input_type;
using ops::widen;

std::vector<Expr> without(const std::vector<Expr>& v, size_t axis) {
  std::vector<Expr> out = v;
  out.erase(out.begin() + static_cast<std::ptrdiff_t>(axis));
  return out;
}
std::vector<Expr> with(const std::vector<Expr>& v, size_t axis, Expr e) {
  std::vector<Expr> out = v;
  out.insert(out.begin() + static_cast<std::ptrdiff_t>(axis), std::move(e));
  return out;
}

/// Reduction of `element(full index)` along the axis; the result has one dimension less.
Tensor along(const Tensor& x, size_t axis, ReduceKind kind, const char* name,
             const std::function<Expr(const std::vector<Expr>&)>& element) {
  auto k = reduce_axis(0, x.shape()[axis], "k");
  auto body = [&](const std::vector<Expr>& i) { return reduce(kind, element(with(i, axis, k->var)), {k}); };
  return compute(without(x.shape(), axis), body, name);
}

Tensor maximum(const Tensor& x, size_t axis) {
  return along(x, axis, ReduceKind::kMax, "softmax_max",
               [&](const std::vector<Expr>& i) { return widen(x(i)); });
}

std::vector<Tensor> compute_softmax(const Node& node, const std::vector<Tensor>& in) {
  size_t axis = static_cast<size_t>(node.attrs_as<SoftmaxAttrs>().axis);
  const Tensor& x = in[0];
  Tensor top = maximum(x, axis);
  Tensor powers = compute(
      x.shape(),
      [&](const std::vector<Expr>& i) { return call(MathFn::kExp, {widen(x(i)) - top(without(i, axis))}); },
      "softmax_exp");
  Tensor total =
      along(x, axis, ReduceKind::kSum, "softmax_sum", [&](const std::vector<Expr>& i) { return powers(i); });
  // One division a slice: it takes as long as several multiplications.
  auto body = [&](const std::vector<Expr>& i) {
    const Expr scale = const_of(total.dtype(), 1) / total(without(i, axis));
    return cast(x.dtype(), powers(i) * scale);
  };
  return {compute(x.shape(), body, "softmax")};
}

std::vector<Tensor> compute_log_softmax(const Node& node, const std::vector<Tensor>& in) {
  size_t axis = static_cast<size_t>(node.attrs_as<SoftmaxAttrs>().axis);
  const Tensor& x = in[0];
  Tensor top = maximum(x, axis);
  Tensor total = along(x, axis, ReduceKind::kSum, "softmax_sum", [&](const std::vector<Expr>& i) {
    return call(MathFn::kExp, {widen(x(i)) - top(without(i, axis))});
  });
  auto body = [&](const std::vector<Expr>& i) {
    std::vector<Expr> slice = without(i, axis);
    return cast(x.dtype(), widen(x(i)) - top(slice) - call(MathFn::kLog, {total(slice)}));
  };
  return {compute(x.shape(), body, "softmax")};
}

std::vector<Tensor> compute_hardmax(const Node& node, const std::vector<Tensor>& in) {
  size_t axis = static_cast<size_t>(node.attrs_as<SoftmaxAttrs>().axis);
  const Tensor& x = in[0];
  const Expr extent = x.shape()[axis];
  Tensor top = maximum(x, axis);
  // As argmax: NaNs have places of their own, in front of those of all numbers.
  Tensor first = along(x, axis, ReduceKind::kMin, "softmax_sum", [&](const std::vector<Expr>& i) {
    const Expr element = widen(x(i));
    const Expr place = select(eq(element, top(without(i, axis))), i[axis], extent);
    return select(call(MathFn::kIsNan, {element}), i[axis] - extent, place);
  });
  auto body = [&](const std::vector<Expr>& i) {
    const Expr place = first(without(i, axis));
    const Expr chosen = select(lt(place, 0), place + extent, place);
    return select(eq(i[axis], chosen), const_of(x.dtype(), 1), const_of(x.dtype(), 0));
  };
  return {compute(x.shape(), body, "softmax")};
}

}  // namespace

void add_softmax_ops(OpSet& set) {
  auto add = [&](const OpHandle& handle, auto compute_fn) {
    OpDef op = ops::define(handle, FusionClass::kOutElementwiseFusable, LayoutBehaviour::kAxisRemap, {"data"});
    op.infer = [](const Node& node, Function&) {
      ops::require_float(node, 0);
      ops::require_axis(node.attrs_as<SoftmaxAttrs>().axis, input_type(node, 0).rank());
      return std::vector<TensorType>{input_type(node, 0)};
    };
    op.compute = compute_fn;
    op.remap_axes = ops::axis_remapper<SoftmaxAttrs>();
    set.add(std::move(op));
  };
  add(nn::softmax, compute_softmax);
  add(nn::log_softmax, compute_log_softmax);
  add(nn::hardmax, compute_hardmax);
}

}  // namespace gantry
