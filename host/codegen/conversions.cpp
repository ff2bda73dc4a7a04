#include "host/codegen/conversions.h"

#include <cmath>
#include <vector>

#include "host/codegen/small_float_code.h"
#include "host/codegen/value_types.h"

namespace gantry {

using llvm::Value;

namespace {

bool is_narrow_float(DType t) {
  return is_float(t) && t != DType::kF32 && t != DType::kF64;
}
bool is_narrow_integer(DType t) {
  return bit_width(t) < 8 && !is_float(t);
}
/// A narrow float whose numbers go far beyond 2^24, from where on f32 has not every integer.
bool has_range_of_f32(DType t) {
  return t == DType::kBF16 || t == DType::kF8E8M0FNU;
}
/// Integers of 64 bits so that f64 has each, and rounding that to f32 or less is as if it were rounded once:
/// beyond 2^53 the last 11 bits are rounded to odd.
Value* round_late_bits(llvm::IRBuilder<>& b, Value* value, bool is_signed) {
  constexpr uint64_t kLate = 0x7ff, kExact = uint64_t{1} << 53;
  auto integer = [&](uint64_t v) { return llvm::ConstantInt::get(value->getType(), v); };
  Value* late = b.CreateAnd(value, integer(kLate));
  Value* last = b.CreateSelect(b.CreateICmpNE(late, integer(0)), integer(kLate + 1), integer(0));
  Value* odd = b.CreateOr(b.CreateXor(value, late), last);
  Value* is_exact = is_signed ? b.CreateICmpULE(b.CreateAdd(value, integer(kExact)), integer(2 * kExact))
                              : b.CreateICmpULE(value, integer(kExact));
  return b.CreateSelect(is_exact, value, odd);
}

/// What llvm.fptosi.sat and llvm.fptoui.sat make of f32 or f64 vectors, of operations that CPUs have on
/// vectors.
Value* saturated(llvm::IRBuilder<>& b, Value* value, llvm::Type* type, bool is_signed) {
  const unsigned bits = type->getScalarSizeInBits();
  llvm::Type* from = value->getType();
  const double least = is_signed ? -std::ldexp(1, static_cast<int>(bits) - 1) : 0;
  const double beyond = std::ldexp(1, static_cast<int>(bits) - (is_signed ? 1 : 0));
  Value *low = llvm::ConstantFP::get(from, least), *zero = llvm::Constant::getNullValue(from);
  if (bits < 32) {  // all of them are floats: NaN is not above the least, which is 0 of unsigned ones
    if (is_signed) value = b.CreateSelect(b.CreateFCmpORD(value, value), value, zero);
    value = b.CreateSelect(b.CreateFCmpOGT(value, low), value, low);
    Value* high = llvm::ConstantFP::get(from, beyond - 1);
    value = b.CreateSelect(b.CreateFCmpOLT(value, high), value, high);
    return b.CreateTrunc(b.CreateFPToSI(value, type->getWithNewBitWidth(32)), type);
  }
  const auto extreme = [&](const llvm::APInt& v) { return llvm::ConstantInt::get(type, v); };
  Value* high = llvm::ConstantFP::get(from, beyond);
  Value* inside = b.CreateAnd(b.CreateFCmpOGE(value, low), b.CreateFCmpOLT(value, high));
  Value* taken = b.CreateSelect(inside, value, zero);
  Value* whole = is_signed ? b.CreateFPToSI(taken, type) : b.CreateFPToUI(taken, type);
  whole = b.CreateSelect(
      b.CreateFCmpOLT(value, low),
      extreme(is_signed ? llvm::APInt::getSignedMinValue(bits) : llvm::APInt::getMinValue(bits)), whole);
  return b.CreateSelect(
      b.CreateFCmpOGE(value, high),
      extreme(is_signed ? llvm::APInt::getSignedMaxValue(bits) : llvm::APInt::getMaxValue(bits)), whole);
}

}  // namespace

Conversions::Conversions(llvm::IRBuilder<>& builder, const CpuInstructions& instructions, bool gpu)
    : b_(builder), instructions_(instructions), gpu_(gpu) {}

bool Conversions::was(Value* value, DType dtype) const {
  auto known = rounded_.find(value);
  return known != rounded_.end() && known->second.first == dtype;
}

Value* Conversions::to_integer(Value* value, DType from, DType to) {
  llvm::Type* type = register_type(b_.getContext(), {to, lanes_of(value)});
  const bool is_signed = is_signed_int(to);
  if (is_float(from) && is_narrow_integer(to)) {
    value = to_integer(value, from, DType::kI32);
    from = DType::kI32;
  }
  if (is_float(from)) {
    if (lanes_of(value) > 1 && !instructions_.saturating_conversions)
      return saturated(b_, value, type, is_signed);
    const auto id = is_signed ? llvm::Intrinsic::fptosi_sat : llvm::Intrinsic::fptoui_sat;
    return b_.CreateIntrinsic(id, {type, value->getType()}, {value});
  }
  value = is_signed_int(from) ? b_.CreateSExtOrTrunc(value, type) : b_.CreateZExtOrTrunc(value, type);
  if (!is_narrow_integer(to)) return value;
  const auto unused = type->getScalarSizeInBits() - static_cast<unsigned>(bit_width(to));
  Value* high = b_.CreateShl(value, unused);
  return is_signed ? b_.CreateAShr(high, unused) : b_.CreateLShr(high, unused);
}

Value* Conversions::cast(Value* value, DType from, DType to) {
  if (from == to && !is_narrow_float(to)) return value;
  if (to == DType::kBool) {
    Value* zero = llvm::Constant::getNullValue(value->getType());
    return is_float(from) ? b_.CreateFCmpUNE(value, zero) : b_.CreateICmpNE(value, zero);
  }
  if (!is_float(to)) return to_integer(value, from, to);
  if (!is_float(from)) {
    // f32, by way of which they would become narrower floats, does not have every integer of so many bits.
    const DType exact = has_range_of_f32(to) && bit_width(from) > 24 ? DType::kF64 : to;
    const bool in_steps = lanes_of(value) > 1 && !instructions_.long_conversions;
    const bool by_f64 = exact != to || (to == DType::kF32 && in_steps);
    const bool is_long = value->getType()->getScalarSizeInBits() == 64, is_signed = is_signed_int(from);
    if (by_f64 && is_long) value = round_late_bits(b_, value, is_signed);
    llvm::Type* whole = register_type(b_.getContext(), {exact, lanes_of(value)});
    value = is_signed ? b_.CreateSIToFP(value, whole) : b_.CreateUIToFP(value, whole);
    from = exact;
  }
  llvm::Type* type = register_type(b_.getContext(), {to, lanes_of(value)});
  if (from == DType::kF64 && is_narrow_float(to)) {
    value = round_to_odd(b_, value);
  } else if (value->getType() != type) {
    value = b_.CreateFPCast(value, type);
  }
  return is_narrow_float(to) ? from_storage(to_storage(value, to), to) : value;
}

Value* Conversions::to_storage(Value* value, DType dtype) {
  if (dtype == DType::kBool) return b_.CreateZExt(value, with_lanes(b_.getInt8Ty(), lanes_of(value)));
  if (!is_narrow_float(dtype)) return value;
  auto known = rounded_.find(value);  // what was one already
  if (known != rounded_.end() && known->second.first == dtype) return known->second.second;
  if (is_small_float(dtype)) return float_to_small(b_, value, dtype);
  return dtype == DType::kF16 ? float_to_half(value) : float_to_bf16(value);
}

Value* Conversions::from_storage(Value* raw, DType dtype) {
  if (is_small_float(dtype)) {
    Value* result = small_to_float(b_, raw, dtype);
    rounded_[result] = {dtype, raw};
    return result;
  }
  const int lanes = lanes_of(raw);
  switch (dtype) {
    case DType::kBool:
      return b_.CreateICmpNE(raw, llvm::Constant::getNullValue(raw->getType()));
    case DType::kF16: {
      Value* result = half_to_float(raw);
      rounded_[result] = {dtype, raw};
      return result;
    }
    case DType::kBF16: {
      Value* wide = b_.CreateShl(b_.CreateZExt(raw, with_lanes(b_.getInt32Ty(), lanes)), 16);
      Value* result = b_.CreateBitCast(wide, with_lanes(b_.getFloatTy(), lanes));
      rounded_[result] = {dtype, raw};
      return result;
    }
    default:
      return raw;
  }
}

Value* Conversions::half_to_float(Value* bits) {
  const int lanes = lanes_of(bits);
  llvm::Type *f32 = with_lanes(b_.getFloatTy(), lanes), *i32 = with_lanes(b_.getInt32Ty(), lanes);
  if (instructions_.half_conversions)
    return b_.CreateFPExt(b_.CreateBitCast(bits, with_lanes(b_.getHalfTy(), lanes)), f32);
  // Moving the fields into place and multiplying by 2^(127-15) corrects the exponent's bias, denormals too;
  // what was infinite or NaN gets the largest exponent.
  auto integer = [&](uint32_t v) { return llvm::ConstantInt::get(i32, v); };
  Value* wide = b_.CreateZExt(bits, i32);
  Value* magnitude = b_.CreateShl(b_.CreateAnd(wide, integer(0x7fff)), 13);
  Value* scaled = b_.CreateFMul(b_.CreateBitCast(magnitude, f32), llvm::ConstantFP::get(f32, 0x1p112));
  Value* special = b_.CreateICmpUGE(magnitude, integer(0x7c00u << 13));
  Value* result =
      b_.CreateSelect(special, b_.CreateOr(magnitude, integer(0x7f800000u)), b_.CreateBitCast(scaled, i32));
  Value* sign = b_.CreateShl(b_.CreateAnd(wide, integer(0x8000)), 16);
  return b_.CreateBitCast(b_.CreateOr(result, sign), f32);
}

Value* Conversions::float_to_half(Value* value) {
  const int lanes = lanes_of(value);
  llvm::Type *f32 = with_lanes(b_.getFloatTy(), lanes), *i32 = with_lanes(b_.getInt32Ty(), lanes),
             *i16 = with_lanes(b_.getInt16Ty(), lanes);
  value = b_.CreateFPCast(value, f32);
  if (instructions_.half_conversions)
    return b_.CreateBitCast(b_.CreateFPTrunc(value, with_lanes(b_.getHalfTy(), lanes)), i16);
  auto integer = [&](uint32_t v) { return llvm::ConstantInt::get(i32, v); };
  Value* raw = b_.CreateBitCast(value, i32);
  Value* magnitude = b_.CreateAnd(raw, integer(0x7fffffffu));
  Value* sign = b_.CreateLShr(b_.CreateAnd(raw, integer(0x80000000u)), 16);
  // Normal results: rebias, and round to nearest even on the 13 bits that fall off; overflow becomes
  // infinity.
  Value* odd = b_.CreateAnd(b_.CreateLShr(magnitude, 13), integer(1));
  Value* rounded =
      b_.CreateAdd(b_.CreateAdd(magnitude, integer((15u - 127u) << 23)), b_.CreateAdd(odd, integer(0xfff)));
  Value* normal =
      b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, b_.CreateLShr(rounded, 13), integer(0x7c00));
  // Denormal results: adding 1/2 makes the hardware round at the last bit of a half's denormals.
  Value* half = llvm::ConstantFP::get(f32, 0.5);
  Value* aligned = b_.CreateBitCast(b_.CreateFAdd(b_.CreateBitCast(magnitude, f32), half), i32);
  Value* denormal = b_.CreateSub(aligned, integer(0x3f000000u));
  Value* result = b_.CreateSelect(b_.CreateICmpULT(magnitude, integer(113u << 23)), denormal, normal);
  // Beyond the range, and NaN.
  result = b_.CreateSelect(b_.CreateICmpUGE(magnitude, integer(0x47800000u)), integer(0x7c00), result);
  result = b_.CreateSelect(b_.CreateICmpUGT(magnitude, integer(0x7f800000u)), integer(0x7e00), result);
  return b_.CreateTrunc(b_.CreateOr(result, sign), i16);
}

