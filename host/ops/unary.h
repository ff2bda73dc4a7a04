// Functions of one element. A new one is a formula, a constant, and its place in kUnaryOps.
#pragma once

#include <cmath>
#include <tuple>

#include "host/ops/elementwise_attrs.h"
#include "host/ops/elementwise_op.h"

namespace gantry {

namespace formula {

template <MathFn fn>
Expr math(const NoAttrs&, const Expr& x) {
  return call(fn, {x});
}

inline Expr absolute(const NoAttrs&, const Expr& x) {
  const DType dtype = x.type().dtype;
  if (is_float(dtype)) return call(MathFn::kAbs, {x});
  return is_unsigned_int(dtype) ? x : select(lt(x, const_of(dtype, 0)), -x, x);
}
inline Expr negative(const NoAttrs&, const Expr& x) {
  return -x;
}
inline Expr sign(const NoAttrs&, const Expr& x) {
  const DType dtype = x.type().dtype;
  const Expr zero = const_of(dtype, 0), one = const_of(dtype, 1);
  if (is_unsigned_int(dtype)) return select(gt(x, zero), one, zero);
  // What is neither positive nor negative is 0 or NaN.
  return select(gt(x, zero), one, select(lt(x, zero), const_of(dtype, -1), x));
}
inline Expr reciprocal(const NoAttrs&, const Expr& x) {
  return const_of(x.type().dtype, 1) / x;
}
inline Expr logical_not(const NoAttrs&, const Expr& x) {
  return gantry::logical_not(x);
}
inline Expr bitwise_not(const NoAttrs&, const Expr& x) {
  const DType dtype = x.type().dtype;
  const int bits = bit_width(dtype);
  const int64_t ones = is_signed_int(dtype) || bits == 64 ? -1 : (int64_t{1} << bits) - 1;
  return binary(BinaryOp::kXor, x, int_imm(dtype, ones));
}
inline Expr copy(const NoAttrs&, const Expr& x) {
  return x;
}

/// The smallest (largest) value of an integer dtype.
inline double integer_limit(DType dtype, bool largest) {
  const int bits = bit_width(dtype);
  if (is_unsigned_int(dtype)) return largest ? std::ldexp(1.0, bits) - 1 : 0;
  return largest ? std::ldexp(1.0, bits - 1) - 1 : -std::ldexp(1.0, bits - 1);
}
inline Expr clip(const ClipAttrs& attrs, const Expr& x) {
  const DType dtype = x.type().dtype;
  const double low = attrs.min, high = attrs.max;
  const bool floating = is_float(dtype);
  const auto bound = [&](double value) {
    return floating ? float_imm(dtype, value) : int_imm(dtype, static_cast<int64_t>(value));
  };
  Expr y = x;
  if (floating ? low != -INFINITY : low > integer_limit(dtype, false)) y = max(y, bound(low));
  if (floating ? high != INFINITY : high < integer_limit(dtype, true)) y = min(y, bound(high));
  return y;
}
inline Expr cast(const CastAttrs& attrs, const Expr& x) {
  return gantry::cast(attrs.to, x);
}
inline Expr is_inf(const IsInfAttrs& attrs, const Expr& x) {
  if (attrs.detect_negative && attrs.detect_positive) return call(MathFn::kIsInf, {x});
  if (!attrs.detect_negative && !attrs.detect_positive) return int_imm(DType::kBool, 0);
  return eq(x, float_imm(x.type().dtype, attrs.detect_positive ? INFINITY : -INFINITY));
}

inline DType cast_to(const CastAttrs& attrs) {
  return attrs.to;
}
template <typename AttrsType>
DType truth(const AttrsType&) {
  return DType::kBool;
}

}  // namespace formula

namespace op {
inline constexpr ElementwiseOp<NoAttrs> exp{"exp", Takes::kFloat, formula::math<MathFn::kExp>};
inline constexpr ElementwiseOp<NoAttrs> log{"log", Takes::kFloat, formula::math<MathFn::kLog>};
inline constexpr ElementwiseOp<NoAttrs> sqrt{"sqrt", Takes::kFloat, formula::math<MathFn::kSqrt>};
inline constexpr ElementwiseOp<NoAttrs> rsqrt{"rsqrt", Takes::kFloat, formula::math<MathFn::kRsqrt>};
inline constexpr ElementwiseOp<NoAttrs> tanh{"tanh", Takes::kFloat, formula::math<MathFn::kTanh>};
inline constexpr ElementwiseOp<NoAttrs> erf{"erf", Takes::kFloat, formula::math<MathFn::kErf>};
inline constexpr ElementwiseOp<NoAttrs> sigmoid{"sigmoid", Takes::kFloat, formula::math<MathFn::kSigmoid>};
inline constexpr ElementwiseOp<NoAttrs> floor{"floor", Takes::kFloat, formula::math<MathFn::kFloor>};
inline constexpr ElementwiseOp<NoAttrs> ceil{"ceil", Takes::kFloat, formula::math<MathFn::kCeil>};
inline constexpr ElementwiseOp<NoAttrs> round{"round", Takes::kFloat, formula::math<MathFn::kRound>};
inline constexpr ElementwiseOp<NoAttrs> trunc{"trunc", Takes::kFloat, formula::math<MathFn::kTrunc>};
inline constexpr ElementwiseOp<NoAttrs> sin{"sin", Takes::kFloat, formula::math<MathFn::kSin>};
inline constexpr ElementwiseOp<NoAttrs> cos{"cos", Takes::kFloat, formula::math<MathFn::kCos>};
inline constexpr ElementwiseOp<NoAttrs> tan{"tan", Takes::kFloat, formula::math<MathFn::kTan>};
inline constexpr ElementwiseOp<NoAttrs> asin{"asin", Takes::kFloat, formula::math<MathFn::kAsin>};
inline constexpr ElementwiseOp<NoAttrs> acos{"acos", Takes::kFloat, formula::math<MathFn::kAcos>};
inline constexpr ElementwiseOp<NoAttrs> atan{"atan", Takes::kFloat, formula::math<MathFn::kAtan>};
inline constexpr ElementwiseOp<NoAttrs> sinh{"sinh", Takes::kFloat, formula::math<MathFn::kSinh>};
inline constexpr ElementwiseOp<NoAttrs> cosh{"cosh", Takes::kFloat, formula::math<MathFn::kCosh>};
inline constexpr ElementwiseOp<NoAttrs> asinh{"asinh", Takes::kFloat, formula::math<MathFn::kAsinh>};
inline constexpr ElementwiseOp<NoAttrs> acosh{"acosh", Takes::kFloat, formula::math<MathFn::kAcosh>};
inline constexpr ElementwiseOp<NoAttrs> atanh{"atanh", Takes::kFloat, formula::math<MathFn::kAtanh>};
inline constexpr ElementwiseOp<NoAttrs> abs{"abs", Takes::kNumber, formula::absolute};
inline constexpr ElementwiseOp<NoAttrs> negative{"negative", Takes::kNumber, formula::negative};
inline constexpr ElementwiseOp<NoAttrs> sign{"sign", Takes::kNumber, formula::sign};
inline constexpr ElementwiseOp<NoAttrs> reciprocal{"reciprocal", Takes::kFloat, formula::reciprocal};
inline constexpr ElementwiseOp<NoAttrs> logical_not{"logical_not", Takes::kBool, formula::logical_not};
inline constexpr ElementwiseOp<NoAttrs> bitwise_not{"bitwise_not", Takes::kInteger, formula::bitwise_not};
inline constexpr ElementwiseOp<NoAttrs> copy{"copy", Takes::kAnything, formula::copy};
inline constexpr ElementwiseOp<ClipAttrs> clip{"clip", Takes::kNumber, formula::clip};
inline constexpr ElementwiseOp<CastAttrs> cast{"cast", Takes::kAnything, formula::cast, formula::cast_to};
inline constexpr ElementwiseOp<NoAttrs> isnan{"isnan", Takes::kFloat, formula::math<MathFn::kIsNan>, formula::truth};
inline constexpr ElementwiseOp<IsInfAttrs> isinf{"isinf", Takes::kFloat, formula::is_inf, formula::truth};
}  // namespace op

inline constexpr std::tuple kUnaryOps{
    &op::exp, &op::log, &op::sqrt, &op::rsqrt, &op::tanh, &op::erf, &op::sigmoid, &op::floor, &op::ceil,
    &op::round, &op::trunc, &op::sin, &op::cos, &op::tan, &op::asin, &op::acos, &op::atan, &op::sinh,
    &op::cosh, &op::asinh, &op::acosh, &op::atanh, &op::abs, &op::negative, &op::sign, &op::reciprocal,
    &op::logical_not, &op::bitwise_not, &op::copy, &op::clip, &op::cast, &op::isnan, &op::isinf,
};

}  // namespace gantry
