#include "host/codegen/small_float_code.h"

#include <bit>
#include <cmath>

#include "host/codegen/value_types.h"
#include "host/graph/small_float.h"

namespace gantry {

using llvm::Value;

namespace {

constexpr int kBias = 127, kMantissaBits = 23;  // of f32
constexpr uint32_t kInfinity = 0x7f800000U, kQuietNan = 0x7fc00000U, kMagnitude = 0x7fffffffU;

/// 32-bit lanes beside those of a value.
struct Lanes {
  llvm::IRBuilder<>& b;
  llvm::Type *f32, *i32, *i8;

  Value* integer(uint32_t v) const { return llvm::ConstantInt::get(i32, v); }
  Value* bits(Value* v) const { return b.CreateBitCast(v, i32); }
  Value* number(Value* v) const { return b.CreateBitCast(v, f32); }
};

/// f8e8m0fnu: the exponent, one more from 1.5 on. A code of 0 stands for 2^-127, which is no normal f32.
Value* exponent_of(const Lanes& l, Value* raw) {
  llvm::IRBuilder<>& b = l.b;
  Value* rounded = b.CreateLShr(b.CreateAdd(raw, l.integer(1U << (kMantissaBits - 1))), kMantissaBits);
  Value* is_normal = b.CreateICmpUGE(raw, l.integer(1U << kMantissaBits));
  Value* of_denormal = b.CreateZExt(b.CreateICmpUGE(raw, l.integer(0x00600000U)), l.i32);
  Value* code = b.CreateSelect(is_normal, rounded, of_denormal);
  // Zero, what is negative (its bits are beyond infinity's), infinity and NaN.
  Value* is_number = b.CreateICmpULT(b.CreateSub(raw, l.integer(1)), l.integer(kInfinity - 1));
  return b.CreateSelect(is_number, code, l.integer(0xff));
}

/// The code without its sign, of any magnitude but NaN.
Value* magnitude_code(const Lanes& l, Value* magnitude, const SmallFloat& format) {
  llvm::IRBuilder<>& b = l.b;
  const int dropped = kMantissaBits - format.mantissa_bits;
  const int smallest = 1 - format.bias;  // exponent of normal numbers
  // Normal results: rebias, and round to nearest even on the bits that fall off.
  Value* odd = b.CreateAnd(b.CreateLShr(magnitude, static_cast<uint64_t>(dropped)), l.integer(1));
  const uint32_t rebias = static_cast<uint32_t>(format.bias - kBias) << kMantissaBits;
  Value* rounded = b.CreateAdd(b.CreateAdd(magnitude, l.integer(rebias)),
                               b.CreateAdd(odd, l.integer((1U << (dropped - 1)) - 1)));
  Value* normal = b.CreateLShr(rounded, static_cast<uint64_t>(dropped));
  // Denormal results: added to a power of two whose last bit is theirs, the hardware rounds.
  const float aligning = std::ldexp(1.0F, smallest - format.mantissa_bits + kMantissaBits);
  Value* sum = b.CreateFAdd(l.number(magnitude), llvm::ConstantFP::get(l.f32, static_cast<double>(aligning)));
  Value* denormal = b.CreateSub(l.bits(sum), l.integer(std::bit_cast<uint32_t>(aligning)));
  const uint32_t least_normal = std::bit_cast<uint32_t>(std::ldexp(1.0F, smallest));
  Value* code = b.CreateSelect(b.CreateICmpULT(magnitude, l.integer(least_normal)), denormal, normal);
  return b.CreateSelect(b.CreateICmpUGT(code, l.integer(format.largest)), l.integer(format.overflow), code);
}

/// The sign at its place in the code, or 0.
Value* sign_code(const Lanes& l, Value* raw, const SmallFloat& format) {
  const int place = format.exponent_bits + format.mantissa_bits;
  return l.b.CreateAnd(l.b.CreateLShr(raw, static_cast<uint64_t>(31 - place)), l.integer(1U << place));
}

}  // namespace

Value* round_to_odd(llvm::IRBuilder<>& b, Value* value) {
  const int lanes = lanes_of(value);
  const Lanes l{b, with_lanes(b.getFloatTy(), lanes), with_lanes(b.getInt32Ty(), lanes), nullptr};
  Value* nearest = b.CreateFPTrunc(value, l.f32);
  Value* back = b.CreateFPExt(nearest, value->getType());
  auto magnitude = [&](Value* v) { return b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, v); };
  Value* went_up = b.CreateFCmpOGT(magnitude(back), magnitude(value));
  Value* towards_zero = b.CreateSub(l.bits(nearest), b.CreateZExt(went_up, l.i32));
  Value* inexact = b.CreateZExt(b.CreateFCmpUNE(back, value), l.i32);
  return l.number(b.CreateOr(towards_zero, inexact));
}

