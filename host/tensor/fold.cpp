#include "host/tensor/fold.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "host/graph/small_float.h"

namespace gantry {
namespace {

double round_to_bits(double value, int mantissa_bits, int min_exponent, double largest) {
  if (!std::isfinite(value) || value == 0) return value;
  int exponent = 0;
  std::frexp(value, &exponent);
  int ulp_exponent = std::max(exponent - 1, min_exponent) - mantissa_bits;
  double rounded = std::ldexp(std::nearbyint(std::ldexp(value, -ulp_exponent)), ulp_exponent);
  if (std::fabs(rounded) > largest) return std::copysign(std::numeric_limits<double>::infinity(), value);
  return rounded;
}

uint64_t as_unsigned(DType dtype, int64_t value) {
  int bits = bit_width(dtype);
  return bits == 64 ? static_cast<uint64_t>(value)
                    : static_cast<uint64_t>(value) & ((uint64_t{1} << bits) - 1);
}

std::optional<int64_t> fold_unsigned(BinaryOp op, DType dtype, int64_t x, int64_t y) {
  uint64_t a = as_unsigned(dtype, x), b = as_unsigned(dtype, y);
  switch (op) {
    case BinaryOp::kDiv:
    case BinaryOp::kFloorDiv:
      if (b == 0) return std::nullopt;
      return static_cast<int64_t>(a / b);
    case BinaryOp::kMod:
    case BinaryOp::kRem:
      if (b == 0) return std::nullopt;
      return static_cast<int64_t>(a % b);
    case BinaryOp::kMin:
      return static_cast<int64_t>(std::min(a, b));
    case BinaryOp::kMax:
      return static_cast<int64_t>(std::max(a, b));
    case BinaryOp::kLt:
      return a < b;
    case BinaryOp::kLe:
      return a <= b;
    case BinaryOp::kGt:
      return a > b;
    case BinaryOp::kGe:
      return a >= b;
    case BinaryOp::kShr:
      return b >= 64 ? 0 : static_cast<int64_t>(a >> b);
    default:
      return std::nullopt;
  }
}

std::optional<int64_t> fold_signed(BinaryOp op, int64_t a, int64_t b) {
  bool overflow = b == -1 && a == std::numeric_limits<int64_t>::min();
  switch (op) {
    case BinaryOp::kDiv:
      if (b == 0) return std::nullopt;
      return overflow ? a : a / b;
    case BinaryOp::kRem:
      if (b == 0) return std::nullopt;
      return overflow ? 0 : a % b;
    case BinaryOp::kFloorDiv:
      if (b == 0) return std::nullopt;
      return overflow ? a : floor_divide(a, b);
    case BinaryOp::kMod:
      if (b == 0) return std::nullopt;
      return overflow ? 0 : floor_modulo(a, b);
    case BinaryOp::kMin:
      return std::min(a, b);
    case BinaryOp::kMax:
      return std::max(a, b);
    case BinaryOp::kLt:
      return a < b;
    case BinaryOp::kLe:
      return a <= b;
    case BinaryOp::kGt:
      return a > b;
    case BinaryOp::kGe:
      return a >= b;
    case BinaryOp::kShr:
      return a >> (b < 0 || b > 63 ? 63 : b);  // amounts below 0 are large ones, as unsigned numbers are
    default:
      return std::nullopt;
  }
}

/// Before it is rounded to its type. None of the roundings below, of tests and choices, and of kFma.
std::optional<double> math_value(MathFn fn, double a, double b) {
  switch (fn) {
    case MathFn::kExp:
      return std::exp(a);
    case MathFn::kLog:
      return std::log(a);
    case MathFn::kSqrt:
      return std::sqrt(a);
    case MathFn::kRsqrt:
      return 1.0 / std::sqrt(a);
    case MathFn::kTanh:
      return std::tanh(a);
    case MathFn::kErf:
      return std::erf(a);
    case MathFn::kSigmoid:
      return 1.0 / (1.0 + std::exp(-a));
    case MathFn::kPow:
      return std::pow(a, b);
    case MathFn::kFloor:
      return std::floor(a);
    case MathFn::kCeil:
      return std::ceil(a);
    case MathFn::kRound:
      return std::nearbyint(a);
    case MathFn::kTrunc:
      return std::trunc(a);
    case MathFn::kAbs:
      return std::fabs(a);
    case MathFn::kSin:
      return std::sin(a);
    case MathFn::kCos:
      return std::cos(a);
    case MathFn::kTan:
      return std::tan(a);
    case MathFn::kAsin:
      return std::asin(a);
    case MathFn::kAcos:
      return std::acos(a);
    case MathFn::kAtan:
      return std::atan(a);
    case MathFn::kSinh:
      return std::sinh(a);
    case MathFn::kCosh:
      return std::cosh(a);
    case MathFn::kAsinh:
      return std::asinh(a);
    case MathFn::kAcosh:
      return std::acosh(a);
    case MathFn::kAtanh:
      return std::atanh(a);
    case MathFn::kRoundTf32:
    case MathFn::kTruncBf16:
    case MathFn::kIsNan:
    case MathFn::kIsInf:
    case MathFn::kFma:
    case MathFn::kIfThenElse:
      break;
  }
  return std::nullopt;
}

/// Adding half of the last kept place and cutting rounds ties away from zero; infinities stay.
double round_tf32(double a) {
  if (std::isnan(a)) return a;
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(a));
  return static_cast<double>(std::bit_cast<float>((bits + 0x1000u) & ~0x1fffu));
}

double trunc_bf16(double a) {
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(a));
  return static_cast<double>(std::bit_cast<float>(bits & 0xffff0000u));
}

}  // namespace

