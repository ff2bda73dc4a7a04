#include "tests/random_graphs/interval.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "host/support/error.h"
#include "host/tensor/fold.h"

namespace gantry::random_graphs {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double largest_of(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return 65504;
    case DType::kBF16:
      return 0x1.fep127;
    case DType::kF64:
      return std::numeric_limits<double>::max();
    default:
      return std::numeric_limits<float>::max();
  }
}

/// Below it are no numbers; f32's are bf16's, which they may have been in between.
double smallest_of(DType dtype) {
  return dtype == DType::kF64 ? 0x1p-1074 : dtype == DType::kF16 ? 0x1p-24 : 0x1p-133;
}

/// Of ends in any order; where one has no value (0 times infinity), nothing is known.
template <typename... Ends>
Interval between(double value, Ends... ends) {
  const double all[] = {ends...};
  if (std::isnan(value) || std::ranges::any_of(all, [](double end) { return std::isnan(end); }))
    return Interval::anything(value);
  return {value, std::ranges::min(all), std::ranges::max(all)};
}

bool holds(const Interval& x, double at) {
  return x.low <= at && at <= x.high;
}

/// The operand as an implementation of a function may have rounded it.
Interval blurred(Interval x, DType dtype) {
  const double relative = kUnits * unit_of(dtype);
  if (std::isfinite(x.low)) x.low -= relative * std::fabs(x.low);
  if (std::isfinite(x.high)) x.high += relative * std::fabs(x.high);
  return x;
}

Interval divided(const Interval& a, const Interval& b) {
  const double value = a.value / b.value;
  if (holds(b, 0)) return Interval::anything(value);
  return between(value, a.low / b.low, a.low / b.high, a.high / b.low, a.high / b.high);
}

/// Remainders: a - q b where all quotients between the ends are the same whole number.
Interval remainder(BinaryOp op, DType dtype, const Interval& of, const Interval& b) {
  const Interval a = blurred(of, dtype);
  const double value = *fold_floats(op, DType::kF64, of.value, b.value);
  if (holds(b, 0) || !std::isfinite(b.size()) || !std::isfinite(a.size())) return Interval::anything(value);
  const auto whole = [op](double q) { return op == BinaryOp::kRem ? std::trunc(q) : std::floor(q); };
  const Interval quotients = divided(a, b);
  const double q = whole(quotients.low);
  if (q != whole(quotients.high)) return hull(Interval::point(value), {value, -b.size(), b.size()});
  return between(value, value, a.low - q * b.low, a.low - q * b.high, a.high - q * b.low, a.high - q * b.high);
}

Interval extremum(BinaryOp op, const Interval& a, const Interval& b, bool nan_passes) {
  const double value = *fold_floats(op, DType::kF64, a.value, b.value, nan_passes);
  if (a.is_nan() || b.is_nan()) return nan_passes ? Interval::point(value) : a.is_nan() ? b : a;
  if (a.is_anything() || b.is_anything()) return Interval::anything(value);
  if (op == BinaryOp::kMax) return {value, std::max(a.low, b.low), std::max(a.high, b.high)};
  return {value, std::min(a.low, b.low), std::min(a.high, b.high)};
}

Interval power(DType dtype, const Interval& base, const Interval& b) {
  const double value = std::pow(base.value, b.value);
  const bool whole = b.is_point() && b.value == std::trunc(b.value);
  const Interval a = base.low > 0 ? blurred(base, dtype) : base;
  const auto corners = [&] {
    return between(value, value, std::pow(a.low, b.low), std::pow(a.low, b.high), std::pow(a.high, b.low),
                   std::pow(a.high, b.high));
  };
  if (a.low > 0 || (a.low >= 0 && b.low > 0)) return corners();
  if (whole && b.value == 0) return Interval::point(1);
  if (whole && !holds(a, 0)) return corners();
  if (whole && b.value > 0) return hull(corners(), Interval::point(0));
  return Interval::anything(value);
}