Value* float_to_small(llvm::IRBuilder<>& b, Value* value, DType dtype) {
  const int lanes = lanes_of(value);
  const Lanes l{b, with_lanes(b.getFloatTy(), lanes), with_lanes(b.getInt32Ty(), lanes),
                with_lanes(b.getInt8Ty(), lanes)};
  const SmallFloat& format = small_float(dtype);
  Value* raw = l.bits(value);
  if (dtype == DType::kF8E8M0FNU) return b.CreateTrunc(exponent_of(l, raw), l.i8);
  Value* magnitude = b.CreateAnd(raw, l.integer(kMagnitude));
  Value* code = magnitude_code(l, magnitude, format);
  Value* sign = sign_code(l, raw, format);
  Value* is_nan = b.CreateICmpUGT(magnitude, l.integer(kInfinity));
  if (format.signed_special) {
    code = b.CreateXor(b.CreateSelect(is_nan, l.integer(format.nan), code), sign);
  } else {
    Value* has_sign = b.CreateICmpNE(code, l.integer(0));
    code = b.CreateOr(code, b.CreateSelect(has_sign, sign, l.integer(0)));
    code = b.CreateSelect(is_nan, l.integer(format.nan), code);
  }
  return b.CreateTrunc(code, l.i8);
}

Value* small_to_float(llvm::IRBuilder<>& b, Value* code, DType dtype) {
  const int lanes = lanes_of(code);
  const Lanes l{b, with_lanes(b.getFloatTy(), lanes), with_lanes(b.getInt32Ty(), lanes), nullptr};
  const SmallFloat& format = small_float(dtype);
  Value* wide = b.CreateZExt(code, l.i32);
  if (dtype == DType::kF8E8M0FNU) {
    Value* is_least = b.CreateICmpEQ(wide, l.integer(0));
    Value* power =
        b.CreateSelect(is_least, l.integer(1U << (kMantissaBits - 1)), b.CreateShl(wide, kMantissaBits));
    return l.number(b.CreateSelect(b.CreateICmpEQ(wide, l.integer(format.nan)), l.integer(kQuietNan), power));
  }
  // Moving the fields into place and multiplying by a power of two corrects the exponent's bias, denormals
  // too.
  const int place = format.exponent_bits + format.mantissa_bits;
  Value* magnitude = b.CreateAnd(wide, l.integer((1U << place) - 1));
  Value* fields = b.CreateShl(magnitude, static_cast<uint64_t>(kMantissaBits - format.mantissa_bits));
  const double rebias = std::ldexp(1.0, kBias - format.bias);
  Value* result = l.bits(b.CreateFMul(l.number(fields), llvm::ConstantFP::get(l.f32, rebias)));
  if (format.signed_special && format.overflow != format.largest) {
    const bool has_infinity = format.overflow != format.nan;
    Value* is_nan = b.CreateICmpUGT(magnitude, l.integer(has_infinity ? format.overflow : format.largest));
    if (has_infinity)
      result =
          b.CreateSelect(b.CreateICmpEQ(magnitude, l.integer(format.overflow)), l.integer(kInfinity), result);
    result = b.CreateSelect(is_nan, l.integer(kQuietNan), result);
  }
  Value* sign = b.CreateShl(b.CreateAnd(wide, l.integer(1U << place)), static_cast<uint64_t>(31 - place));
  result = b.CreateOr(result, sign);
  if (!format.signed_special)
    result = b.CreateSelect(b.CreateICmpEQ(wide, l.integer(format.nan)), l.integer(kQuietNan), result);
  return l.number(result);
}

}  // namespace gantry
