// Derivatives of reductions, sums along an axis, and softmax.
#include <algorithm>

#include "host/onnx/gradient.h"
#include "host/ops/elementwise.h"
#include "host/ops/norm.h"
#include "host/ops/reduce.h"

namespace gantry {
namespace {

/// A value of the reduction's result type beside each element that it was reduced from, ready to be
/// broadcast.
Term beside_elements(const Pullback& back, const Term& of_result) {
  const auto& attrs = back.attrs<ReduceAttrs>();
  if (attrs.keepdims) return of_result;
  Shape kept = back.input(0).shape();
  for (const int64_t axis : attrs.axes) kept[static_cast<size_t>(axis)] = 1;
  return of_result.reshaped(std::move(kept));
}
/// The sum over the reduction's axes, which stay.
Term reduced_alike(const Pullback& back, const Term& x) {
  const std::vector<int64_t>& axes = back.attrs<ReduceAttrs>().axes;
  return axes.empty() ? x : sum(x, axes, KeepAxes::kYes);
}

void back_through_sum(Pullback& back) {
  back.give(0, beside_elements(back, back.adjoint()));
}

void back_through_mean(Pullback& back) {
  const Term x = back.input(0), adjoint = back.adjoint();
  Dim count = 1;
  for (const int64_t axis : back.attrs<ReduceAttrs>().axes) count = count * x.dim(axis);
  const Term share = count.is_constant()
                         ? adjoint / static_cast<double>(count.value())
                         : adjoint / Term::dimensions(back.import(), {count}).reshaped({}).cast(x.dtype());
  back.give(0, beside_elements(back, share));
}

/// Elements that are all the extremum have equal shares.
void back_through_extremum(Pullback& back) {
  const Term x = back.input(0);
  const Term chosen = equal(x, beside_elements(back, back.result())).cast(x.dtype());
  back.give(0, chosen * beside_elements(back, back.adjoint()) / reduced_alike(back, chosen));
}

/// The product of the others: of all that are not 0, unless another one is.
void back_through_prod(Pullback& back) {
  const Term x = back.input(0);
  const Term is_zero = equal(x, x.number_like(0));
  const Term finite = where(is_zero, 1, x);
  const Term zeros = reduced_alike(back, is_zero.cast(x.dtype()));
  const std::vector<int64_t>& axes = back.attrs<ReduceAttrs>().axes;
  auto attrs = std::make_shared<ReduceAttrs>();
  attrs->axes = axes;
  const Term all(back.import(), back.import().add(op::prod, {finite}, attrs));
  const Term other_zeros = zeros - is_zero.cast(x.dtype());
  const Term others = where(equal(other_zeros, x.number_like(0)), all / finite, 0);
  back.give(0, others * beside_elements(back, back.adjoint()));
}

void back_through_cumsum(Pullback& back) {
  auto attrs = std::make_shared<CumsumAttrs>(back.attrs<CumsumAttrs>());
  attrs->reverse = !attrs->reverse;
  back.give(0, {back.import(), back.import().add(op::cumsum, {back.adjoint()}, attrs)});
}

void back_through_softmax(Pullback& back) {
  const int64_t axis = back.attrs<SoftmaxAttrs>().axis;
  const Term y = back.result(), weighed = back.adjoint() * y;
  back.give(0, weighed - y * sum(weighed, {axis}, KeepAxes::kYes));
}
void back_through_log_softmax(Pullback& back) {
  const int64_t axis = back.attrs<SoftmaxAttrs>().axis;
  const Term adjoint = back.adjoint();
  back.give(0, adjoint - exp(back.result()) * sum(adjoint, {axis}, KeepAxes::kYes));
}

/// Constant between its jumps.
void back_through_hardmax(Pullback&) {}

}  // namespace

void add_reduce_gradients(GradientTable& table) {
  const GradientEntry entries[] = {
      {&op::sum, back_through_sum},         {&op::mean, back_through_mean},
      {&op::max, back_through_extremum},    {&op::min, back_through_extremum},
      {&op::prod, back_through_prod},       {&op::cumsum, back_through_cumsum},
      {&nn::softmax, back_through_softmax}, {&nn::log_softmax, back_through_log_softmax},
      {&nn::hardmax, back_through_hardmax},
  };
  table.insert(table.end(), std::begin(entries), std::end(entries));
}

}  // namespace gantry
