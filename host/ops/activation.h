// Activation functions: nn.relu and its kin. A new one is a formula, a constant, and its place in kActivations.
#pragma once

#include <tuple>

#include "host/ops/elementwise_attrs.h"
#include "host/ops/elementwise_op.h"

namespace gantry {

namespace formula {

/// A constant of x's dtype.
inline Expr number(const Expr& x, double value) {
  return const_of(x.type().dtype, value);
}
inline Expr exp_of(Expr x) {
  return call(MathFn::kExp, {std::move(x)});
}
inline Expr sigmoid_of(Expr x) {
  return call(MathFn::kSigmoid, {std::move(x)});
}
/// log(1 + exp(x)) without overflow for large x.
inline Expr log_one_plus_exp(const Expr& x) {
  const Expr tail = call(MathFn::kLog, {number(x, 1) + exp_of(-call(MathFn::kAbs, {x}))});
  return max(x, number(x, 0)) + tail;
}

inline Expr relu(const NoAttrs&, const Expr& x) {
  return max(x, number(x, 0));
}
inline Expr leaky_relu(const ActivationAttrs& a, const Expr& x) {
  return select(lt(x, number(x, 0)), x * number(x, a.alpha), x);
}
/// nn.elu, and nn.selu with gamma.
inline Expr elu(const ActivationAttrs& a, const Expr& x) {
  const Expr negative = number(x, a.alpha) * (exp_of(x) - number(x, 1));
  return number(x, a.gamma) * select(gt(x, number(x, 0)), x, negative);
}
inline Expr celu(const ActivationAttrs& a, const Expr& x) {
  const Expr negative = number(x, a.alpha) * (exp_of(x / number(x, a.alpha)) - number(x, 1));
  return select(gt(x, number(x, 0)), x, negative);
}
inline Expr gelu(const GeluAttrs& attrs, const Expr& x) {
  const Expr inner = attrs.approximate
                         ? call(MathFn::kTanh, {number(x, 0.7978845608028654) * (x + number(x, 0.044715) * x * x * x)})
                         : call(MathFn::kErf, {x * number(x, 0.7071067811865476)});
  return number(x, 0.5) * x * (number(x, 1) + inner);
}
inline Expr hard_sigmoid(const ActivationAttrs& a, const Expr& x) {
  return max(number(x, 0), min(number(x, 1), x * number(x, a.alpha) + number(x, a.beta)));
}
inline Expr hard_swish(const NoAttrs&, const Expr& x) {
  return x * max(number(x, 0), min(number(x, 1), x * number(x, 1.0 / 6) + number(x, 0.5)));
}
inline Expr mish(const NoAttrs&, const Expr& x) {
  return x * call(MathFn::kTanh, {log_one_plus_exp(x)});
}
inline Expr scaled_tanh(const ActivationAttrs& a, const Expr& x) {
  return number(x, a.alpha) * call(MathFn::kTanh, {x * number(x, a.beta)});
}
inline Expr softplus(const NoAttrs&, const Expr& x) {
  return log_one_plus_exp(x);
}
inline Expr softsign(const NoAttrs&, const Expr& x) {
  return x / (number(x, 1) + call(MathFn::kAbs, {x}));
}
inline Expr silu(const NoAttrs&, const Expr& x) {
  return x * sigmoid_of(x);
}
inline Expr swish(const ActivationAttrs& a, const Expr& x) {
  return x * sigmoid_of(x * number(x, a.alpha));
}
inline Expr thresholded_relu(const ActivationAttrs& a, const Expr& x) {
  return select(gt(x, number(x, a.alpha)), x, number(x, 0));
}
inline Expr shrink(const ActivationAttrs& a, const Expr& x) {
  const Expr bias = number(x, a.alpha), lambda = number(x, a.beta);
  return select(lt(x, -lambda), x + bias, select(gt(x, lambda), x - bias, number(x, 0)));
}

}  // namespace formula

namespace nn {
inline constexpr ElementwiseOp<NoAttrs> relu{"nn.relu", Takes::kAnything, formula::relu};
inline constexpr ElementwiseOp<ActivationAttrs> leaky_relu{"nn.leaky_relu", Takes::kFloat, formula::leaky_relu};
inline constexpr ElementwiseOp<ActivationAttrs> elu{"nn.elu", Takes::kFloat, formula::elu};
inline constexpr ElementwiseOp<ActivationAttrs> selu{"nn.selu", Takes::kFloat, formula::elu};
inline constexpr ElementwiseOp<ActivationAttrs> celu{"nn.celu", Takes::kFloat, formula::celu};
inline constexpr ElementwiseOp<GeluAttrs> gelu{"nn.gelu", Takes::kFloat, formula::gelu};
inline constexpr ElementwiseOp<ActivationAttrs> hard_sigmoid{"nn.hard_sigmoid", Takes::kFloat, formula::hard_sigmoid};
inline constexpr ElementwiseOp<NoAttrs> hard_swish{"nn.hard_swish", Takes::kFloat, formula::hard_swish};
inline constexpr ElementwiseOp<NoAttrs> mish{"nn.mish", Takes::kFloat, formula::mish};
inline constexpr ElementwiseOp<ActivationAttrs> scaled_tanh{"nn.scaled_tanh", Takes::kFloat, formula::scaled_tanh};
inline constexpr ElementwiseOp<NoAttrs> softplus{"nn.softplus", Takes::kFloat, formula::softplus};
inline constexpr ElementwiseOp<NoAttrs> softsign{"nn.softsign", Takes::kFloat, formula::softsign};
inline constexpr ElementwiseOp<NoAttrs> silu{"nn.silu", Takes::kFloat, formula::silu};
inline constexpr ElementwiseOp<ActivationAttrs> swish{"nn.swish", Takes::kFloat, formula::swish};
inline constexpr ElementwiseOp<ActivationAttrs> thresholded_relu{"nn.thresholded_relu", Takes::kFloat,
                                                                 formula::thresholded_relu};
inline constexpr ElementwiseOp<ActivationAttrs> shrink{"nn.shrink", Takes::kAnything, formula::shrink};
}  // namespace nn

inline constexpr std::tuple kActivations{
    &nn::relu,         &nn::leaky_relu, &nn::elu,  &nn::selu,     &nn::celu,     &nn::gelu, &nn::hard_sigmoid,
    &nn::hard_swish,   &nn::mish,       &nn::softplus, &nn::softsign, &nn::silu, &nn::swish, &nn::thresholded_relu,
    &nn::shrink,       &nn::scaled_tanh,
};

}  // namespace gantry