int64_t floor_divide(int64_t a, int64_t b) {
  int64_t q = a / b;
  return (a % b != 0 && (a % b < 0) != (b < 0)) ? q - 1 : q;
}
int64_t floor_modulo(int64_t a, int64_t b) {
  int64_t r = a % b;
  return (r != 0 && (r < 0) != (b < 0)) ? r + b : r;
}

int64_t wrap_integer(DType dtype, int64_t value) {
  switch (dtype) {
    case DType::kI8:
      return static_cast<int8_t>(value);
    case DType::kI16:
      return static_cast<int16_t>(value);
    case DType::kI32:
      return static_cast<int32_t>(value);
    case DType::kU8:
      return static_cast<uint8_t>(value);
    case DType::kU16:
      return static_cast<uint16_t>(value);
    case DType::kU32:
      return static_cast<uint32_t>(value);
    case DType::kBool:
      return value != 0;
    case DType::kI4:
      return static_cast<int8_t>(static_cast<uint64_t>(value) << 4) >> 4;
    case DType::kI2:
      return static_cast<int8_t>(static_cast<uint64_t>(value) << 6) >> 6;
    case DType::kU4:
      return value & 15;
    case DType::kU2:
      return value & 3;
    default:
      return value;
  }
}

double round_float(DType dtype, double value) {
  switch (dtype) {
    case DType::kF32:
      return static_cast<double>(static_cast<float>(value));
    case DType::kF16:
      return round_to_bits(value, 10, -14, 65504.0);
    case DType::kBF16:
      return round_to_bits(value, 7, -126, 3.3895313892515355e38);
    default:
      return is_small_float(dtype) ? small_float_value(dtype, small_float_code(dtype, value)) : value;
  }
}

bool is_comparison(BinaryOp op) {
  switch (op) {
    case BinaryOp::kEq:
    case BinaryOp::kNe:
    case BinaryOp::kLt:
    case BinaryOp::kLe:
    case BinaryOp::kGt:
    case BinaryOp::kGe:
      return true;
    default:
      return false;
  }
}

bool is_number(const Expr& value) {
  if (const auto* broadcast = value.as<BroadcastNode>()) return is_number(broadcast->value);
  const auto* imm = value.as<FloatImmNode>();
  return imm != nullptr && !std::isnan(imm->value);
}

bool passes_nan(const BinaryNode& node) {
  return (node.op == BinaryOp::kMin || node.op == BinaryOp::kMax) && (is_number(node.a) || is_number(node.b));
}

