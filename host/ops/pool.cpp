// Poolings over sliding windows.
#include "host/ops/pool.h"

#include "host/ops/families.h"
#include "host/ops/support.h"

namespace gantry {

void PoolAttrs::fields(AttrVisitor& visit) {
  visit("kernel", kernel);
  visit.filled("strides", strides, kernel.size(), 1);
  visit.filled("dilations", dilations, kernel.size(), 1);
  visit.filled("padding", padding, 2 * kernel.size(), 0);
  visit("ceil_mode", ceil_mode);
  visit("count_include_pad", count_include_pad);
  visit("p", p);
  visit_order(visit);
}

namespace {

using ops::input_type;
using ops::require;

std::vector<TensorType> infer_pool(const Node& node, Function& function) {
  const auto& a = node.attrs_as<PoolAttrs>();
  TensorType type = input_type(node, 0);
  size_t n = a.kernel.size();
  require(n >= 1 && a.strides.size() == n && a.dilations.size() == n && a.padding.size() == 2 * n,
          "kernel, strides, dilations and padding do not fit together");
  require(type.shape.size() == n + 2, "the data {} must have {} dimensions for a kernel of {}", type.str(),
          n + 2, n);
  for (size_t i = 0; i < n; ++i) {
    require(a.kernel[i] > 0 && a.strides[i] > 0 && a.dilations[i] > 0,
            "kernel, strides and dilations must be positive");
    Dim& extent = type.shape[static_cast<size_t>(first_spatial_axis(a.channels_last)) + i];
    Dim out = window_extent(extent, a.padding[i], a.padding[n + i], a.kernel[i], a.strides[i], a.dilations[i],
                            a.ceil_mode);
    ops::require_at_least(out, 1, function, node,
                          fmt::format("the window does not fit into the data {}", input_type(node, 0).str()));
    extent = out;
  }
  return {type};
}

std::vector<TensorType> infer_float_pool(const Node& node, Function& function) {
  ops::require_float(node, 0);
  return infer_pool(node, function);
}

/// Padding as the windows need it: rounding up may make the last ones reach further than asked for.
Shape effective_padding(const Node& node, const PoolAttrs& a) {
  Shape padding = a.padding;
  if (!a.ceil_mode) return padding;
  size_t n = a.kernel.size(), first = static_cast<size_t>(first_spatial_axis(a.channels_last));
  for (size_t i = 0; i < n; ++i) {
    const Dim &in = node.inputs[0]->type.shape[first + i], &out = node.result()->type.shape[first + i];
    Dim reach = (out - 1) * a.strides[i] + ((a.kernel[i] - 1) * a.dilations[i] + 1);
    padding[n + i] = max(padding[n + i], reach - in - padding[i]);
  }
  return padding;
}

/// The reduction over windows of the padded input; `f` is applied to each element.
Tensor pool_windows(const Node& node, const PoolAttrs& a, const Tensor& x, ReduceKind kind, const Expr& fill,
                    const std::function<Expr(Expr)>& f) {
  size_t first = static_cast<size_t>(first_spatial_axis(a.channels_last));
  Tensor padded = ops::pad_spatial(x, effective_padding(node, a), static_cast<int>(first), fill);
  auto k = ops::reduce_axes({a.kernel.begin(), a.kernel.end()}, "k");
  auto body = [&](const std::vector<Expr>& i) {
    std::vector<Expr> at = i;
    for (size_t s = 0; s < k.size(); ++s)
      at[first + s] = i[first + s] * a.strides[s] + k[s]->var * a.dilations[s];
    return reduce(kind, f(padded(at)), k);
  };
  return compute(ops::result_shape(node), body, "pool");
}

std::vector<Tensor> compute_max_pool(const Node& node, const std::vector<Tensor>& in) {
  const auto& a = node.attrs_as<PoolAttrs>();
  Expr lowest = identity_of(ReduceKind::kMax, in[0].dtype());
  return {pool_windows(node, a, in[0], ReduceKind::kMax, lowest, [](Expr x) { return x; })};
}

/// How many elements the average at `index` is over.
Expr window_count(const Node& node, const PoolAttrs& a, const std::vector<Expr>& index) {
  size_t n = a.kernel.size(), first = static_cast<size_t>(first_spatial_axis(a.channels_last));
  Expr count = 1;
  for (size_t i = 0; i < n; ++i) {
    Dim extent = node.inputs[0]->type.shape[first + i];
    bool padded = !(a.padding[i] == Dim(0) && a.padding[n + i] == Dim(0));
    if (!a.ceil_mode && (!padded || a.count_include_pad)) {
      count = count * a.kernel[i];
      continue;
    }
    // Taps t with low <= start + t * dilation < high.
    Expr start = index[first + i] * a.strides[i] - Expr(a.padding[i]);
    Expr high = Expr(a.count_include_pad ? extent + a.padding[n + i] : extent);
    Expr low = a.count_include_pad ? -Expr(a.padding[i]) : Expr(0);
    auto ceil_by = [&](Expr e) { return floordiv(e + Expr(a.dilations[i] - 1), a.dilations[i]); };
    count = count * (min(Expr(a.kernel[i]), ceil_by(high - start)) - max(Expr(0), ceil_by(low - start)));
  }
  return count;
}

std::vector<Tensor> compute_avg_pool(const Node& node, const std::vector<Tensor>& in) {
  const auto& a = node.attrs_as<PoolAttrs>();
  DType dtype = in[0].dtype(), wide = ops::widened(dtype);
  Tensor total = pool_windows(node, a, in[0], ReduceKind::kSum, const_of(dtype, 0), ops::widen);
  auto body = [&](const std::vector<Expr>& i) {
    Expr count = window_count(node, a, i);
    auto* fixed = count.as<IntImmNode>();
    Expr mean = fixed ? total(i) * const_of(wide, 1.0 / static_cast<double>(fixed->value))
                      : total(i) / cast(wide, max(count, Expr(1)));
    return wide == dtype ? mean : cast(dtype, mean);
  };
  return {compute(total.shape(), body, "pool_average")};
}

std::vector<Tensor> compute_lp_pool(const Node& node, const std::vector<Tensor>& in) {
  const auto& a = node.attrs_as<PoolAttrs>();
  DType dtype = in[0].dtype();
  double p = static_cast<double>(a.p);
  auto powered = [&](Expr x) {
    x = call(MathFn::kAbs, {ops::widen(x)});
    return a.p == 1 ? x : a.p == 2 ? x * x : call(MathFn::kPow, {x, const_of(x.type().dtype, p)});
  };
  Tensor total = pool_windows(node, a, in[0], ReduceKind::kSum, const_of(dtype, 0), powered);
  return {ops::map_elements(total, dtype, "pool_root", [&](Expr x) {
    return a.p == 1   ? x
           : a.p == 2 ? call(MathFn::kSqrt, {x})
                      : call(MathFn::kPow, {x, const_of(x.type().dtype, 1 / p)});
  })};
}

Dim pool_flops(const Node& node) {
  Dim count = element_count(node.result()->type.shape);
  for (int64_t k : node.attrs_as<PoolAttrs>().kernel) count = count * k;
  return count;
}

}  // namespace

void add_pool_ops(OpSet& set) {
  auto add = [&](const OpHandle& handle, auto infer, auto compute_fn) {
    OpDef op =
        ops::define(handle, FusionClass::kReduction, LayoutBehaviour::kChannelAware, {"data"});
    op.infer = infer;
    op.compute = compute_fn;
    op.flops = pool_flops;
    set.add(std::move(op));
  };
  add(nn::max_pool, infer_pool, compute_max_pool);
  add(nn::avg_pool, infer_float_pool, compute_avg_pool);
  add(nn::lp_pool, infer_float_pool, compute_lp_pool);
}

}  // namespace gantry