/// Functions that rise (or fall) all over [low, high], where they are defined: beyond it they are NaN.
struct Monotone {
  double low = -kInfinity, high = kInfinity;
};
std::optional<Monotone> monotone(MathFn fn) {
  switch (fn) {
    case MathFn::kExp:
    case MathFn::kTanh:
    case MathFn::kErf:
    case MathFn::kSigmoid:
    case MathFn::kFloor:
    case MathFn::kCeil:
    case MathFn::kRound:
    case MathFn::kTrunc:
    case MathFn::kAtan:
    case MathFn::kSinh:
    case MathFn::kAsinh:
    case MathFn::kRoundTf32:
    case MathFn::kTruncBf16:
      return Monotone{};
    case MathFn::kLog:
    case MathFn::kSqrt:
    case MathFn::kRsqrt:
      return Monotone{0, kInfinity};
    case MathFn::kAsin:
    case MathFn::kAcos:
    case MathFn::kAtanh:
      return Monotone{-1, 1};
    case MathFn::kAcosh:
      return Monotone{1, kInfinity};
    default:
      return std::nullopt;
  }
}

bool is_exact(MathFn fn) {
  return fn == MathFn::kFloor || fn == MathFn::kCeil || fn == MathFn::kRound || fn == MathFn::kTrunc ||
         fn == MathFn::kAbs;
}

double exactly(MathFn fn, double x) {
  return *fold_math(fn, DType::kF64, x, 0);
}

Interval monotone_on(const Monotone& domain, MathFn fn, const Interval& given, Interval x) {
  const double value = exactly(fn, given.value);
  if (given.high < domain.low || given.low > domain.high) return Interval::point(std::nan(""));
  // Zeros may have lost their sign, on which poles depend.
  const bool at_pole = (fn == MathFn::kRsqrt || fn == MathFn::kLog) && given.low <= 0;
  if (given.low < domain.low || given.high > domain.high || at_pole) return Interval::anything(value);
  x.low = std::max(x.low, domain.low);
  x.high = std::min(x.high, domain.high);
  return between(value, value, exactly(fn, x.low), exactly(fn, x.high));
}

Interval function(MathFn fn, const Interval& given, const Interval& x) {
  const double value = exactly(fn, given.value);
  if (const auto domain = monotone(fn)) return monotone_on(*domain, fn, given, x);
  if (fn == MathFn::kAbs || fn == MathFn::kCosh) {
    const Interval ends = between(value, value, exactly(fn, x.low), exactly(fn, x.high));
    return holds(x, 0) ? hull(ends, Interval::point(exactly(fn, 0))) : ends;
  }
  const double away = std::max(x.high - given.value, given.value - x.low);
  if (fn == MathFn::kSin || fn == MathFn::kCos) {
    if (!std::isfinite(away)) return Interval::anything(value);
    return {value, std::max(-1.0, value - away), std::min(1.0, value + away)};
  }
  internal_check(fn == MathFn::kTan, "there are no intervals of {}", name_of(fn));
  const auto branch = [](double at) { return std::floor(at / std::numbers::pi + 0.5); };
  if (!std::isfinite(away) || branch(x.low) != branch(x.high)) return Interval::anything(value);
  return between(value, value, std::tan(x.low), std::tan(x.high));
}

}  // namespace

bool Interval::is_anything() const {
  return low == -kInfinity && high == kInfinity;
}
bool Interval::is_point() const {
  return low == high || is_nan();
}
bool Interval::is_nan() const {
  return std::isnan(low);
}
double Interval::size() const {
  return std::max(std::fabs(low), std::fabs(high));
}

double unit_of(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return 0x1p-11;
    case DType::kBF16:
      return 0x1p-8;
    case DType::kF64:
      return 0x1p-53;
    default:
      return 0x1p-24;
  }
}

Interval rounded(Interval x, DType dtype, double error) {
  if (x.is_nan() || x.is_anything()) return x;
  if (x.low == x.high && std::isinf(x.low)) return x;
  if (x.low != 0 || x.high != 0) error += kUnits * smallest_of(dtype);
  if (!std::isfinite(error)) return Interval::anything(x.value);
  x.low -= error;
  x.high += error;
  const double largest = largest_of(dtype);
  if (x.high > largest) x.high = kInfinity, x.low = std::min(x.low, largest);
  if (x.low < -largest) x.low = -kInfinity, x.high = std::max(x.high, -largest);
  return x;
}

