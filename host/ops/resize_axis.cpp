#include "host/ops/resize_axis.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "host/ops/support.h"

namespace gantry::resizing {

Expr coordinate(double value) {
  return float_imm(kCoordinate, value);
}
Expr coordinate(const Dim& d) {
  return d.is_constant() ? coordinate(static_cast<double>(d.value())) : cast(kCoordinate, Expr(d));
}
Expr floor_of(Expr x) {
  return call(MathFn::kFloor, {std::move(x)});
}

namespace {
Expr ceil_of(Expr x) {
  return call(MathFn::kCeil, {std::move(x)});
}
Expr imm(double value) {
  return coordinate(value);
}
/// x * by / parts. The product of integers or halves is exact; so is a quotient that is one.
Expr times_fraction(const Expr& x, int64_t by, int64_t parts) {
  const int64_t common = std::max<int64_t>(std::gcd(by, parts), 1);
  by /= common;
  parts /= common;
  const Expr product = by == 1 ? x : x * imm(static_cast<double>(by));
  return parts == 1 ? product : product / imm(static_cast<double>(parts));
}
/// A whole number that a scale's rounding to f32 has moved is that number again.
Expr rounded_to_f32(const Expr& x) {
  return cast(kCoordinate, cast(DType::kF32, x));
}
/// The product of a scale in f32 as it was before the scale was rounded, where it may have been a whole
/// number. In f32 that is not always this number: 21 times the f32 nearest to 1 / 7 is the next one above 3.
Expr before_rounding(const Expr& product) {
  const Expr whole = call(MathFn::kRound, {product}), off = call(MathFn::kAbs, {product - whole});
  return select(le(off, product * imm(0x1p-24)), whole, product);
}
}  // namespace

bool Axis::copied() const {
  if (scale_is_data()) return false;
  const bool cropped = crops() && (start_data.get() != nullptr || roi_start != 0 || roi_end != 1);
  return in == out && (given_scale == 0 || given_scale == 1) && !cropped;
}

std::optional<double> Axis::known_scale() const {
  if (given_scale != 0) return given_scale;
  if (scale_data) return std::nullopt;
  if (in == out) return 1.0;
  if (in.is_constant() && out.is_constant() && in.value() > 0)
    return static_cast<double>(out.value()) / static_cast<double>(in.value());
  return std::nullopt;
}

Expr Axis::scale() const {
  if (const auto known = known_scale()) return imm(*known);
  return scale_data ? scale_data : coordinate(out) / coordinate(in);
}

Expr Axis::unscaled(const Expr& x) const {
  if (scale_is_data()) {
    const Expr quotient = x / scale_data;
    return attrs.mode == ResizeMode::kNearest ? rounded_to_f32(quotient) : quotient;
  }
  if (given_scale == 0) {
    if (in.is_constant() && out.is_constant()) return times_fraction(x, in.value(), out.value());
    return x * coordinate(in) / coordinate(out);
  }
  const auto fraction = fraction_of(given_scale);
  return fraction ? times_fraction(x, fraction->denominator, fraction->numerator) : x / imm(given_scale);
}

Expr Axis::length() const {
  if (scale_is_data()) return before_rounding(scale_data * coordinate(in));
  if (given_scale == 0 || given_scale == std::round(given_scale)) return coordinate(out);
  if (const auto fraction = fraction_of(given_scale))
    return times_fraction(coordinate(in), fraction->numerator, fraction->denominator);
  if (!in.is_constant() || !out.is_constant()) return imm(given_scale) * coordinate(in);
  // Scales were f32: what their rounding makes of a whole number is that number.
  const double exact = given_scale * static_cast<double>(in.value()), whole = static_cast<double>(out.value());
  return imm(std::abs(exact - whole) < 1e-5 * exact ? whole : exact);
}

bool Axis::antialiased() const {
  return attrs.antialias && attrs.mode != ResizeMode::kNearest && !copied() && known_scale().value_or(0) < 1;
}

namespace {

/// tf_crop_and_resize: position i of a part of the data.
Expr cropped_coordinate(const Axis& axis, const Expr& i, const Expr& steps) {
  const Expr x = cast(kCoordinate, i), last = coordinate(axis.in) - imm(1);
  const bool data = static_cast<bool>(axis.start_data);
  const Expr start = data ? axis.start_data : imm(axis.roi_start);
  const Expr length = data ? axis.end_data - axis.start_data : imm(axis.roi_end - axis.roi_start);
  const Expr middle =
      (data ? imm(0.5) * (axis.start_data + axis.end_data) : imm(0.5 * (axis.roi_start + axis.roi_end))) *
      last;
  if (axis.out == Dim(1)) return middle;
  const Expr along = start * last + x * length * last / steps;
  return axis.out.is_constant() ? along : select(gt(coordinate(axis.out), imm(1)), along, middle);
}

}  // namespace

Expr source_coordinate(const Axis& axis, const Expr& i) {
  Expr x = cast(kCoordinate, i), in = coordinate(axis.in), out = coordinate(axis.out);
  Expr half_pixel = axis.unscaled(x + imm(0.5)) - imm(0.5);
  bool single = axis.out == Dim(1);
  // Denominators that select discards must not be 0.
  Expr steps = single ? imm(1) : max(axis.length() - imm(1), imm(1));
  switch (axis.attrs.coordinates) {
    case ResizeCoordinates::kHalfPixel:
      return half_pixel;
    case ResizeCoordinates::kPytorchHalfPixel:
      return select(gt(out, imm(1)), half_pixel, imm(0));
    case ResizeCoordinates::kHalfPixelSymmetric:
      // Counted from both centres, a position that is an integer or a half is exact: nearest neighbours hang
      // on it.
      return axis.unscaled(x + imm(0.5) - out * imm(0.5)) + (in * imm(0.5) - imm(0.5));
    case ResizeCoordinates::kAlignCorners:
      return single ? imm(0) : x * (in - imm(1)) / steps;
    case ResizeCoordinates::kAsymmetric:
      return axis.unscaled(x);
    case ResizeCoordinates::kTfHalfPixelForNn:
      return axis.unscaled(x + imm(0.5));
    case ResizeCoordinates::kTfCropAndResize:
      break;
  }
  return cropped_coordinate(axis, i, steps);
}

Expr clamped(Expr position, const Dim& extent) {
  return max(Expr(0), min(std::move(position), Expr(extent) - 1));
}

namespace {

/// Enlarging by an integer needs no coordinates; a null Expr if that is not the case.
Expr integer_nearest(const Axis& axis, const Expr& i) {
  const ResizeAttrs& a = axis.attrs;
  if (axis.scale_is_data()) return {};
  Dim factor = axis.in.is_constant() && axis.in.value() == 0 ? Dim(0) : floordiv(axis.out, axis.in);
  if (!factor.is_constant() || factor.value() < 1 || !(axis.in * factor == axis.out)) return {};
  if (axis.given_scale != 0 && axis.given_scale != static_cast<double>(factor.value())) return {};
  bool rounds =
      a.rounding == ResizeRounding::kRoundPreferFloor || a.rounding == ResizeRounding::kRoundPreferCeil;
  bool half = a.coordinates == ResizeCoordinates::kHalfPixel && rounds;
  bool down = a.rounding == ResizeRounding::kFloor || a.rounding == ResizeRounding::kSimple;
  bool floor = a.coordinates == ResizeCoordinates::kAsymmetric && down;
  return half || floor ? floordiv(i, factor.value()) : Expr();
}

}  // namespace

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
    case ResizeRounding::kSimple:
      rounded = select(lt(axis.scale(), imm(1)), ceil_of(x), floor_of(x));
      break;
  }
  return {{clamped(cast(DType::kI64, rounded), axis.in), {}}};
}

namespace {

/// Keys' cubic convolution kernel at distance d of taps -1, 0, 1, 2 from a point `f` beyond tap 0.
std::vector<Expr> cubic_weights(double a, const Expr& f) {
  auto near = [&](const Expr& d) { return ((imm(a + 2) * d - imm(a + 3)) * d) * d + imm(1); };
  auto far = [&](const Expr& d) { return ((imm(a) * d - imm(5 * a)) * d + imm(8 * a)) * d - imm(4 * a); };
  return {far(f + imm(1)), near(f), near(imm(1) - f), far(imm(2) - f)};
}

}  // namespace

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

}  // namespace gantry::resizing
