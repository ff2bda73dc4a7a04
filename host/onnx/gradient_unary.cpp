// Derivatives of functions of one element: a formula an op.
#include <cmath>
#include <numbers>

#include "host/onnx/gradient.h"
#include "host/ops/elementwise.h"

namespace gantry {
namespace {

Term reciprocal(const Term& x) {
  return x.apply(op::reciprocal);
}
Term reciprocal_root(const Term& x) {
  return x.apply(op::rsqrt);
}

/// adjoint * f'(x), where `derivative` is of a function of the operand and the result.
template <auto derivative>
void chain(Pullback& back) {
  back.give(0, back.adjoint() * derivative(back.input(0), back.result()));
}
void pass_on(Pullback& back) {
  back.give(0, back.adjoint());
}
/// Of functions that are constant between their jumps.
void nothing(Pullback&) {}

Term of_exp(const Term&, const Term& y) {
  return y;
}
Term of_log(const Term& x, const Term&) {
  return reciprocal(x);
}
Term of_sqrt(const Term&, const Term& y) {
  return reciprocal(y) * 0.5;
}
Term of_rsqrt(const Term&, const Term& y) {
  return y * y * y * -0.5;
}
Term of_tanh(const Term&, const Term& y) {
  return 1.0 - square(y);
}
Term of_erf(const Term& x, const Term&) {
  return exp(-square(x)) * (2 * std::numbers::inv_sqrtpi);
}
Term of_sigmoid(const Term&, const Term& y) {
  return y * (1.0 - y);
}
Term of_sin(const Term& x, const Term&) {
  return cos(x);
}
Term of_cos(const Term& x, const Term&) {
  return -sin(x);
}
Term of_tan(const Term&, const Term& y) {
  return square(y) + 1;
}
Term of_asin(const Term& x, const Term&) {
  return reciprocal_root(1.0 - square(x));
}
Term of_acos(const Term& x, const Term&) {
  return -reciprocal_root(1.0 - square(x));
}
Term of_atan(const Term& x, const Term&) {
  return reciprocal(square(x) + 1);
}
Term of_sinh(const Term& x, const Term&) {
  return x.apply(op::cosh);
}
Term of_cosh(const Term& x, const Term&) {
  return x.apply(op::sinh);
}
Term of_asinh(const Term& x, const Term&) {
  return reciprocal_root(square(x) + 1);
}
Term of_acosh(const Term& x, const Term&) {
  return reciprocal_root(square(x) - 1);
}
Term of_atanh(const Term& x, const Term&) {
  return reciprocal(1.0 - square(x));
}
Term of_abs(const Term& x, const Term&) {
  return x.apply(op::sign);
}
Term of_reciprocal(const Term&, const Term& y) {
  return -square(y);
}

void back_through_negative(Pullback& back) {
  back.give(0, -back.adjoint());
}
/// At its bounds too the function counts as x.
void back_through_clip(Pullback& back) {
  const auto& attrs = back.attrs<ClipAttrs>();
  const Term x = back.input(0);
  Term adjoint = back.adjoint();
  if (std::isfinite(attrs.min)) adjoint = where(less(x, x.number_like(attrs.min)), 0, adjoint);
  if (std::isfinite(attrs.max)) adjoint = where(less(x.number_like(attrs.max), x), 0, adjoint);
  back.give(0, adjoint);
}

}  // namespace

void add_unary_gradients(GradientTable& table) {
  const GradientEntry entries[] = {
      {&op::exp, chain<of_exp>},
      {&op::log, chain<of_log>},
      {&op::sqrt, chain<of_sqrt>},
      {&op::rsqrt, chain<of_rsqrt>},
      {&op::tanh, chain<of_tanh>},
      {&op::erf, chain<of_erf>},
      {&op::sigmoid, chain<of_sigmoid>},
      {&op::sin, chain<of_sin>},
      {&op::cos, chain<of_cos>},
      {&op::tan, chain<of_tan>},
      {&op::asin, chain<of_asin>},
      {&op::acos, chain<of_acos>},
      {&op::atan, chain<of_atan>},
      {&op::sinh, chain<of_sinh>},
      {&op::cosh, chain<of_cosh>},
      {&op::asinh, chain<of_asinh>},
      {&op::acosh, chain<of_acosh>},
      {&op::atanh, chain<of_atanh>},
      {&op::abs, chain<of_abs>},
      {&op::reciprocal, chain<of_reciprocal>},
      {&op::negative, back_through_negative},
      {&op::clip, back_through_clip},
      {&op::floor, nothing},
      {&op::ceil, nothing},
      {&op::round, nothing},
      {&op::trunc, nothing},
      {&op::sign, nothing},
      {&op::copy, pass_on},
      {&op::cast, pass_on},
  };
  table.insert(table.end(), std::begin(entries), std::end(entries));
}

}  // namespace gantry