Interval hull(const Interval& a, const Interval& b) {
  if (a.is_nan() && b.is_nan()) return a;
  if (a.is_nan() || b.is_nan()) return Interval::anything(a.value);
  return {a.value, std::min(a.low, b.low), std::max(a.high, b.high)};
}

Interval apply(BinaryOp op, DType dtype, const Interval& a, const Interval& b, bool nan_passes) {
  if (op == BinaryOp::kMin || op == BinaryOp::kMax) return extremum(op, a, b, nan_passes);
  if (a.is_nan() || b.is_nan()) return Interval::point(std::nan(""));
  if (a.is_point() && b.is_point() && (std::isinf(a.value) || std::isinf(b.value)) && !holds(b, 0))
    return Interval::point(fold_floats(op, DType::kF64, a.value, b.value).value_or(0));
  Interval result;
  double of = 0;  // what roundings are relative to
  const auto finite = [](double x) { return std::isfinite(x) ? std::fabs(x) : 0; };
  switch (op) {
    case BinaryOp::kAdd:
      result = between(a.value + b.value, a.low + b.low, a.high + b.high);
      of = std::max(finite(a.low), finite(a.high)) + std::max(finite(b.low), finite(b.high));
      break;
    case BinaryOp::kSub:
      result = between(a.value - b.value, a.low - b.high, a.high - b.low);
      of = std::max(finite(a.low), finite(a.high)) + std::max(finite(b.low), finite(b.high));
      break;
    case BinaryOp::kMul:
      result = between(a.value * b.value, a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high);
      break;
    case BinaryOp::kDiv:
      result = divided(a, b);
      break;
    case BinaryOp::kMod:
    case BinaryOp::kRem:
      result = remainder(op, dtype, a, b);
      break;
    default:
      return Interval::anything(fold_floats(op, DType::kF64, a.value, b.value).value_or(0));
  }
  if (of == 0) of = std::max(finite(result.low), finite(result.high));
  return rounded(result, dtype, kUnits * unit_of(dtype) * of);
}

Interval apply(MathFn fn, DType dtype, const Interval& a, const Interval& b) {
  if (fn == MathFn::kPow) {
    if (a.is_nan() || b.is_nan()) return Interval::anything(std::pow(a.value, b.value));
    const Interval result = power(dtype, a, b);
    const double size = std::isfinite(result.size()) ? result.size() : std::fabs(result.value);
    // As exp(b log a), of which the product's rounding counts.
    const double exponent = a.value != 0 ? std::fabs(b.value * std::log(std::fabs(a.value))) : 0;
    return rounded(result, dtype, kUnits * unit_of(dtype) * size * (1 + exponent));
  }
  if (a.is_nan()) return a;
  if (a.is_anything()) return Interval::anything(exactly(fn, a.value));
  if (is_exact(fn)) return function(fn, a, a);
  const Interval result = function(fn, a, blurred(a, dtype));
  const double size = std::isfinite(result.size()) ? result.size() : 0;
  return rounded(result, dtype, kUnits * unit_of(dtype) * size);
}

std::optional<bool> compared(BinaryOp op, const Interval& a, const Interval& b) {
  if (a.is_nan() || b.is_nan() || (a.is_point() && b.is_point())) return compare_floats(op, a.low, b.low);
  if (a.is_anything() || b.is_anything()) return std::nullopt;
  // Apart, every value of one compares as its ends do.
  if (a.high < b.low || a.low > b.high) return compare_floats(op, a.low, b.low);
  const bool touches = a.high == b.low || a.low == b.high;
  if (touches && a.high == b.low && (op == BinaryOp::kLe || op == BinaryOp::kGt)) return op == BinaryOp::kLe;
  if (touches && a.low == b.high && (op == BinaryOp::kGe || op == BinaryOp::kLt)) return op == BinaryOp::kGe;
  return std::nullopt;
}

}  // namespace gantry::random_graphs
