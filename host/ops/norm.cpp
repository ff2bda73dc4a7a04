// Normalisations. Variances are of deviations from the mean (two passes), so that large means cost no
// accuracy.
#include "host/ops/norm.h"

#include "host/ops/families.h"
#include "host/ops/support.h"

namespace gantry {

void GroupNormAttrs::fields(AttrVisitor& visit) {
  visit("groups", groups);
  visit("epsilon", epsilon);
  visit("normalized", normalized);
  visit_order(visit);
}

void LrnAttrs::fields(AttrVisitor& visit) {
  visit("size", size);
  visit("alpha", alpha);
  visit("beta", beta);
  visit("bias", bias);
  visit_order(visit);
}

namespace {

using ops::input_type;
using ops::require;
using ops::widen;

Expr imm(DType dtype, double value) {
  return const_of(dtype, value);
}
Expr square(Expr x) {
  return x * x;
}

/// Sums `value` of every element of a slice; `element(slice index, reduction variables)` reads the widened
/// element.
struct Moments {
  Tensor sum, square_sum;  ///< of elements; of squared deviations
  Expr count;
};
using SliceElement = std::function<Expr(const std::vector<Expr>& slice, const std::vector<Expr>& inner)>;

Moments moments(const std::vector<Expr>& slices, const std::vector<Expr>& extents, DType wide,
                const SliceElement& element) {
  Moments m;
  m.count = ops::count_as(wide, extents);
  auto stage = [&](const char* name, const std::function<Expr(const std::vector<Expr>&, Expr)>& value) {
    auto axes = ops::reduce_axes(extents, "r");
    std::vector<Expr> inner;
    for (const auto& axis : axes) inner.push_back(axis->var);
    return compute(
        slices, [&](const std::vector<Expr>& i) { return sum(value(i, element(i, inner)), axes); }, name,
        Role::kReduction);
  };
  m.sum = stage("norm_mean", [](const std::vector<Expr>&, Expr x) { return x; });
  m.square_sum = stage("norm_variance",
                       [&](const std::vector<Expr>& i, Expr x) { return square(x - m.sum(i) / m.count); });
  return m;
}

Expr normalised(const Moments& m, const std::vector<Expr>& slice, Expr x, double epsilon) {
  DType wide = x.type().dtype;
  Expr variance = m.square_sum(slice) / m.count;
  return (x - m.sum(slice) / m.count) * (imm(wide, 1) / call(MathFn::kSqrt, {variance + imm(wide, epsilon)}));
}

// --- nn.layer_norm

std::vector<TensorType> infer_layer_norm(const Node& node, Function& function) {
  const TensorType& x = input_type(node, 0);
  ops::require_float(node, 0);
  ops::require_axis(node.attrs_as<LayerNormAttrs>().axis, x.rank());
  for (size_t i = 1; i < 3 && ops::has_input(node, i); ++i) {
    ops::require_same_dtype(node, 0, i);
    require(input_type(node, i).rank() <= x.rank() &&
                broadcast_shapes(x.shape, input_type(node, i).shape, function, ops::origin_of(node)).size() ==
                    x.shape.size(),
            "input {} does not broadcast to the data", input_type(node, i).str());
  }
  return {x};
}

std::vector<Tensor> compute_layer_norm(const Node& node, const std::vector<Tensor>& in) {
  const auto& attrs = node.attrs_as<LayerNormAttrs>();
  const Tensor& x = in[0];
  DType wide = ops::widened(x.dtype());
  auto split = x.shape().begin() + attrs.axis;
  std::vector<Expr> outer(x.shape().begin(), split), inner(split, x.shape().end());
  Moments m = moments(outer, inner, wide, [&](const std::vector<Expr>& slice, const std::vector<Expr>& r) {
    std::vector<Expr> at = slice;
    at.insert(at.end(), r.begin(), r.end());
    return widen(x(at));
  });
  auto body = [&](const std::vector<Expr>& i) {
    std::vector<Expr> slice(i.begin(), i.begin() + attrs.axis);
    Expr y = normalised(m, slice, widen(x(i)), attrs.epsilon) * widen(ops::broadcast_read(in[1], i));
    if (in.size() > 2 && in[2]) y = y + widen(ops::broadcast_read(in[2], i));
    return cast(x.dtype(), y);
  };
  return {compute(x.shape(), body, "norm")};
}

// --- nn.instance_norm, nn.group_norm

std::vector<TensorType> infer_group_norm(const Node& node, Function& function) {
  const auto& attrs = node.attrs_as<GroupNormAttrs>();
  const TensorType& x = input_type(node, 0);
  ops::require_float(node, 0);
  require(x.rank() >= 2, "the data {} has no channel axis", x.str());
  const Dim& all = x.shape[static_cast<size_t>(channel_axis(attrs.channels_last, x.rank()))];
  require(attrs.normalized >= 0 && !provably_different(min(all, attrs.normalized), attrs.normalized),
          "there are no {} channels to normalise in {}", attrs.normalized, x.str());
  const Dim channels = attrs.normalized > 0 ? Dim(attrs.normalized) : all;
  require(attrs.groups > 0 && !provably_different(mod(channels, attrs.groups), 0),
          "{} channels do not make {} groups", channels.str(), attrs.groups);
  Dim known = channels;
  for (size_t i = 1; i < 3; ++i) {
    ops::require_same_dtype(node, 0, i);
    require(input_type(node, i).rank() == 1, "scale and bias must be vectors");
    const Dim fitting =
        ops::unify(input_type(node, i).shape[0], channels, function, node, "scale or bias and channels");
    if (fitting.is_constant()) known = fitting;
  }
  ops::unify(mod(known, attrs.groups), 0, function, node, "channels beside whole groups");
  return {x};
}

/// Normalises each sample over groups of `group_size` adjacent channels and the spatial axes.
Tensor group_norm(const Tensor& x, const GroupNormAttrs& attrs, const Expr& groups, const Expr& group_size,
                  const std::vector<Tensor>& in) {
  size_t channel = static_cast<size_t>(channel_axis(attrs.channels_last, x.rank()));
  size_t first = static_cast<size_t>(first_spatial_axis(attrs.channels_last));
  size_t spatial = x.shape().size() - 2;
  std::vector<Expr> extents(x.shape().begin() + static_cast<std::ptrdiff_t>(first),
                            x.shape().begin() + static_cast<std::ptrdiff_t>(first + spatial));
  auto* one = group_size.as<IntImmNode>();
  bool single = one && one->value == 1;
  if (!single) extents.push_back(group_size);
  Moments m = moments({x.shape()[0], groups}, extents, ops::widened(x.dtype()),
                      [&](const std::vector<Expr>& slice, const std::vector<Expr>& r) {
                        std::vector<Expr> at(x.shape().size());
                        at[0] = slice[0];
                        at[channel] = single ? slice[1] : slice[1] * group_size + r.back();
                        for (size_t s = 0; s < spatial; ++s) at[first + s] = r[s];
                        return widen(x(at));
                      });
  auto body = [&](const std::vector<Expr>& i) {
    Expr group = single ? i[channel] : floordiv(i[channel], group_size);
    Expr y = normalised(m, {i[0], group}, widen(x(i)), attrs.epsilon);
    y = cast(x.dtype(), y * widen(in[1]({i[channel]})) + widen(in[2]({i[channel]})));
    return attrs.normalized > 0 ? if_then_else(lt(i[channel], groups), y, x(i)) : y;
  };
  return compute(x.shape(), body, "norm");
}

std::vector<Tensor> compute_instance_norm(const Node& node, const std::vector<Tensor>& in) {
  const auto& attrs = node.attrs_as<GroupNormAttrs>();
  const Expr channels =
      attrs.normalized > 0
          ? Expr(attrs.normalized)
          : in[0].shape()[static_cast<size_t>(channel_axis(attrs.channels_last, in[0].rank()))];
  return {group_norm(in[0], attrs, channels, 1, in)};
}

std::vector<Tensor> compute_group_norm(const Node& node, const std::vector<Tensor>& in) {
  const auto& attrs = node.attrs_as<GroupNormAttrs>();
  const TensorType& x = input_type(node, 0);
  Dim size =
      floordiv(x.shape[static_cast<size_t>(channel_axis(attrs.channels_last, x.rank()))], attrs.groups);
  return {group_norm(in[0], attrs, attrs.groups, Expr(size), in)};
}

// --- nn.batch_norm

std::vector<TensorType> infer_batch_norm(const Node& node, Function& function) {
  const TensorType& x = input_type(node, 0);
  ops::require_float(node, 0);
  int64_t axis = node.attrs_as<BatchNormAttrs>().axis;
  ops::require_axis(axis, x.rank());
  for (size_t i = 1; i < 5; ++i) {
    const DType dtype = input_type(node, i).dtype;
    require(dtype == x.dtype || dtype == ops::widened(x.dtype), "data of {} do not take statistics of {}",
            name_of(x.dtype), name_of(dtype));
    require(input_type(node, i).rank() == 1, "scale, bias, mean and variance must be vectors");
    ops::unify(input_type(node, i).shape[0], x.shape[static_cast<size_t>(axis)], function, node,
               "statistics and channels");
  }
  return {x};
}

std::vector<Tensor> compute_batch_norm(const Node& node, const std::vector<Tensor>& in) {
  const auto& attrs = node.attrs_as<BatchNormAttrs>();
  auto body = [&](const std::vector<Expr>& i) {
    std::vector<Expr> c{i[static_cast<size_t>(attrs.axis)]};
    Expr x = widen(in[0](i));
    DType wide = x.type().dtype;
    Expr deviation = call(MathFn::kSqrt, {widen(in[4](c)) + imm(wide, attrs.epsilon)});
    return cast(in[0].dtype(), (x - widen(in[3](c))) / deviation * widen(in[1](c)) + widen(in[2](c)));
  };
  return {compute(in[0].shape(), body, "batch_norm")};
}

// --- nn.lrn

std::vector<TensorType> infer_lrn(const Node& node, Function&) {
  ops::require_float(node, 0);
  require(input_type(node, 0).rank() >= 2, "the data {} has no channel axis", input_type(node, 0).str());
  require(node.attrs_as<LrnAttrs>().size > 0, "size must be positive");
  return {input_type(node, 0)};
}

std::vector<Tensor> compute_lrn(const Node& node, const std::vector<Tensor>& in) {
  const auto& attrs = node.attrs_as<LrnAttrs>();
  const Tensor& x = in[0];
  DType wide = ops::widened(x.dtype());
  size_t channel = static_cast<size_t>(channel_axis(attrs.channels_last, x.rank()));
  auto k = reduce_axis(0, attrs.size, "k");
  auto window = [&](const std::vector<Expr>& i) {
    std::vector<Expr> at = i;
    at[channel] = i[channel] + k->var - (attrs.size - 1) / 2;
    Expr inside = ge(at[channel], 0) && lt(at[channel], x.shape()[channel]);
    return sum(if_then_else(inside, square(widen(x(at))), imm(wide, 0)), {k});
  };
  Tensor squares = compute(x.shape(), window, "lrn_squares");
  auto body = [&](const std::vector<Expr>& i) {
    Expr base = imm(wide, attrs.bias) + imm(wide, attrs.alpha / static_cast<double>(attrs.size)) * squares(i);
    return cast(x.dtype(), widen(x(i)) * call(MathFn::kPow, {base, imm(wide, -attrs.beta)}));
  };
  return {compute(x.shape(), body, "lrn")};
}

// --- nn.lp_normalize

std::vector<Tensor> compute_lp_normalize(const Node& node, const std::vector<Tensor>& in) {
  const auto& attrs = node.attrs_as<LpNormAttrs>();
  const Tensor& x = in[0];
  size_t axis = static_cast<size_t>(attrs.axis);
  std::vector<Expr> shape = x.shape();
  auto k = reduce_axis(0, shape[axis], "k");
  shape[axis] = 1;
  auto norm = [&](const std::vector<Expr>& i) {
    std::vector<Expr> at = i;
    at[axis] = k->var;
    Expr v = widen(x(at));
    return sum(attrs.p == 1 ? call(MathFn::kAbs, {v}) : square(v), {k});
  };
  Tensor total = compute(shape, norm, "lp_norm", Role::kReduction);
  auto body = [&](const std::vector<Expr>& i) {
    Expr length = ops::broadcast_read(total, i);
    if (attrs.p != 1) length = call(MathFn::kSqrt, {length});
    Expr zero = imm(length.type().dtype, 0);
    return cast(x.dtype(), select(eq(length, zero), zero, widen(x(i)) / length));
  };
  return {compute(x.shape(), body, "norm")};
}

}  // namespace

void add_norm_ops(OpSet& set) {
  OpDef batch =
      ops::define(nn::batch_norm, FusionClass::kBroadcast, LayoutBehaviour::kAxisRemap,
                                  {"data", "scale", "bias", "mean", "variance"});
  batch.infer = infer_batch_norm;
  batch.compute = compute_batch_norm;
  batch.remap_axes = ops::axis_remapper<BatchNormAttrs>();
  set.add(std::move(batch));

  auto add_group = [&](const OpHandle& handle, auto compute_fn) {
    OpDef op = ops::define(handle, FusionClass::kOutElementwiseFusable,
                                           LayoutBehaviour::kChannelAware, {"data", "scale", "bias"});
    op.infer = infer_group_norm;
    op.compute = compute_fn;
    set.add(std::move(op));
  };
  add_group(nn::instance_norm, compute_instance_norm);
  add_group(nn::group_norm, compute_group_norm);

  OpDef layer = ops::define(nn::layer_norm, FusionClass::kOutElementwiseFusable,
                                            LayoutBehaviour::kNone, {"data", "scale", "bias"}, 1);
  layer.infer = infer_layer_norm;
  layer.compute = compute_layer_norm;
  set.add(std::move(layer));

  OpDef lrn = ops::define(nn::lrn, FusionClass::kOutElementwiseFusable,
                                    LayoutBehaviour::kChannelAware, {"data"});
  lrn.infer = infer_lrn;
  lrn.compute = compute_lrn;
  set.add(std::move(lrn));

  OpDef lp = ops::define(nn::lp_normalize, FusionClass::kOutElementwiseFusable,
                                      LayoutBehaviour::kAxisRemap, {"data"});
  lp.infer = [](const Node& node, Function&) {
    ops::require_float(node, 0);
    ops::require_axis(node.attrs_as<LpNormAttrs>().axis, input_type(node, 0).rank());
    return std::vector<TensorType>{input_type(node, 0)};
  };
  lp.compute = compute_lp_normalize;
  lp.remap_axes = ops::axis_remapper<LpNormAttrs>();
  set.add(std::move(lp));
}

}  // namespace gantry
