// nn.conv_transpose: the gradient of a convolution with respect to its data, as a gather over its taps.
#include "host/ops/conv.h"
#include "host/ops/families.h"
#include "host/ops/support.h"

namespace gantry {

void ConvTransposeAttrs::fields(AttrVisitor& visit) {
  visit("kernel", kernel);
  visit.filled("strides", strides, kernel.size(), 1);
  visit.filled("dilations", dilations, kernel.size(), 1);
  visit.filled_signed_numbers("padding", padding, 2 * kernel.size(), 0);
  visit.filled("output_padding", output_padding, kernel.size(), 0);
  visit("groups", groups);
}

namespace {

using ops::input_type;
using ops::require;

std::vector<TensorType> infer_conv_transpose(const Node& node, Function& function) {
  const auto& a = node.attrs_as<ConvTransposeAttrs>();
  const TensorType &data = input_type(node, 0), &weight = input_type(node, 1);
  ops::require_same_dtype(node, 0, 1);
  size_t n = a.kernel.size();
  require(n >= 1 && a.strides.size() == n && a.dilations.size() == n && a.padding.size() == 2 * n &&
              a.output_padding.size() == n,
          "kernel, strides, dilations and padding do not fit together");
  require(data.shape.size() == n + 2 && weight.shape.size() == n + 2,
          "data {} and weight {} must have {} dimensions", data.str(), weight.str(), n + 2);
  require(a.groups > 0 && !provably_different(mod(data.shape[1], a.groups), 0),
          "{} input channels do not make {} groups", data.shape[1].str(), a.groups);
  const Dim channels =
      ops::unify(data.shape[1], weight.shape[0], function, node, "input channels of data and weight");
  ops::unify(mod(channels, a.groups), 0, function, node, "input channels beside whole groups");
  TensorType result = data;
  result.shape[1] = weight.shape[1] * a.groups;
  for (size_t i = 0; i < n; ++i) {
    require(a.kernel[i] > 0 && a.strides[i] > 0 && a.dilations[i] > 0,
            "kernel, strides and dilations must be positive");
    ops::unify(weight.shape[i + 2], a.kernel[i], function, node, "kernel and weight");
    Dim full = (data.shape[i + 2] - 1) * a.strides[i] + (Dim(a.kernel[i] - 1) * a.dilations[i] + 1) +
               a.output_padding[i];
    result.shape[i + 2] = full - a.padding[i] - a.padding[n + i];
    ops::require_at_least(result.shape[i + 2], 0, function, node,
                          fmt::format("the padding cuts away more than there is of {}", data.str()));
  }
  return {result};
}

std::vector<Tensor> compute_conv_transpose(const Node& node, const std::vector<Tensor>& in) {
  const auto& a = node.attrs_as<ConvTransposeAttrs>();
  const Tensor &x = in[0], &w = in[1];
  size_t n = a.kernel.size();
  Expr in_per_group = a.groups == 1 ? w.shape()[0] : Expr(floordiv(input_type(node, 1).shape[0], a.groups));
  Expr out_per_group = w.shape()[1];
  auto k = ops::reduce_axes({a.kernel.begin(), a.kernel.end()}, "k");
  auto ic = reduce_axis(0, in_per_group, "ic");
  auto body = [&](const std::vector<Expr>& i) {
    Expr group = a.groups == 1 ? Expr(0) : floordiv(i[1], out_per_group);
    Expr o = a.groups == 1 ? i[1] : mod(i[1], out_per_group);
    Expr c = group * in_per_group + ic->var;
    std::vector<Expr> at{i[0], c}, tap{c, o};
    Expr inside;
    for (size_t s = 0; s < n; ++s) {
      // Position in the input spread out by the stride; only multiples of it hold an element.
      Expr spread = i[s + 2] + Expr(a.padding[s]) - k[s]->var * a.dilations[s];
      Expr position = floordiv(spread, a.strides[s]);
      Expr here = ge(spread, 0) && lt(position, x.shape()[s + 2]);
      if (a.strides[s] > 1) here = here && eq(mod(spread, a.strides[s]), 0);
      inside = inside ? inside && here : here;
      at.push_back(position);
      tap.push_back(k[s]->var);
    }
    Expr product = ops::widen(x(at)) * ops::widen(w(tap));
    std::vector<IterVarPtr> axes = k;
    axes.push_back(ic);
    return sum(if_then_else(inside, product, const_of(product.type().dtype, 0)), axes);
  };
  Tensor y = compute(ops::result_shape(node), body, "conv_transpose");
  return {ops::narrow(y, x.dtype())};
}

}  // namespace

void add_conv_transpose_ops(OpSet& set) {
  OpDef op = ops::define(nn::conv_transpose, FusionClass::kOutElementwiseFusable,
                                             LayoutBehaviour::kNone, {"data", "weight"});
  op.infer = infer_conv_transpose;
  op.compute = compute_conv_transpose;
  op.flops = [](const Node& node) {
    const Shape& w = node.inputs[1]->type.shape;
    Dim taps = 2;
    for (size_t i = 1; i < w.size(); ++i) taps = taps * w[i];
    return element_count(node.inputs[0]->type.shape) * taps;
  };
  set.add(std::move(op));
}

}  // namespace gantry
