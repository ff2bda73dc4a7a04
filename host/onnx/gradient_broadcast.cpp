// Derivatives of functions of two elements, and of where.
#include "host/onnx/gradient.h"
#include "host/ops/elementwise.h"

namespace gantry {
namespace {

void back_through_add(Pullback& back) {
  back.give(0, back.adjoint());
  back.give(1, back.adjoint());
}
void back_through_subtract(Pullback& back) {
  back.give(0, back.adjoint());
  if (back.wants(1)) back.give(1, -back.adjoint());
}
void back_through_multiply(Pullback& back) {
  if (back.wants(0)) back.give(0, back.adjoint() * back.input(1));
  if (back.wants(1)) back.give(1, back.adjoint() * back.input(0));
}
void back_through_divide(Pullback& back) {
  const Term share = back.adjoint() / back.input(1);
  back.give(0, share);
  if (back.wants(1)) back.give(1, -(share * back.result()));
}

/// Equal operands take half each.
void back_through_extremum(Pullback& back) {
  const Term y = back.result();
  const Term first = equal(back.input(0), y).cast(y.dtype()),
             second = equal(back.input(1), y).cast(y.dtype());
  const Term share = back.adjoint() / maximum(first + second, 1);
  if (back.wants(0)) back.give(0, share * first);
  if (back.wants(1)) back.give(1, share * second);
}

/// a^b by a: b a^(b-1), 0 where b is 0; by b: a^b log(a), 0 where a is 0.
void back_through_power(Pullback& back) {
  const Term a = back.input(0), b = back.input(1).cast(a.dtype()), adjoint = back.adjoint();
  if (back.wants(0)) {
    const Term slope = b * a.apply(op::power, b - 1);
    back.give(0, adjoint * where(equal(b, b.number_like(0)), 0, slope));
  }
  if (back.wants(1)) {
    const Term is_zero = equal(a, a.number_like(0));
    back.give(1, adjoint * where(is_zero, 0, back.result() * log(where(is_zero, 1, a))));
  }
}

/// a - k b with the integer k that the quotient was rounded to.
void back_through_mod(Pullback& back) {
  back.give(0, back.adjoint());
  if (!back.wants(1)) return;
  const Term quotient = back.input(0) / back.input(1);
  const Term k = back.attrs<ModAttrs>().fmod ? quotient.apply(op::trunc) : floor(quotient);
  back.give(1, -(back.adjoint() * k));
}

void back_through_where(Pullback& back) {
  const Term condition = back.input(0);
  if (back.wants(1)) back.give(1, where(condition, back.adjoint(), 0));
  if (back.wants(2)) back.give(2, where(condition, 0, back.adjoint()));
}

void back_through_prelu(Pullback& back) {
  const Term x = back.input(0), slope = back.input(1);
  const Term negative = less(x, x.number_like(0));
  if (back.wants(0)) back.give(0, back.adjoint() * where(negative, slope, 1));
  if (back.wants(1)) back.give(1, back.adjoint() * where(negative, x, 0));
}

}  // namespace

void add_broadcast_gradients(GradientTable& table) {
  const GradientEntry entries[] = {
      {&op::add, back_through_add},           {&op::subtract, back_through_subtract},
      {&op::multiply, back_through_multiply}, {&op::divide, back_through_divide},
      {&op::maximum, back_through_extremum},  {&op::minimum, back_through_extremum},
      {&op::power, back_through_power},       {&op::mod, back_through_mod},
      {&op::where, back_through_where},       {&nn::prelu, back_through_prelu},
  };
  table.insert(table.end(), std::begin(entries), std::end(entries));
}

}  // namespace gantry
