// nn.col2im as a sum over the elements of a window: of those that have one at a place of the image.
#include "host/ops/col2im.h"

#include "host/ops/families.h"
#include "host/ops/support.h"

namespace gantry {
namespace {

using ops::input_type;
using ops::require;

/// How many windows there are along each axis.
Shape window_counts(const Col2ImAttrs& a) {
  Shape counts;
  const size_t n = a.kernel.size();
  for (size_t i = 0; i < n; ++i) {
    const Dim reach =
        (a.kernel[i] - 1) * a.dilations[i] + 1;  // of a window, which only the running model may know
    counts.push_back(floordiv(a.image[i] + a.padding[i] + a.padding[n + i] - reach, a.strides[i]) + 1);
  }
  return counts;
}

std::vector<TensorType> infer_col2im(const Node& node, Function& function) {
  const auto& a = node.attrs_as<Col2ImAttrs>();
  const TensorType& x = input_type(node, 0);
  const size_t n = a.kernel.size();
  require(n >= 1 && a.image.size() == n && a.strides.size() == n && a.dilations.size() == n &&
              a.padding.size() == 2 * n,
          "image, kernel, strides, dilations and padding do not fit together");
  for (size_t i = 0; i < n; ++i)
    require((!a.kernel[i].is_constant() || a.kernel[i].value() > 0) && a.strides[i] > 0 && a.dilations[i] > 0,
            "kernel, strides and dilations must be positive");
  ops::require_dtype(x.dtype != DType::kBool && x.dtype != DType::kString, x.dtype);
  const Dim size = element_count(a.kernel);
  require(x.rank() == 3 && !provably_different(mod(x.shape[1], size), 0),
          "the columns {} are not of windows of {} elements", x.str(), size.str());
  ops::unify(x.shape[2], element_count(window_counts(a)), function, node, "columns and windows of the image");
  Shape shape{x.shape[0], floordiv(x.shape[1], size)};
  shape.insert(shape.end(), a.image.begin(), a.image.end());
  return {{x.dtype, shape}};
}

std::vector<Tensor> compute_col2im(const Node& node, const std::vector<Tensor>& in) {
  const auto& a = node.attrs_as<Col2ImAttrs>();
  const Shape counts = window_counts(a);
  const auto k = ops::reduce_axes(to_exprs(a.kernel), "k");
  const DType wide = ops::widened(in[0].dtype());
  const auto body = [&](const std::vector<Expr>& i) {
    Expr element = 0, window = 0, inside;
    for (size_t d = 0; d < k.size(); ++d) {
      // The window that has its element k here, if one begins so far before.
      const Expr begin = i[2 + d] + Expr(a.padding[d]) - k[d]->var * a.dilations[d];
      const Expr index = floordiv(begin, a.strides[d]);
      const Expr here = ge(begin, 0) && lt(index, Expr(counts[d])) && eq(mod(begin, a.strides[d]), 0);
      inside = inside ? inside && here : here;
      element = element * Expr(a.kernel[d]) + k[d]->var;
      window = window * Expr(counts[d]) + index;
    }
    const Expr value = ops::widen(in[0]({i[0], i[1] * Expr(element_count(a.kernel)) + element, window}));
    return sum(if_then_else(inside, value, const_of(wide, 0)), k);
  };
  const Tensor total = compute(ops::result_shape(node), body, "col2im", Role::kReduction);
  return {ops::narrow(total, in[0].dtype())};
}

}  // namespace

void add_col2im_ops(OpSet& set) {
  OpDef op = ops::define(nn::col2im, FusionClass::kOpaque, LayoutBehaviour::kNone, {"columns"});
  op.infer = infer_col2im;
  op.compute = compute_col2im;
  set.add(std::move(op));
}

}  // namespace gantry
