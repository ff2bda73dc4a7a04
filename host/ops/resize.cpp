// resize: nearest, linear and cubic interpolation, separable over axes.
//
// Stages of linear and cubic ones:
//   "resize_positions", "resize_weights"   of an axis, (tap, position of the result): coordinates take f64
//   "antialias_weights", "antialias_sum"   the same of an axis that shrinks with antialiasing, and the
//   weights' sums "antialias_lines"                      the data with that axis resized "resize_axis" the
//   data with one of more than two cubic axes resized "resize_lines"                         the data
//   interpolated along the last resized axis alone, where its
//                                          lines are read for several of the result
//   "resize"                               the sum over the taps of the other axes
#include "host/ops/resize.h"

#include <cmath>
#include <optional>

#include "host/ops/families.h"
#include "host/ops/readable.h"
#include "host/ops/resize_axis.h"
#include "host/ops/support.h"

namespace gantry {

void ResizeAttrs::fields(AttrVisitor& visit) {
  visit("sizes", sizes);
  visit("scales", scales);
  visit("roi", roi);
  visit.enumeration("mode", mode, {"nearest", "linear", "cubic"});
  visit.enumeration("coordinates", coordinates,
                    {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
                     "asymmetric", "tf_crop_and_resize", "tf_half_pixel_for_nn"});
  visit.enumeration("rounding", rounding,
                    {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "simple"});
  visit("cubic_a", cubic_a);
  visit("exclude_outside", exclude_outside);
  visit("antialias", antialias);
  visit("extrapolation", extrapolation);
  visit("reaches", reaches);
}

namespace {

using ops::input_type;
using ops::require;

using namespace resizing;  // NOLINT: its other half

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
  if (attrs.mode == ResizeMode::kLinear) return max(coordinate(0), coordinate(1) - d);
  const double a = attrs.cubic_a;
  const Expr near = (coordinate(a + 2) * d - coordinate(a + 3)) * d * d + coordinate(1);
  const Expr far = ((coordinate(a) * d - coordinate(5 * a)) * d + coordinate(8 * a)) * d - coordinate(4 * a);
  return select(le(d, coordinate(1)), near, select(lt(d, coordinate(2)), far, coordinate(0)));
}

/// How widened kernels lie on the data: taps from `first` on, beside the element at or before a position.
struct WideTaps {
  Expr scale, first, count;
};
WideTaps wide_taps(const Axis& axis, const Dim& reach) {
  const auto scale = axis.known_scale();
  // A scale that is data may turn out to enlarge.
  if (!scale) return {min(axis.scale(), coordinate(1)), Expr(1 - reach), Expr(2 * reach)};
  const double width = axis.attrs.mode == ResizeMode::kLinear ? 1 : 2;
  const auto first = static_cast<int64_t>(std::floor(-width / *scale)) + 1;
  return {coordinate(*scale), first, 2 - 2 * first};
}

/// The data with axis d resized: every result is a mean over the elements that the kernel reaches, which is 1 / scale
/// times as wide; elements beyond the data are those at its end, or do not count.
Tensor antialiased_lines(const Tensor& x, const Axis& axis, size_t d, DType dtype) {
  const WideTaps taps = wide_taps(axis, axis.attrs.reaches.empty() ? Dim(0) : axis.attrs.reaches[d]);
  const auto position = [&](const Expr& tap, const Expr& i) {
    return cast(DType::kI64, floor_of(source_coordinate(axis, i))) + taps.first + tap;
  };
  const auto weight = [&](const std::vector<Expr>& i) {
    const Expr at = position(i[0], i[1]);
    const Expr value =
        kernel_at(axis.attrs, (cast(kCoordinate, at) - source_coordinate(axis, i[1])) * taps.scale);
    if (!axis.attrs.exclude_outside) return value;
    return select(ge(at, 0) && lt(at, Expr(axis.in)), value, coordinate(0));
  };
  const Tensor weights = compute({taps.count, Expr(axis.out)}, weight, "antialias_weights");
  const auto each = reduce_axis(0, taps.count, "tap");
  const Tensor total = compute(
      {Expr(axis.out)}, [&](const std::vector<Expr>& i) { return sum(weights({each->var, i[0]}), {each}); },
      "antialias_sum");
  const auto tap = reduce_axis(0, taps.count, "tap");
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

/// The axis of those not copied along which lines are interpolated first; nothing if that saves no work, or
/// only what costs little: elements of the last axis are collected one by one, of others they lie side by
/// side.
std::optional<size_t> line_axis(const ResizeAttrs& attrs, const std::vector<Axis>& axes,
                                const std::vector<size_t>& resized) {
  if (attrs.mode == ResizeMode::kNearest || resized.size() < 2) return std::nullopt;
  const size_t last = resized.back();
  for (size_t d : resized)
    if (d != last && !enlarges(axes[d])) return std::nullopt;
  const bool pays = last + 1 == axes.size() || attrs.mode == ResizeMode::kCubic;
  return pays ? std::optional(last) : std::nullopt;
}

std::vector<Axis> axes_of(const Node& node, const std::vector<Tensor>& inputs) {
  const auto& attrs = node.attrs_as<ResizeAttrs>();
  const Shape& in = input_type(node, 0).shape;
  const auto rank = static_cast<int64_t>(in.size());
  const auto data = [&](size_t input, int64_t element) {
    return inputs.size() > input && inputs[input] ? inputs[input]({Expr(element)}) : Expr();
  };
  std::vector<Axis> axes;
  for (int64_t i = 0; i < rank; ++i) {
    const auto d = static_cast<size_t>(i);
    Axis axis{attrs, in[d], attrs.sizes[d], attrs.scales.empty() ? 0 : attrs.scales[d]};
    if (!attrs.roi.empty()) {
      axis.roi_start = attrs.roi[d];
      axis.roi_end = attrs.roi[in.size() + d];
    }
    axis.scale_data = data(1, i);
    axis.start_data = data(2, i);
    axis.end_data = data(2, rank + i);
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
Tensor resized_lines(const Tensor& x, const Axis& axis, size_t d, std::vector<TapsAt>& taps, DType dtype,
                     const char* name) {
  std::vector<TapsAt> own(taps.size(), whole);
  std::swap(own[d], taps[d]);
  std::vector<Expr> shape = x.shape();
  shape[d] = Expr(axis.out);
  auto body = [&](const std::vector<Expr>& i) { return interpolated(x, own, i, dtype); };
  return compute(shape, body, name, Role::kResizedLines);
}

/// tf_crop_and_resize: the position lies in the data; null for the other coordinates.
Expr inside_data(const ResizeAttrs& attrs, const std::vector<Axis>& axes, const std::vector<Expr>& i) {
  Expr inside;
  if (attrs.coordinates != ResizeCoordinates::kTfCropAndResize) return inside;
  for (size_t d = 0; d < axes.size(); ++d) {
    if (axes[d].copied()) continue;
    const Expr at = source_coordinate(axes[d], i[d]);
    const Expr here = ge(at, coordinate(0)) && le(at, coordinate(axes[d].in - 1));
    inside = inside ? inside && here : here;
  }
  return inside;
}

std::vector<Tensor> compute_resize(const Node& node, const std::vector<Tensor>& in) {
  const auto& attrs = node.attrs_as<ResizeAttrs>();
  const std::vector<Axis> axes = axes_of(node, in);
  const DType wide = ops::widened(in[0].dtype());
  const DType compute_dtype = is_float(wide) ? wide : DType::kF64;
  std::vector<TapsAt> taps;
  for (const Axis& axis : axes) taps.push_back(taps_of(axis, compute_dtype));
  Tensor x = in[0];
  std::vector<size_t> resized;  // by the result's stage
  bool antialiased = false;
  for (size_t d = 0; d < axes.size(); ++d) {
    if (axes[d].antialiased()) {
      x = antialiased_lines(x, axes[d], d, compute_dtype);
      taps[d] = whole;
      antialiased = true;
    } else if (!axes[d].copied()) {
      resized.push_back(d);
    }
  }
  // The terms of all axes at once would be the product of their taps.
  while (attrs.mode == ResizeMode::kCubic && resized.size() > 2) {
    const size_t d = resized.front();
    x = resized_lines(x, axes[d], d, taps, compute_dtype, "resize_axis");
    resized.erase(resized.begin());
  }
  if (const auto d = antialiased ? std::nullopt : line_axis(attrs, axes, resized))
    x = resized_lines(x, axes[*d], *d, taps, compute_dtype, "resize_lines");
  auto body = [&](const std::vector<Expr>& i) {
    const DType dtype = in[0].dtype();
    const Expr sum = interpolated(x, taps, i, compute_dtype);
    // Integers are rounded, as ONNX's reference has it; those that are only copied are integers still.
    const bool rounds = !is_float(dtype) && is_float(sum.type().dtype);
    const Expr value = cast(dtype, rounds ? call(MathFn::kRound, {sum}) : sum);
    const Expr inside = inside_data(attrs, axes, i);
    return inside ? select(inside, value, const_of(dtype, attrs.extrapolation)) : value;
  };
  return {compute(ops::result_shape(node), body, "resize")};
}

/// What is copied reads nothing that there is not, and sizes that follow from a scale are 0 where the data's
/// is.
void require_data(const Node& node, size_t d, Function& function) {
  const auto& a = node.attrs_as<ResizeAttrs>();
  const Dim &extent = input_type(node, 0).shape[d], &size = a.sizes[d];
  const bool scaled = (!a.scales.empty() && a.scales[d] != 0) || ops::has_input(node, 1);
  if (size == extent || (scaled && !size.is_constant())) return;
  ops::require_readable(extent, {size}, function, node, "cannot resize an axis of extent 0");
}

std::vector<TensorType> infer_resize(const Node& node, Function& function) {
  const auto& a = node.attrs_as<ResizeAttrs>();
  const TensorType& x = input_type(node, 0);
  size_t rank = x.shape.size();
  require(a.sizes.size() == rank && (a.scales.empty() || a.scales.size() == rank) &&
              (a.roi.empty() || a.roi.size() == 2 * rank) && (a.reaches.empty() || a.reaches.size() == rank),
          "sizes, scales, roi and reaches need an entry for each axis of {}", x.str());
  ops::require_dtype(x.dtype != DType::kBool, x.dtype);
  for (size_t d = 0; d < rank; ++d) {
    require(!a.sizes[d].is_constant() || a.sizes[d].value() >= 0, "a size is negative");
    require(a.scales.empty() || a.scales[d] >= 0, "a scale is negative");
    const bool scale_known = (!a.scales.empty() && a.scales[d] != 0) || a.sizes[d] == x.shape[d] ||
                             (x.shape[d].is_constant() && a.sizes[d].is_constant());
    ops::require_known(!a.antialias || a.mode == ResizeMode::kNearest || scale_known || !a.reaches.empty(),
                       "scale of each axis");
    require(!x.shape[d].is_constant() || x.shape[d].value() > 0 || a.sizes[d] == x.shape[d],
            "cannot resize an axis of extent 0");
    require_data(node, d, function);
  }
  for (size_t i : {size_t{1}, size_t{2}}) {
    const auto count = static_cast<int64_t>(i * rank);
    require(!ops::has_input(node, i) || input_type(node, i) == TensorType{kCoordinate, {count}},
            "input {} should be an f64 vector of {}", i, count);
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
  OpDef op = ops::define(op::resize, FusionClass::kOpaque, LayoutBehaviour::kAxisRemap,
                         {"data", "scales", "roi"}, 2);
  op.infer = infer_resize;
  op.compute = compute_resize;
  const auto remap = ops::remapper<ResizeAttrs>([](ResizeAttrs& a, const std::vector<int>& to) {
    a.sizes = permuted(a.sizes, to);
    a.scales = permuted(a.scales, to);
    a.roi = permuted(permuted(a.roi, to), to, to.size());
    a.reaches = permuted(a.reaches, to);
    return true;
  });
  // Data are in the order of the axes.
  op.remap_axes = [remap](const Node& node, const std::vector<int>& to) -> std::shared_ptr<Attrs> {
    return node.inputs.size() > 1 ? nullptr : remap(node, to);
  };
  set.add(std::move(op));
}

}  // namespace gantry
