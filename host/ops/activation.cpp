// Activation functions: nn.relu and its kin.
#include <cmath>

#include "host/ops/elementwise.h"
#include "host/ops/families.h"
#include "host/ops/support.h"

namespace gantry {
namespace {

using ops::input_type;

Expr imm(const Expr& like, double value) {
  return const_of(like.type().dtype, value);
}
Expr exp_of(Expr x) {
  return call(MathFn::kExp, {std::move(x)});
}

template <typename AttrsType>
void add_activation(OpSet& set, const std::string& name, std::function<Expr(const AttrsType&, Expr)> f,
                    bool integers = false) {
  OpDef op = ops::define<AttrsType>("nn." + name, FusionClass::kElementwise, LayoutBehaviour::kAny, {"x"});
  op.infer = [integers](const Node& node, Function&) {
    if (!integers) ops::require_float(node, 0);
    return std::vector<TensorType>{input_type(node, 0)};
  };
  op.compute = [name, f](const Node& node, const std::vector<Tensor>& in) {
    const auto& attrs = node.attrs_as<AttrsType>();
    return std::vector<Tensor>{
        ops::map_elements(in[0], in[0].dtype(), name, [&](Expr x) { return f(attrs, x); })};
  };
  set.add(std::move(op));
}

Expr softplus(Expr x) {
  // log(1 + exp(x)) without overflow for large x.
  Expr tail = call(MathFn::kLog, {imm(x, 1) + exp_of(-call(MathFn::kAbs, {x}))});
  return max(x, imm(x, 0)) + tail;
}

Expr gelu(const GeluAttrs& attrs, Expr x) {
  Expr inner = attrs.approximate
                   ? call(MathFn::kTanh, {imm(x, 0.7978845608028654) * (x + imm(x, 0.044715) * x * x * x)})
                   : call(MathFn::kErf, {x * imm(x, 0.7071067811865476)});
  return imm(x, 0.5) * x * (imm(x, 1) + inner);
}

Expr elu(const ActivationAttrs& a, Expr x) {
  Expr negative = imm(x, a.alpha) * (exp_of(x) - imm(x, 1));
  return imm(x, a.gamma) * select(gt(x, imm(x, 0)), x, negative);
}

Expr celu(const ActivationAttrs& a, Expr x) {
  Expr negative = imm(x, a.alpha) * (exp_of(x / imm(x, a.alpha)) - imm(x, 1));
  return select(gt(x, imm(x, 0)), x, negative);
}

Expr hard_sigmoid(const ActivationAttrs& a, Expr x) {
  return max(imm(x, 0), min(imm(x, 1), x * imm(x, a.alpha) + imm(x, a.beta)));
}

Expr shrink(const ActivationAttrs& a, Expr x) {
  Expr bias = imm(x, a.alpha), lambda = imm(x, a.beta);
  return select(lt(x, -lambda), x + bias, select(gt(x, lambda), x - bias, imm(x, 0)));
}

void add_prelu(OpSet& set) {
  OpDef op = ops::define("nn.prelu", FusionClass::kBroadcast, LayoutBehaviour::kAny, {"x", "slope"});
  op.infer = [](const Node& node, Function& function) {
    const TensorType &x = input_type(node, 0), &slope = input_type(node, 1);
    ops::require_same_dtype(node, 0, 1);
    Shape shape = broadcast_shapes(x.shape, slope.shape, function, ops::origin_of(node));
    ops::require(shape.size() == x.shape.size(), "the slope {} has a higher rank than the data {}",
                 slope.str(), x.str());
    return std::vector<TensorType>{{x.dtype, shape}};
  };
  op.compute = [](const Node& node, const std::vector<Tensor>& in) {
    auto body = [&](const std::vector<Expr>& i) {
      Expr x = ops::widen(ops::broadcast_read(in[0], i)), slope = ops::widen(ops::broadcast_read(in[1], i));
      Expr y = select(lt(x, imm(x, 0)), x * slope, x);
      return cast(in[0].dtype(), y);
    };
    return std::vector<Tensor>{compute(to_exprs(node.result()->type.shape), body, "prelu")};
  };
  set.add(std::move(op));
}

}  // namespace

void add_activation_ops(OpSet& set) {
  using A = ActivationAttrs;
  add_activation<NoAttrs>(
      set, "relu", [](const NoAttrs&, Expr x) { return max(x, imm(x, 0)); }, true);
  add_activation<A>(set, "leaky_relu",
                    [](const A& a, Expr x) { return select(lt(x, imm(x, 0)), x * imm(x, a.alpha), x); });
  add_activation<A>(set, "elu", elu);
  add_activation<A>(set, "selu", elu);
  add_activation<A>(set, "celu", celu);
  add_activation<GeluAttrs>(set, "gelu", gelu);
  add_activation<A>(set, "hard_sigmoid", hard_sigmoid);
  add_activation<NoAttrs>(set, "hard_swish", [](const NoAttrs&, Expr x) {
    return x * max(imm(x, 0), min(imm(x, 1), x * imm(x, 1.0 / 6) + imm(x, 0.5)));
  });
  add_activation<NoAttrs>(set, "mish",
                          [](const NoAttrs&, Expr x) { return x * call(MathFn::kTanh, {softplus(x)}); });
  add_activation<NoAttrs>(set, "softplus", [](const NoAttrs&, Expr x) { return softplus(x); });
  add_activation<NoAttrs>(set, "softsign",
                          [](const NoAttrs&, Expr x) { return x / (imm(x, 1) + call(MathFn::kAbs, {x})); });
  add_activation<NoAttrs>(set, "silu",
                          [](const NoAttrs&, Expr x) { return x * call(MathFn::kSigmoid, {x}); });
  add_activation<A>(set, "swish",
                    [](const A& a, Expr x) { return x * call(MathFn::kSigmoid, {x * imm(x, a.alpha)}); });
  add_activation<A>(set, "thresholded_relu",
                    [](const A& a, Expr x) { return select(gt(x, imm(x, a.alpha)), x, imm(x, 0)); });
  add_activation<A>(set, "shrink", shrink, true);
  add_prelu(set);
}

}  // namespace gantry