std::optional<int64_t> fold_integers(BinaryOp op, DType dtype, int64_t a, int64_t b) {
  auto ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  switch (op) {
    case BinaryOp::kAdd:
      return wrap_integer(dtype, static_cast<int64_t>(ua + ub));
    case BinaryOp::kSub:
      return wrap_integer(dtype, static_cast<int64_t>(ua - ub));
    case BinaryOp::kMul:
      return wrap_integer(dtype, static_cast<int64_t>(ua * ub));
    case BinaryOp::kEq:
      return a == b;
    case BinaryOp::kNe:
      return a != b;
    case BinaryOp::kAnd:
      return a & b;
    case BinaryOp::kOr:
      return a | b;
    case BinaryOp::kXor:
      return a ^ b;
    case BinaryOp::kShl:
      return wrap_integer(dtype, ub >= 64 ? 0 : static_cast<int64_t>(ua << ub));
    default:
      break;
  }
  auto folded = is_unsigned_int(dtype) ? fold_unsigned(op, dtype, a, b) : fold_signed(op, a, b);
  if (folded && !is_comparison(op)) return wrap_integer(dtype, *folded);
  return folded;
}

std::optional<double> fold_floats(BinaryOp op, DType dtype, double a, double b, bool nan_passes) {
  const bool is_extremum = op == BinaryOp::kMin || op == BinaryOp::kMax;
  if (is_extremum && nan_passes && (std::isnan(a) || std::isnan(b))) return a + b;
  auto rounded = [&](double value) { return round_float(dtype, value); };
  switch (op) {
    case BinaryOp::kAdd:
      return rounded(a + b);
    case BinaryOp::kSub:
      return rounded(a - b);
    case BinaryOp::kMul:
      return rounded(a * b);
    case BinaryOp::kDiv:
      return rounded(a / b);
    case BinaryOp::kFloorDiv:
      return rounded(std::floor(a / b));
    case BinaryOp::kRem:
      return rounded(std::fmod(a, b));
    case BinaryOp::kMod: {
      double r = std::fmod(a, b);
      return rounded(r != 0 && (r < 0) != (b < 0) ? r + b : r);
    }
    case BinaryOp::kMin:
      return std::fmin(a, b);
    case BinaryOp::kMax:
      return std::fmax(a, b);
    default:
      return std::nullopt;
  }
}

std::optional<bool> compare_floats(BinaryOp op, double a, double b) {
  switch (op) {
    case BinaryOp::kEq:
      return a == b;
    case BinaryOp::kNe:
      return a != b;
    case BinaryOp::kLt:
      return a < b;
    case BinaryOp::kLe:
      return a <= b;
    case BinaryOp::kGt:
      return a > b;
    case BinaryOp::kGe:
      return a >= b;
    default:
      return std::nullopt;
  }
}

std::optional<double> fold_math(MathFn fn, DType dtype, double a, double b) {
  if (fn == MathFn::kRoundTf32) return round_tf32(a);
  if (fn == MathFn::kTruncBf16) return trunc_bf16(a);
  const std::optional<double> value = math_value(fn, a, b);
  return value ? std::optional<double>(round_float(dtype, *value)) : std::nullopt;
}

int64_t float_to_integer(DType dtype, double value) {
  if (dtype == DType::kBool) return value != 0;
  if (std::isnan(value)) return 0;
  int bits = bit_width(dtype);
  if (bits < 8) return wrap_integer(dtype, float_to_integer(DType::kI32, value));
  if (is_unsigned_int(dtype)) {
    if (value <= 0) return 0;
    if (value >= std::ldexp(1.0, bits)) return wrap_integer(dtype, -1);
    return static_cast<int64_t>(static_cast<uint64_t>(value));
  }
  double limit = std::ldexp(1.0, bits - 1);
  if (value >= limit) return static_cast<int64_t>((uint64_t{1} << (bits - 1)) - 1);
  if (value < -limit) return static_cast<int64_t>(~uint64_t{0} << (bits - 1));
  return static_cast<int64_t>(value);
}

double integer_to_float(DType dtype, int64_t value) {
  return dtype == DType::kU64 ? static_cast<double>(static_cast<uint64_t>(value))
                              : static_cast<double>(value);
}

double integer_to_float(DType dtype, int64_t value, DType to) {
  constexpr int64_t kExact = int64_t{1} << 53, kLate = 0x7ff;
  const bool is_exact = value <= kExact && value >= (dtype == DType::kU64 ? 0 : -kExact);
  if (to != DType::kF64 && !is_exact && (value & kLate) != 0) value = (value & ~kLate) | (kLate + 1);
  return integer_to_float(dtype, value);
}

}  // namespace gantry
