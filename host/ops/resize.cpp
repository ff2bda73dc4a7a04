// resize: nearest, linear and cubic interpolation, separable over axes.
//
// Stages of linear and cubic ones:
//   "resize_positions", "resize_weights"   of an axis, (tap, position of the result): coordinates take f64
//   "antialias_weights", "antialias_sum"   the same of an axis that shrinks with antialiasing, and the weights' sums
//   "antialias_lines"                      the data with that axis resized
//   "resize_lines"                         the data interpolated along the last resized axis alone, where its
//                                          lines are read for several of the result
//   "resize"                               the sum over the taps of the other axes
#include "host/ops/resize.h"

#include <cmath>
#include <optional>

#include "host/ops/families.h"
#include "host/ops/support.h"

namespace gantry {

void ResizeAttrs::fields(AttrVisitor& visit) {
  visit("sizes", sizes);
  visit("scales", scales);
  visit("roi", roi);
  visit.enumeration("mode", mode, {"nearest", "linear", "cubic"});
  visit.enumeration("coordinates", coordinates,
                    {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
                     "asymmetric", "tf_crop_and_resize"});
  visit.enumeration("rounding", rounding, {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"});
  visit("cubic_a", cubic_a);
  visit("exclude_outside", exclude_outside);
  visit("antialias", antialias);
  visit("extrapolation", extrapolation);
}

namespace {

using ops::input_type;
using ops::require;

constexpr DType kCoordinate = DType::kF64;  // f32 would misplace ties of large images
Expr imm(double value) {
  return float_imm(kCoordinate, value);
}
Expr floor_of(Expr x) {
  return call(MathFn::kFloor, {std::move(x)});
}
Expr ceil_of(Expr x) {
  return call(MathFn::kCeil, {std::move(x)});
}
Expr as_coordinate(const Dim& d) {
  return d.is_constant() ? imm(static_cast<double>(d.value())) : cast(kCoordinate, Expr(d));
}

/// One axis of the interpolation.
struct Axis {
  const ResizeAttrs& attrs;
  Dim in, out;
  double given_scale;
  double roi_start = 0, roi_end = 1;

  bool copied() const {
    bool cropped =
        attrs.coordinates == ResizeCoordinates::kTfCropAndResize && (roi_start != 0 || roi_end != 1);
    return in == out && (given_scale == 0 || given_scale == 1) && !cropped;
  }
  std::optional<double> known_scale() const {
    if (given_scale != 0) return given_scale;
    if (in.is_constant() && out.is_constant() && in.value() > 0)
      return static_cast<double>(out.value()) / static_cast<double>(in.value());
    return std::nullopt;
  }
  Expr scale() const {
    if (const auto known = known_scale()) return imm(*known);
    return as_coordinate(out) / as_coordinate(in);
  }
  bool antialiased() const {
    return attrs.antialias && attrs.mode != ResizeMode::kNearest && !copied() && known_scale().value_or(1) < 1;
  }
};

/// Where position i of the result lies in the input.
Expr source_coordinate(const Axis& axis, const Expr& i) {
  Expr x = cast(kCoordinate, i), in = as_coordinate(axis.in), out = as_coordinate(axis.out);
  Expr half_pixel = (x + imm(0.5)) / axis.scale() - imm(0.5);
  bool single = axis.out == Dim(1);
  // Denominators that select discards must not be 0.
  Expr steps = single ? imm(1) : max(out - imm(1), imm(1));
  switch (axis.attrs.coordinates) {
    case ResizeCoordinates::kHalfPixel:
      return half_pixel;
    case ResizeCoordinates::kPytorchHalfPixel:
      return select(gt(out, imm(1)), half_pixel, imm(0));
    case ResizeCoordinates::kHalfPixelSymmetric: {
      Expr adjustment = out / (axis.scale() * in);
      return in * imm(0.5) * (imm(1) - adjustment) + half_pixel;
    }
    case ResizeCoordinates::kAlignCorners:
      return single ? imm(0) : x * (in - imm(1)) / steps;
    case ResizeCoordinates::kAsymmetric:
      return x / axis.scale();
    case ResizeCoordinates::kTfCropAndResize:
      break;
  }
  Expr last = in - imm(1);
  if (single) return imm(0.5 * (axis.roi_start + axis.roi_end)) * last;
  return imm(axis.roi_start) * last + x * imm(axis.roi_end - axis.roi_start) * last / steps;
}

/// A weighted element of the input; a null weight is 1.
struct Tap {
  Expr position, weight;
};

Expr clamped(Expr position, const Dim& extent) {
  return max(Expr(0), min(std::move(position), Expr(extent) - 1));
}

/// Enlarging by an integer needs no coordinates; nullopt-like null Expr if that is not the case.
Expr integer_nearest(const Axis& axis, const Expr& i) {
  const ResizeAttrs& a = axis.attrs;
  Dim factor = axis.in.is_constant() && axis.in.value() == 0 ? Dim(0) : floordiv(axis.out, axis.in);
  if (!factor.is_constant() || factor.value() < 1 || !(axis.in * factor == axis.out)) return {};
  if (axis.given_scale != 0 && axis.given_scale != static_cast<double>(factor.value())) return {};
  bool rounds =
      a.rounding == ResizeRounding::kRoundPreferFloor || a.rounding == ResizeRounding::kRoundPreferCeil;
  bool half = a.coordinates == ResizeCoordinates::kHalfPixel && rounds;
  bool floor = a.coordinates == ResizeCoordinates::kAsymmetric && a.rounding == ResizeRounding::kFloor;
  return half || floor ? floordiv(i, factor.value()) : Expr();
}

std::vector<Tap> nearest_taps(const Axis& axis, const Expr& i) {
  if (Expr exact = integer_nearest(axis, i)) return {{exact, {}}};
  Expr x = source_coordinate(axis, i), rounded;
  switch (axis.attrs.rounding) {
    case ResizeRounding::kRoundPreferFloor:
      rounded = ceil_of(x - imm(0.5));
      break;
    case ResizeRounding::kRoundPreferCeil:
      rounded = floor_of(x + imm(0.5));
      break;
    case ResizeRounding::kFloor:
      rounded = floor_of(x);
      break;
    case ResizeRounding::kCeil:
      rounded = ceil_of(x);
      break;
  }
  return {{clamped(cast(DType::kI64, rounded), axis.in), {}}};
}

/// Keys' cubic convolution kernel at distance d of taps -1, 0, 1, 2 from a point `f` beyond tap 0.
std::vector<Expr> cubic_weights(double a, const Expr& f) {
  auto near = [&](const Expr& d) { return ((imm(a + 2) * d - imm(a + 3)) * d) * d + imm(1); };
  auto far = [&](const Expr& d) { return ((imm(a) * d - imm(5 * a)) * d + imm(8 * a)) * d - imm(4 * a); };
  return {far(f + imm(1)), near(f), near(imm(1) - f), far(imm(2) - f)};
}

std::vector<Tap> weighted_taps(const Axis& axis, const Expr& i) {
  Expr x = source_coordinate(axis, i);
  Expr base = floor_of(x), fraction = x - base, first = cast(DType::kI64, base);
  std::vector<Expr> weights;
  int64_t offset = 0;
  if (axis.attrs.mode == ResizeMode::kLinear) {
    weights = {imm(1) - fraction, fraction};
  } else {
    weights = cubic_weights(axis.attrs.cubic_a, fraction);
    offset = -1;
  }
  std::vector<Tap> taps;
  Expr total;
  for (size_t t = 0; t < weights.size(); ++t) {
    Expr position = first + (offset + static_cast<int64_t>(t));
    if (axis.attrs.exclude_outside) {
      Expr inside = ge(position, 0) && lt(position, Expr(axis.in));
      weights[t] = select(inside, weights[t], imm(0));
      total = total ? total + weights[t] : weights[t];
    }
    taps.push_back({clamped(position, axis.in), weights[t]});
  }
  if (total) {
    for (Tap& tap : taps) tap.weight = tap.weight / total;
  }
  return taps;
}

/// Sums over the product of the axes' taps from `axis` on.
Expr interpolate(const Tensor& x, const std::vector<std::vector<Tap>>& taps, size_t axis,
                 std::vector<Expr>& at, DType compute_dtype) {
  if (axis == taps.size()) return ops::widen(x(at));
  Expr total;
  for (const Tap& tap : taps[axis]) {
    at[axis] = tap.position;
    Expr value = interpolate(x, taps, axis + 1, at, compute_dtype);
    if (tap.weight) value = cast(compute_dtype, value) * cast(compute_dtype, tap.weight);
    total = total ? total + value : value;
  }
  return total;
}

/// The one of `values` that `index` counts.
Expr chosen(const Expr& index, const std::vector<Expr>& values) {
  Expr value = values.back();
  for (size_t t = values.size() - 1; t-- > 0;)
    value = select(eq(index, static_cast<int64_t>(t)), values[t], value);
  return value;
}

/// As weighted_taps(axis, i), computed once for every position of the result; `i` reads them.
std::function<std::vector<Tap>(const Expr& i)> tabled_taps(const Axis& axis, DType weight_dtype) {
  const auto count = static_cast<int64_t>(axis.attrs.mode == ResizeMode::kLinear ? 2 : 4);
  auto table = [&](const char* name, const std::function<Expr(const Tap&)>& entry) {
    auto body = [&](const std::vector<Expr>& i) {
      std::vector<Expr> entries;
      for (const Tap& tap : weighted_taps(axis, i[1])) entries.push_back(entry(tap));
      return chosen(i[0], entries);
    };
    return compute({count, Expr(axis.out)}, body, name, Role::kResizeTable);
  };
  const Tensor positions = table("resize_positions", [](const Tap& tap) { return tap.position; });
  const Tensor weights =
      table("resize_weights", [&](const Tap& tap) { return cast(weight_dtype, tap.weight); });
  return [=](const Expr& i) {
    std::vector<Tap> taps;
    for (int64_t t = 0; t < count; ++t) taps.push_back({positions({t, i}), weights({t, i})});
    return taps;
  };
}

// --- antialiasing

/// The kernel of linear or cubic interpolation at distance d.
Expr kernel_at(const ResizeAttrs& attrs, Expr d) {
  d = call(MathFn::kAbs, {std::move(d)});
  if (attrs.mode == ResizeMode::kLinear) return max(imm(0), imm(1) - d);
  const double a = attrs.cubic_a;
  const Expr near = (imm(a + 2) * d - imm(a + 3)) * d * d + imm(1);
  const Expr far = ((imm(a) * d - imm(5 * a)) * d + imm(8 * a)) * d - imm(4 * a);
  return select(le(d, imm(1)), near, select(lt(d, imm(2)), far, imm(0)));
}

/// The data with axis d resized: every result is a mean over the elements that the kernel reaches, which is 1 / scale
/// times as wide; elements beyond the data are those at its end, or do not count.
Tensor antialiased_lines(const Tensor& x, const Axis& axis, size_t d, DType dtype) {
  const double scale = *axis.known_scale(), reach = axis.attrs.mode == ResizeMode::kLinear ? 1 : 2;
  const auto first = static_cast<int64_t>(std::floor(-reach / scale)) + 1, count = 2 - 2 * first;
  const auto position = [&](const Expr& tap, const Expr& i) {
    return cast(DType::kI64, floor_of(source_coordinate(axis, i))) + first + tap;
  };
  const auto weight = [&](const std::vector<Expr>& i) {
    const Expr at = position(i[0], i[1]);
    const Expr value = kernel_at(axis.attrs, (cast(kCoordinate, at) - source_coordinate(axis, i[1])) * imm(scale));
    if (!axis.attrs.exclude_outside) return value;
    return select(ge(at, 0) && lt(at, Expr(axis.in)), value, imm(0));
  };
  const Tensor weights = compute({count, Expr(axis.out)}, weight, "antialias_weights");
  const auto each = reduce_axis(0, count, "tap");
  const Tensor total = compute(
      {Expr(axis.out)}, [&](const std::vector<Expr>& i) { return sum(weights({each->var, i[0]}), {each}); },
      "antialias_sum");
  const auto tap = reduce_axis(0, count, "tap");
  std::vector<Expr> shape = x.shape();
  shape[d] = Expr(axis.out);
  const auto body = [&](const std::vector<Expr>& i) {
    std::vector<Expr> at = i;
    at[d] = clamped(position(tap->var, i[d]), axis.in);
    const Expr share = cast(dtype, weights({tap->var, i[d]}) / total({i[d]}));
    return sum(cast(dtype, ops::widen(x(at))) * share, {tap});
  };
  return compute(shape, body, "antialias_lines");
}

/// Each line of the data is read for one or more lines of the result.
bool enlarges(const Axis& axis) {
  const auto least = (axis.out - axis.in).lower_bound();
  return least && *least >= 0;
}

/// The axis along which lines are interpolated first; nothing if that saves no work, or only what costs
/// little: elements of the last axis are collected one by one, of others they lie side by side.
std::optional<size_t> line_axis(const ResizeAttrs& attrs, const std::vector<Axis>& axes) {
  std::vector<size_t> resized;
  for (size_t d = 0; d < axes.size(); ++d) {
    if (!axes[d].copied()) resized.push_back(d);
  }
  if (attrs.mode == ResizeMode::kNearest || resized.size() < 2) return std::nullopt;
  const size_t last = resized.back();
  for (size_t d : resized)
    if (d != last && !enlarges(axes[d])) return std::nullopt;
  const bool pays = last + 1 == axes.size() || attrs.mode == ResizeMode::kCubic;
  return pays ? std::optional(last) : std::nullopt;
}

std::vector<Axis> axes_of(const Node& node) {
  const auto& attrs = node.attrs_as<ResizeAttrs>();
  const Shape& in = input_type(node, 0).shape;
  std::vector<Axis> axes;
  for (size_t d = 0; d < in.size(); ++d) {
    Axis axis{attrs, in[d], attrs.sizes[d], attrs.scales.empty() ? 0 : attrs.scales[d]};
    if (!attrs.roi.empty()) {
      axis.roi_start = attrs.roi[d];
      axis.roi_end = attrs.roi[in.size() + d];
    }
    axes.push_back(axis);
  }
  return axes;
}

using TapsAt = std::function<std::vector<Tap>(const Expr& i)>;

std::vector<Tap> whole(const Expr& i) {
  return {{i, {}}};
}

TapsAt taps_of(const Axis& axis, DType weight_dtype) {
  if (axis.copied()) return whole;
  if (axis.attrs.mode == ResizeMode::kNearest) return [=](const Expr& i) { return nearest_taps(axis, i); };
  return tabled_taps(axis, weight_dtype);
}

/// What `taps` of each axis make of the data at a position of the result.
Expr interpolated(const Tensor& data, const std::vector<TapsAt>& taps, const std::vector<Expr>& i,
                  DType dtype) {
  std::vector<std::vector<Tap>> here;
  for (size_t d = 0; d < taps.size(); ++d) here.push_back(taps[d](i[d]));
  std::vector<Expr> at(taps.size());
  return interpolate(data, here, 0, at, dtype);
}

/// The data where their lines are as long as the result's; `taps` of that axis are then one.
Tensor resized_lines(const Tensor& x, const Axis& axis, size_t d, std::vector<TapsAt>& taps, DType dtype) {
  std::vector<TapsAt> own(taps.size(), whole);
  std::swap(own[d], taps[d]);
  std::vector<Expr> shape = x.shape();
  shape[d] = Expr(axis.out);
  auto body = [&](const std::vector<Expr>& i) { return interpolated(x, own, i, dtype); };
  return compute(shape, body, "resize_lines", Role::kResizedLines);
}

/// tf_crop_and_resize: the position lies in the data; null for the other coordinates.
Expr inside_data(const ResizeAttrs& attrs, const std::vector<Axis>& axes, const std::vector<Expr>& i) {
  Expr inside;
  if (attrs.coordinates != ResizeCoordinates::kTfCropAndResize) return inside;
  for (size_t d = 0; d < axes.size(); ++d) {
    if (axes[d].copied()) continue;
    const Expr at = source_coordinate(axes[d], i[d]);
    const Expr here = ge(at, imm(0)) && le(at, as_coordinate(axes[d].in - 1));
    inside = inside ? inside && here : here;
  }
  return inside;
}

std::vector<Tensor> compute_resize(const Node& node, const std::vector<Tensor>& in) {
  const auto& attrs = node.attrs_as<ResizeAttrs>();
  const std::vector<Axis> axes = axes_of(node);
  const DType wide = ops::widened(in[0].dtype());
  const DType compute_dtype = is_float(wide) ? wide : DType::kF64;
  std::vector<TapsAt> taps;
  for (const Axis& axis : axes) taps.push_back(taps_of(axis, compute_dtype));
  Tensor x = in[0];
  bool antialiased = false;
  for (size_t d = 0; d < axes.size(); ++d) {
    if (!axes[d].antialiased()) continue;
    x = antialiased_lines(x, axes[d], d, compute_dtype);
    taps[d] = whole;
    antialiased = true;
  }
  if (const auto d = antialiased ? std::nullopt : line_axis(attrs, axes)) x = resized_lines(x, axes[*d], *d, taps, compute_dtype);
  auto body = [&](const std::vector<Expr>& i) {
    const DType dtype = in[0].dtype();
    const Expr value = cast(dtype, interpolated(x, taps, i, compute_dtype));
    const Expr inside = inside_data(attrs, axes, i);
    return inside ? select(inside, value, const_of(dtype, attrs.extrapolation)) : value;
  };
  return {compute(to_exprs(node.result()->type.shape), body, "resize")};
}

std::vector<TensorType> infer_resize(const Node& node, Function&) {
  const auto& a = node.attrs_as<ResizeAttrs>();
  const TensorType& x = input_type(node, 0);
  size_t rank = x.shape.size();
  require(a.sizes.size() == rank && (a.scales.empty() || a.scales.size() == rank) &&
              (a.roi.empty() || a.roi.size() == 2 * rank),
          "sizes, scales and roi need an entry for each axis of {}", x.str());
  ops::require_dtype(x.dtype != DType::kBool, x.dtype);
  for (size_t d = 0; d < rank; ++d) {
    require(!a.sizes[d].is_constant() || a.sizes[d].value() >= 0, "a size is negative");
    require(a.scales.empty() || a.scales[d] >= 0, "a scale is negative");
    const bool scale_known = (!a.scales.empty() && a.scales[d] != 0) || a.sizes[d] == x.shape[d] ||
                             (x.shape[d].is_constant() && a.sizes[d].is_constant());
    ops::require_known(!a.antialias || a.mode == ResizeMode::kNearest || scale_known, "scale of each axis");
    require(!x.shape[d].is_constant() || x.shape[d].value() > 0 || a.sizes[d] == x.shape[d],
            "cannot resize an axis of extent 0");
  }
  return {{x.dtype, a.sizes}};
}

template <typename T>
std::vector<T> permuted(const std::vector<T>& v, const std::vector<int>& to, size_t offset = 0) {
  std::vector<T> out = v;
  for (size_t i = 0; i < to.size() && !v.empty(); ++i)
    out[offset + static_cast<size_t>(to[i])] = v[offset + i];
  return out;
}

}  // namespace

void add_resize_ops(OpSet& set) {
  OpDef op = ops::define(op::resize, FusionClass::kOpaque, LayoutBehaviour::kAxisRemap, {"data"});
  op.infer = infer_resize;
  op.compute = compute_resize;
  op.remap_axes = ops::remapper<ResizeAttrs>([](ResizeAttrs& a, const std::vector<int>& to) {
    a.sizes = permuted(a.sizes, to);
    a.scales = permuted(a.scales, to);
    a.roi = permuted(permuted(a.roi, to), to, to.size());
    return true;
  });
  set.add(std::move(op));
}

}  // namespace gantry