Value* Conversions::truncate_to_bf16(Value* value) {
  const int lanes = lanes_of(value);
  llvm::Type *f32 = with_lanes(b_.getFloatTy(), lanes), *i32 = with_lanes(b_.getInt32Ty(), lanes);
  Value* cleared = b_.CreateAnd(b_.CreateBitCast(value, i32), llvm::ConstantInt::get(i32, 0xffff0000u));
  Value* result = b_.CreateBitCast(cleared, f32);
  if (lanes == 1) {
    Value* high = b_.CreateLShr(b_.CreateBitCast(value, i32), 16);
    rounded_[result] = {DType::kBF16, b_.CreateTrunc(high, b_.getInt16Ty())};
    return result;
  }
  // The upper halves by one permutation, which shifting and narrowing does not become.
  std::vector<int> upper;
  for (int lane = 0; lane < lanes; ++lane) upper.push_back(2 * lane + 1);
  Value* halves = b_.CreateBitCast(value, with_lanes(b_.getInt16Ty(), 2 * lanes));
  rounded_[result] = {DType::kBF16, b_.CreateShuffleVector(halves, upper)};
  return result;
}

Value* Conversions::float_to_bf16(Value* value) {
  const int lanes = lanes_of(value);
  llvm::Type *f32 = with_lanes(b_.getFloatTy(), lanes), *i32 = with_lanes(b_.getInt32Ty(), lanes);
  value = b_.CreateFPCast(value, f32);
  const bool has_instruction = instructions_.bf16_rounding && (gpu_ || lanes >= 4);
  if (has_instruction) {
    Value* rounded = b_.CreateFPTrunc(value, with_lanes(b_.getBFloatTy(), lanes));
    return b_.CreateBitCast(rounded, with_lanes(b_.getInt16Ty(), lanes));
  }
  auto integer = [&](uint32_t v) { return llvm::ConstantInt::get(i32, v); };
  Value* raw = b_.CreateBitCast(value, i32);
  Value* high = b_.CreateLShr(raw, 16);
  Value* rounding = b_.CreateAdd(b_.CreateAnd(high, integer(1)), integer(0x7fff));
  Value* rounded = b_.CreateLShr(b_.CreateAdd(raw, rounding), 16);
  Value* nan = b_.CreateOr(high, integer(0x40));  // quiet; rounding could make it infinite
  Value* result = b_.CreateSelect(b_.CreateFCmpUNO(value, value), nan, rounded);
  return b_.CreateTrunc(result, with_lanes(b_.getInt16Ty(), lanes));
}

}  // namespace gantry
