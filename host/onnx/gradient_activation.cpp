// Derivatives of activation functions (host/ops/activation.h).
#include <numbers>

#include "host/onnx/gradient.h"
#include "host/ops/elementwise.h"

namespace gantry {
namespace {

/// 1 where the condition holds, else 0, of x's dtype.
Term indicator(const Term& condition, const Term& x) {
  return condition.cast(x.dtype());
}
Term positive(const Term& x) {
  return less(x.number_like(0), x);
}

template <auto derivative>
void chain(Pullback& back) {
  back.give(0, back.adjoint() * derivative(back.input(0)));
}
/// The same of a function with attributes.
template <typename AttrsType, auto derivative>
void chain_of(Pullback& back) {
  back.give(0, back.adjoint() * derivative(back.attrs<AttrsType>(), back.input(0)));
}

Term of_relu(const Term& x) {
  return indicator(positive(x), x);
}
Term of_leaky_relu(const ActivationAttrs& a, const Term& x) {
  return where(less(x, x.number_like(0)), x.number_like(a.alpha), 1);
}
/// The exponential is of what is not positive: what is not chosen must be finite, or its own derivative is
/// NaN.
Term of_elu(const ActivationAttrs& a, const Term& x) {
  return where(positive(x), 1, exp(minimum(x, 0)) * a.alpha) * a.gamma;
}
Term of_celu(const ActivationAttrs& a, const Term& x) {
  return where(positive(x), 1, exp(minimum(x, 0) / a.alpha));
}
/// P(X <= x) + x p(x) of the normal distribution, or after the approximation 0.5 x (1 + tanh(u(x))).
Term of_gelu(const GeluAttrs& attrs, const Term& x) {
  if (!attrs.approximate) {
    const Term probability = (x * std::numbers::sqrt2 * 0.5).apply(op::erf) * 0.5 + 0.5;
    const Term density = exp(square(x) * -0.5) * (std::numbers::inv_sqrtpi / std::numbers::sqrt2);
    return probability + x * density;
  }
  constexpr double kScale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi, kCubic = 0.044715;
  const Term t = tanh((x + x * x * x * kCubic) * kScale);
  const Term inner = (square(x) * (3 * kCubic) + 1) * kScale;
  return t * 0.5 + 0.5 + x * (1.0 - square(t)) * inner * 0.5;
}
Term strictly_between(const Term& x, double low, double high) {
  return both(less(x.number_like(low), x), less(x, x.number_like(high)));
}
Term of_hard_sigmoid(const ActivationAttrs& a, const Term& x) {
  return indicator(strictly_between(x * a.alpha + a.beta, 0, 1), x) * a.alpha;
}
Term of_hard_swish(const Term& x) {
  const Term line = x / 6 + 0.5;
  return minimum(maximum(line, 0), 1) + x * indicator(strictly_between(line, 0, 1), x) / 6;
}
Term of_mish(const Term& x) {
  const Term t = tanh(x.apply(nn::softplus));
  return t + x * (1.0 - square(t)) * sigmoid(x);
}
Term of_softplus(const Term& x) {
  return sigmoid(x);
}
Term of_softsign(const Term& x) {
  return square(abs(x) + 1).apply(op::reciprocal);
}
Term of_silu(const Term& x) {
  const Term s = sigmoid(x);
  return s + x * s * (1.0 - s);
}
Term of_swish(const ActivationAttrs& a, const Term& x) {
  const Term s = sigmoid(x * a.alpha);
  return s + x * s * (1.0 - s) * a.alpha;
}
Term of_thresholded_relu(const ActivationAttrs& a, const Term& x) {
  return indicator(less(x.number_like(a.alpha), x), x);
}
Term of_shrink(const ActivationAttrs& a, const Term& x) {
  return indicator(either(less(x, x.number_like(-a.beta)), less(x.number_like(a.beta), x)), x);
}

}  // namespace

void add_activation_gradients(GradientTable& table) {
  const GradientEntry entries[] = {
      {&nn::relu, chain<of_relu>},
      {&nn::leaky_relu, chain_of<ActivationAttrs, of_leaky_relu>},
      {&nn::elu, chain_of<ActivationAttrs, of_elu>},
      {&nn::selu, chain_of<ActivationAttrs, of_elu>},
      {&nn::celu, chain_of<ActivationAttrs, of_celu>},
      {&nn::gelu, chain_of<GeluAttrs, of_gelu>},
      {&nn::hard_sigmoid, chain_of<ActivationAttrs, of_hard_sigmoid>},
      {&nn::hard_swish, chain<of_hard_swish>},
      {&nn::mish, chain<of_mish>},
      {&nn::softplus, chain<of_softplus>},
      {&nn::softsign, chain<of_softsign>},
      {&nn::silu, chain<of_silu>},
      {&nn::swish, chain_of<ActivationAttrs, of_swish>},
      {&nn::thresholded_relu, chain_of<ActivationAttrs, of_thresholded_relu>},
      {&nn::shrink, chain_of<ActivationAttrs, of_shrink>},
  };
  table.insert(table.end(), std::begin(entries), std::end(entries));
}

}  // namespace gantry
