// nn.grid_sample. Stages: "grid_positions" (the coordinates as positions within the data), "grid_sample".
#include "host/ops/grid_sample.h"

#include "host/ops/families.h"
#include "host/ops/readable.h"
#include "host/ops/support.h"

namespace gantry {

void GridSampleAttrs::fields(AttrVisitor& visit) {
  visit.enumeration("mode", mode, {"nearest", "linear", "cubic"});
  visit.enumeration("padding", padding, {"zeros", "border", "reflection"});
  visit("align_corners", align_corners);
  visit("normalized", normalized);
}

namespace {

using ops::input_type;
using ops::require;

std::vector<TensorType> infer_grid_sample(const Node& node, Function& function) {
  const TensorType &x = input_type(node, 0), &grid = input_type(node, 1);
  ops::require_float(node, 1);
  ops::require_dtype(x.dtype != DType::kBool, x.dtype);
  require(x.rank() >= 3 && grid.rank() >= 2 && !provably_different(grid.shape.back(), x.rank() - 2),
          "the grid {} has no coordinates of the spatial axes of {}", grid.str(), x.str());
  ops::unify(grid.shape.back(), x.rank() - 2, function, node, "coordinates and spatial axes");
  ops::unify(x.shape[0], grid.shape[0], function, node, "batches of data and grid");
  const Shape positions(grid.shape.begin(), grid.shape.end() - 1);
  for (size_t d = 2; d < x.shape.size(); ++d)  // positions are brought into the data
    ops::require_readable(x.shape[d], positions, function, node,
                          fmt::format("axis {} of {} has nothing that a position could be of", d, x.str()));
  Shape shape{x.shape[0], x.shape[1]};
  shape.insert(shape.end(), grid.shape.begin() + 1, grid.shape.end() - 1);
  return {{x.dtype, shape}};
}

/// One spatial axis.
struct SampledAxis {
  const GridSampleAttrs& attrs;
  Expr extent;  ///< kI64
  DType dtype;  ///< of coordinates

