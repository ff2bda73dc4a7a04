// Derivatives of normalisations: through what they are composed of.
#include "host/onnx/gradient.h"
#include "host/ops/elementwise.h"
#include "host/ops/movement.h"
#include "host/ops/norm.h"

namespace gantry {
namespace {

/// x with mean 0 and variance 1 over those axes.
Term standardised(const Term& x, const std::vector<int64_t>& axes, double epsilon) {
  const Term centred = x - mean(x, axes, KeepAxes::kYes);
  return centred / sqrt(mean(square(centred), axes, KeepAxes::kYes) + epsilon);
}

/// A vector along one axis of a tensor of that rank.
Term along(const Term& vector, int64_t axis, int rank) {
  Shape shape(static_cast<size_t>(rank), Dim(1));
  shape[static_cast<size_t>(axis)] = vector.dim(0);
  return vector.widened().reshaped(std::move(shape));
}

void back_through_batch_norm(Pullback& back) {
  const auto& attrs = back.attrs<BatchNormAttrs>();
  const Term x = back.input(0).widened();
  const auto operand = [&](size_t i) { return along(back.input(i), attrs.axis, x.rank()); };
  const Term scaled = (x - operand(3)) / sqrt(operand(4) + attrs.epsilon) * operand(1);
  back.give_through(scaled + operand(2));
}

void back_through_layer_norm(Pullback& back) {
  const auto& attrs = back.attrs<LayerNormAttrs>();
  const Term x = back.input(0).widened();
  Term y = standardised(x, axes_from(x, attrs.axis), attrs.epsilon) * back.input(1).widened();
  if (back.has_input(2)) y = y + back.input(2).widened();
  back.give_through(y);
}

/// Over groups of channels, and of one channel each where the op has none.
void back_through_groups(Pullback& back, const Dim& groups) {
  const auto& attrs = back.attrs<GroupNormAttrs>();
  const Term x = back.input(0).widened();
  const Term grouped = x.reshaped({x.dim(0), groups, floordiv(element_count(x.shape()), x.dim(0) * groups)});
  const Term y = standardised(grouped, {2}, attrs.epsilon).reshaped(x.shape());
  back.give_through(y * along(back.input(1), 1, x.rank()) + along(back.input(2), 1, x.rank()));
}
void back_through_instance_norm(Pullback& back) {
  const Dim& channels = back.input(0).dim(1);
  back_through_groups(back, channels);
}
void back_through_group_norm(Pullback& back) {
  back_through_groups(back, back.attrs<GroupNormAttrs>().groups);
}

/// x / (bias + alpha / size * squares of the channels in [c - floor((size - 1) / 2), c + ceil((size - 1) /
/// 2)])^beta.
void back_through_lrn(Pullback& back) {
  constexpr int64_t kMostTerms = 1024;  // each is a node
  const auto& attrs = back.attrs<LrnAttrs>();
  if (attrs.size > kMostTerms) back.refuse(fmt::format("over more than {} channels", kMostTerms));
  const Term x = back.input(0).widened();
  const Dim channels = x.dim(1);
  const int64_t before = (attrs.size - 1) / 2;
  auto pad = std::make_shared<PadAttrs>();
  pad->before.assign(x.shape().size(), 0);
  pad->after = pad->before;
  pad->before[1] = before;
  pad->after[1] = attrs.size - 1 - before;
  const Term squares(back.import(), back.import().add(op::pad, {square(x)}, pad));
  Term total = squares.sliced(1, 0, channels);
  for (int64_t k = 1; k < attrs.size; ++k) total = total + squares.sliced(1, k, channels + k);
  const Term base = total * (attrs.alpha / static_cast<double>(attrs.size)) + attrs.bias;
  back.give_through(x * base.apply(op::power, base.number_like(-attrs.beta)));
}

void back_through_lp_normalize(Pullback& back) {
  const auto& attrs = back.attrs<LpNormAttrs>();
  const Term x = back.input(0).widened();
  const Term total = sum(attrs.p == 1 ? abs(x) : square(x), {attrs.axis}, KeepAxes::kYes);
  const Term is_zero = equal(total, total.number_like(0));
  const Term finite = where(is_zero, 1, total);  // what is not chosen below has a derivative too
  back.give_through(where(is_zero, 0, x / (attrs.p == 1 ? finite : sqrt(finite))));
}

}  // namespace

void add_norm_gradients(GradientTable& table) {
  const GradientEntry entries[] = {
      {&nn::batch_norm, back_through_batch_norm},
      {&nn::layer_norm, back_through_layer_norm},
      {&nn::instance_norm, back_through_instance_norm},
      {&nn::group_norm, back_through_group_norm},
      {&nn::lrn, back_through_lrn},
      {&nn::lp_normalize, back_through_lp_normalize},
  };
  table.insert(table.end(), std::begin(entries), std::end(entries));
}

}  // namespace gantry