  Expr number(double value) const { return float_imm(dtype, value); }
  Expr length() const {
    auto* imm = extent.as<IntImmNode>();
    return imm ? number(static_cast<double>(imm->value)) : cast(dtype, extent);
  }
  /// Between the outermost centres, or the outer edges.
  Expr reflected(const Expr& v) const {
    const Expr low = number(attrs.align_corners ? 0 : -0.5);
    const Expr span = attrs.align_corners ? length() - number(1) : length();
    const Expr safe = max(span, number(1));  // one element: every position is its
    const Expr distance = call(MathFn::kAbs, {v - low});
    const Expr turns = call(MathFn::kFloor, {distance / safe});
    const Expr rest = distance - turns * safe;
    const Expr half = turns * number(0.5);
    const Expr even = eq(half, call(MathFn::kFloor, {half}));
    const Expr folded = select(even, low + rest, low + span - rest);
    const Expr inside = ge(v, low) && le(v, low + span);
    return select(inside, v, select(gt(span, number(0)), folded, low));
  }
  Expr position(const Expr& given) const {
    Expr v = given;
    if (attrs.normalized && attrs.align_corners)
      v = (given + number(1)) * number(0.5) * (length() - number(1));
    if (attrs.normalized && !attrs.align_corners)
      v = ((given + number(1)) * length() - number(1)) * number(0.5);
    if (attrs.mode == SampleMode::kNearest) v = call(MathFn::kRound, {v});
    if (attrs.padding == SamplePadding::kBorder) {
      // Within the outer edges positions stay: a cubic kernel reaches further in from there.
      const Expr low = number(attrs.align_corners ? 0 : -0.5), last = length() - number(1);
      const Expr inside = ge(v, low) && le(v, last - low);
      v = select(inside, v, max(number(0), min(v, last)));
    }
    if (attrs.padding == SamplePadding::kReflection) v = reflected(v);
    return v;
  }
};

/// A weighted element; a null weight is 1, a null condition always holds.
struct SampleTap {
  Expr index, weight, inside;
};

SampleTap tap_at(const SampledAxis& axis, const Expr& position, const Expr& weight) {
  SampleTap tap;
  tap.weight = weight;
  Expr v = position;
  if (axis.attrs.padding == SamplePadding::kZeros)
    tap.inside = ge(v, axis.number(0)) && le(v, axis.length() - axis.number(1));
  if (axis.attrs.padding == SamplePadding::kReflection) v = call(MathFn::kRound, {axis.reflected(v)});
  tap.index = max(Expr(0), min(cast(DType::kI64, v), axis.extent - 1));
  return tap;
}

/// Keys' cubic convolution kernel, a = -0.75, of the elements -1, 0, 1, 2 from a point `f` beyond element 0.
std::vector<Expr> cubic_weights(const SampledAxis& axis, const Expr& f) {
  constexpr double a = -0.75;
  const auto n = [&](double value) { return axis.number(value); };
  const auto near = [&](const Expr& d) { return (n(a + 2) * d - n(a + 3)) * d * d + n(1); };
  const auto far = [&](const Expr& d) { return ((n(a) * d - n(5 * a)) * d + n(8 * a)) * d - n(4 * a); };
  return {far(f + n(1)), near(f), near(n(1) - f), far(n(2) - f)};
}

std::vector<SampleTap> taps_at(const SampledAxis& axis, const Expr& position) {
  if (axis.attrs.mode == SampleMode::kNearest) return {tap_at(axis, position, {})};
  const Expr base = call(MathFn::kFloor, {position}), f = position - base;
  const bool linear = axis.attrs.mode == SampleMode::kLinear;
  const std::vector<Expr> weights =
      linear ? std::vector<Expr>{axis.number(1) - f, f} : cubic_weights(axis, f);
  std::vector<SampleTap> taps;
  for (size_t t = 0; t < weights.size(); ++t) {
    const double offset = static_cast<double>(t) - (linear ? 0 : 1);
    taps.push_back(tap_at(axis, base + axis.number(offset), weights[t]));
  }
  return taps;
}

/// The sum over the taps of the axes from `axis` on; what is outside counts as 0 whatever the data hold.
Expr sampled(const Tensor& x, const std::vector<std::vector<SampleTap>>& taps, size_t axis,
             std::vector<Expr>& at, const Expr& inside, DType dtype) {
  if (axis == taps.size()) {
    const Expr value = cast(dtype, ops::widen(x(at)));
    return inside ? select(inside, value, const_of(dtype, 0)) : value;
  }
  Expr total;
  for (const SampleTap& tap : taps[axis]) {
    at[2 + axis] = tap.index;
    const Expr here = !tap.inside ? inside : inside ? inside && tap.inside : tap.inside;
    Expr value = sampled(x, taps, axis + 1, at, here, dtype);
    if (tap.weight) value = value * cast(dtype, tap.weight);
    total = total ? total + value : value;
  }
  return total;
}

std::vector<Tensor> compute_grid_sample(const Node& node, const std::vector<Tensor>& in) {
  const auto& attrs = node.attrs_as<GridSampleAttrs>();
  const Tensor &x = in[0], &grid = in[1];
  const size_t spatial = x.shape().size() - 2;
  const DType coordinate = ops::widened(grid.dtype());
  const DType wide = ops::widened(x.dtype()), dtype = is_float(wide) ? wide : DType::kF64;
  const auto axis = [&](size_t s) { return SampledAxis{attrs, x.shape()[2 + s], coordinate}; };
  // In the order of the data's axes, which is the reverse of the grid's.
  const auto position = [&](const std::vector<Expr>& i) {
    std::vector<Expr> from = i;
    from.back() = Expr(static_cast<int64_t>(spatial) - 1) - i.back();
    const Expr given = ops::widen(grid(from));
    Expr v = axis(spatial - 1).position(given);
    for (size_t s = spatial - 1; s-- > 0;)
      v = select(eq(i.back(), static_cast<int64_t>(s)), axis(s).position(given), v);
    return v;
  };
  const Tensor positions = compute(grid.shape(), position, "grid_positions");
  const auto body = [&](const std::vector<Expr>& i) {
    std::vector<std::vector<SampleTap>> taps;
    for (size_t s = 0; s < spatial; ++s) {
      std::vector<Expr> place{i[0]};
      place.insert(place.end(), i.begin() + 2, i.end());
      place.push_back(static_cast<int64_t>(s));
      taps.push_back(taps_at(axis(s), positions(place)));
    }
    std::vector<Expr> at{i[0], i[1]};
    at.resize(2 + spatial);
    return cast(x.dtype(), sampled(x, taps, 0, at, {}, dtype));
  };
  return {compute(ops::result_shape(node), body, "grid_sample")};
}

}  // namespace

void add_grid_sample_ops(OpSet& set) {
  OpDef op = ops::define(nn::grid_sample, FusionClass::kOpaque, LayoutBehaviour::kNone, {"data", "grid"});
  op.infer = infer_grid_sample;
  op.compute = compute_grid_sample;
  op.reads_part = true;
  set.add(std::move(op));
}

}  // namespace gantry
