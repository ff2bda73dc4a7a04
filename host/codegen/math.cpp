// What the math functions share: range-safe helpers, powers, and the choice by function.
#include "host/codegen/math.h"

#include <llvm/IR/Module.h>
#include <llvm/TargetParser/Triple.h>

#include <cmath>

#include "host/support/error.h"

namespace gantry {

using llvm::Value;

llvm::Type* MathBuilder::int_type(Value* x) {
  llvm::Type* scalar = b_.getIntNTy(is_wide(x) ? 64 : 32);
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(x->getType());
  return vector ? llvm::FixedVectorType::get(scalar, vector->getNumElements()) : scalar;
}

Value* MathBuilder::fma(Value* x, Value* y, Value* z) {
  if (has_fma_) return b_.CreateIntrinsic(llvm::Intrinsic::fma, {x->getType()}, {x, y, z});
  return b_.CreateFAdd(b_.CreateFMul(x, y), z);
}

Value* MathBuilder::polynomial(Value* x, std::initializer_list<double> coefficients) {
  const double* c = coefficients.end();
  Value* sum = constant(x, *--c);
  while (c != coefficients.begin()) sum = fma(sum, x, constant(x, *--c));
  return sum;
}

Value* MathBuilder::odd_polynomial(Value* x, Value* z, std::initializer_list<double> coefficients) {
  return fma(b_.CreateFMul(x, z), polynomial(z, coefficients), x);
}

Value* MathBuilder::scale_by_power(Value* value, Value* n) {
  // In two steps, because 2^n itself may lie outside the range of normal numbers where the product does not.
  const int mantissa = is_wide(value) ? 52 : 23, bias = is_wide(value) ? 1023 : 127;
  Value* half = b_.CreateAShr(n, integer(value, 1));
  Value* rest = b_.CreateSub(n, half);
  auto power = [&](Value* k) {
    Value* biased = b_.CreateShl(b_.CreateAdd(k, integer(value, bias)), integer(value, mantissa));
    return b_.CreateBitCast(biased, value->getType());
  };
  return b_.CreateFMul(b_.CreateFMul(value, power(half)), power(rest));
}

Value* MathBuilder::clamp(Value* x, double low, double high) {
  Value *lo = constant(x, low), *hi = constant(x, high);
  if (has_maximum_instruction()) {
    Value* above = b_.CreateBinaryIntrinsic(llvm::Intrinsic::maximum, x, lo);
    return b_.CreateBinaryIntrinsic(llvm::Intrinsic::minimum, above, hi);
  }
  // The constant is chosen only where a comparison is true, which it never is for NaN.
  Value* above = b_.CreateSelect(b_.CreateFCmpOGT(lo, x), lo, x);
  return b_.CreateSelect(b_.CreateFCmpOLT(hi, above), hi, above);
}

Value* MathBuilder::widen(Value* x) {
  llvm::Type* type = b_.getDoubleTy();
  if (auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(x->getType())) {
    type = llvm::FixedVectorType::get(type, vector->getNumElements());
  }
  return b_.CreateFPExt(x, type);
}

Value* MathBuilder::narrow(Value* x) {
  llvm::Type* type = b_.getFloatTy();
  if (auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(x->getType())) {
    type = llvm::FixedVectorType::get(type, vector->getNumElements());
  }
  return b_.CreateFPTrunc(x, type);
}

Value* MathBuilder::unary(MathFn fn, Value* x) {
  using llvm::Intrinsic::ID;
  auto intrinsic = [&](ID id) { return b_.CreateUnaryIntrinsic(id, x); };
  switch (fn) {
    case MathFn::kExp:
      return exp(x);
    case MathFn::kLog:
      return log(x);
    case MathFn::kTanh:
      return tanh(x);
    case MathFn::kErf:
      return erf(x);
    case MathFn::kSigmoid:
      return sigmoid(x);
    case MathFn::kSqrt:
      return sqrt(x);
    case MathFn::kRsqrt:
      return b_.CreateFDiv(constant(x, 1), sqrt(x));
    case MathFn::kFloor:
      return intrinsic(llvm::Intrinsic::floor);
    case MathFn::kCeil:
      return intrinsic(llvm::Intrinsic::ceil);
    case MathFn::kRound:
      return intrinsic(llvm::Intrinsic::roundeven);
    case MathFn::kTrunc:
      return intrinsic(llvm::Intrinsic::trunc);
    case MathFn::kAbs:
      return abs(x);
    default:
      break;
  }
  return is_wide(x) ? wide_unary(fn, x, false) : narrow(wide_unary(fn, widen(x), true));
}

Value* MathBuilder::wide_unary(MathFn fn, Value* x, bool from_narrow) {
  switch (fn) {
    case MathFn::kSin:
      return sin_cos(x, from_narrow).sin;
    case MathFn::kCos:
      return sin_cos(x, from_narrow).cos;
    case MathFn::kTan: {
      SinCos both = sin_cos(x, from_narrow);
      return b_.CreateFDiv(both.sin, both.cos);
    }
    case MathFn::kAsin:
      return asin(x);
    case MathFn::kAcos:
      return acos(x);
    case MathFn::kAtan:
      return atan(x);
    case MathFn::kSinh:
      return sinh_cosh(x, true);
    case MathFn::kCosh:
      return sinh_cosh(x, false);
    case MathFn::kAsinh:
      return asinh(x);
    case MathFn::kAcosh:
      return acosh(x);
    case MathFn::kAtanh:
      return atanh(x);
    default:
      internal_error("code generation: function {} of one argument is not known", static_cast<int>(fn));
  }
}

bool MathBuilder::has_maximum_instruction() const {
  const llvm::Module* module = b_.GetInsertBlock()->getModule();
  return llvm::Triple(module->getTargetTriple()).isAArch64();
}

Value* MathBuilder::min_max(bool is_max, Value* x, Value* y, MinMaxBy by, Value* number) {
  auto is_constant_number = [](Value* v) {
    auto* c = llvm::dyn_cast<llvm::Constant>(v);
    if (c && c->getType()->isVectorTy()) c = c->getSplatValue();
    auto* f = llvm::dyn_cast_or_null<llvm::ConstantFP>(c);
    return f && !f->isNaN();
  };
  if (x == number || (number == nullptr && is_constant_number(x))) std::swap(x, y);
  if (number == nullptr && is_constant_number(y)) {
    if (has_maximum_instruction())
      return b_.CreateBinaryIntrinsic(is_max ? llvm::Intrinsic::maximum : llvm::Intrinsic::minimum, x, y);
    // A false comparison, and so a NaN, chooses x: one instruction on x86.
    return b_.CreateSelect(is_max ? b_.CreateFCmpOGT(y, x) : b_.CreateFCmpOLT(y, x), y, x);
  }
  if (by == MinMaxBy::kIntrinsic || (by == MinMaxBy::kFewestInstructions && y != number)) {
    return b_.CreateBinaryIntrinsic(is_max ? llvm::Intrinsic::maxnum : llvm::Intrinsic::minnum, x, y);
  }
  // A false comparison, and so a NaN in x, chooses y: one instruction on x86.
  Value* chosen = b_.CreateSelect(is_max ? b_.CreateFCmpOGT(x, y) : b_.CreateFCmpOLT(x, y), x, y);
  return y == number ? chosen : b_.CreateSelect(b_.CreateFCmpUNO(y, y), x, chosen);
}

Value* MathBuilder::pow(Value* x, Value* y) {
  return is_wide(x) ? pow_wide(x, y) : narrow(pow_wide(widen(x), widen(y)));
}

Value* MathBuilder::pow_wide(Value* x, Value* y) {
  Value *zero = constant(x, 0), *one = constant(x, 1), *nan = constant(x, std::nan(""));
  Value* magnitude = exp(b_.CreateFMul(y, log(abs(x))));
  // Negative bases: NaN unless y is an integer, the sign of x if that is odd.
  Value* half = b_.CreateFMul(y, constant(x, 0.5));
  auto is_integer = [&](Value* v) {
    return b_.CreateFCmpOEQ(b_.CreateUnaryIntrinsic(llvm::Intrinsic::trunc, v), v);
  };
  Value* integral = is_integer(y);
  Value* odd = b_.CreateAnd(integral, b_.CreateNot(is_integer(half)));
  Value* result = b_.CreateSelect(odd, with_sign_of(magnitude, x), magnitude);
  Value* invalid = b_.CreateAnd(b_.CreateFCmpOLT(x, zero), b_.CreateNot(integral));
  Value* infinite_base = b_.CreateFCmpOEQ(abs(x), constant(x, INFINITY));
  result = b_.CreateSelect(b_.CreateAnd(invalid, b_.CreateNot(infinite_base)), nan, result);
  // 1^y and x^0 are 1 even for NaN; (-1)^(+-inf) is 1 too.
  Value* infinite_y = b_.CreateFCmpOEQ(abs(y), constant(x, INFINITY));
  Value* unit = b_.CreateOr(b_.CreateFCmpOEQ(x, one), b_.CreateFCmpOEQ(y, zero));
  unit = b_.CreateOr(unit, b_.CreateAnd(b_.CreateFCmpOEQ(abs(x), one), infinite_y));
  return b_.CreateSelect(unit, one, result);
}

Value* MathBuilder::pow_constant(Value* x, double y) {
  const double size = std::abs(y), twice = size * 2;
  if (y == 0) return constant(x, 1);
  if (twice > 64 || twice != std::floor(twice)) return pow(x, constant(x, y));
  // In f32 the roundings of many products add up, and where a product leaves the range its reciprocal may
  // still be a denormal number.
  const bool in_wide = !is_wide(x) && (twice > 9 || y < -1);
  Value* base = in_wide ? widen(x) : x;
  Value* result = multiplied_out(base, size);
  if (y < 0) {
    Value* inverse = b_.CreateFDiv(constant(base, 1), result);
    result = is_wide(x) && y < -1 ? or_power_of_inverse(inverse, result, x, size) : inverse;
  }
  return in_wide ? narrow(result) : result;
}

Value* MathBuilder::or_power_of_inverse(Value* inverse, Value* product, Value* x, double y) {
  // All factors are below 1: what an early product loses as a denormal number, the next make smaller still.
  Value* of_inverse = multiplied_out(b_.CreateFDiv(constant(x, 1), x), y);
  Value* has_left = b_.CreateFCmpOEQ(abs(product), constant(x, INFINITY));
  return b_.CreateSelect(has_left, of_inverse, inverse);
}

Value* MathBuilder::multiplied_out(Value* x, double y) {
  Value* result = nullptr;
  Value* square = x;
  for (int n = static_cast<int>(y); n > 0; n >>= 1) {
    if (n & 1) result = result ? b_.CreateFMul(result, square) : square;
    if (n > 1) square = b_.CreateFMul(square, square);
  }
  if (static_cast<int>(y * 2) & 1) {
    // pow(-0, 0.5) is +0 and pow(-inf, 0.5) is +inf, unlike sqrt.
    Value* root = sqrt(b_.CreateFAdd(x, constant(x, 0)));
    root = b_.CreateSelect(b_.CreateFCmpOEQ(x, constant(x, -INFINITY)), constant(x, INFINITY), root);
    result = result ? b_.CreateFMul(abs(result), root) : root;
  }
  return result;
}

Value* MathBuilder::integer_pow(Value* x, Value* y, bool is_signed) {
  llvm::Type* type = x->getType();
  auto scalar = [&](Value* base, Value* exponent) -> Value* {
    llvm::Type* narrow = base->getType();
    auto widen64 = [&](Value* v) {
      return is_signed ? b_.CreateSExt(v, b_.getInt64Ty()) : b_.CreateZExt(v, b_.getInt64Ty());
    };
    Value* result = b_.CreateCall(integer_pow_function(), {widen64(base), widen64(exponent)});
    return b_.CreateTrunc(result, narrow);
  };
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
  if (!vector) return scalar(x, y);
  Value* result = llvm::PoisonValue::get(vector);
  for (unsigned lane = 0; lane < vector->getNumElements(); ++lane) {
    Value* r = scalar(b_.CreateExtractElement(x, lane), b_.CreateExtractElement(y, lane));
    result = b_.CreateInsertElement(result, r, lane);
  }
  return result;
}

// result = 1; while (n > 0) { if (n is odd) result *= base; base *= base; n >>= 1; }
llvm::Function* MathBuilder::integer_pow_function() {
  llvm::Module* module = b_.GetInsertBlock()->getModule();
  constexpr char kName[] = "gantry.integer_pow";
  if (llvm::Function* known = module->getFunction(kName)) return known;
  llvm::IRBuilder<>::InsertPointGuard guard(b_);
  llvm::Type* i64 = b_.getInt64Ty();
  auto* function = llvm::Function::Create(llvm::FunctionType::get(i64, {i64, i64}, false),
                                          llvm::Function::InternalLinkage, kName, module);
  auto block = [&](const char* name) { return llvm::BasicBlock::Create(b_.getContext(), name, function); };
  llvm::BasicBlock *entry = block("entry"), *loop = block("loop"), *step = block("step"),
                   *done = block("done");
  b_.SetInsertPoint(entry);
  Value *x = function->getArg(0), *y = function->getArg(1);
  Value *zero = b_.getInt64(0), *one = b_.getInt64(1), *minus_one = b_.getInt64(~uint64_t{0});
  // Negative powers: 1 / x^|y| towards zero, which only 1 and -1 keep from being 0.
  Value* negative = b_.CreateICmpSLT(y, zero);
  Value* is_unit = b_.CreateOr(b_.CreateICmpEQ(x, one), b_.CreateICmpEQ(x, minus_one));
  Value* base0 = b_.CreateSelect(b_.CreateAnd(negative, b_.CreateNot(is_unit)), zero, x);
  Value* n0 = b_.CreateSelect(negative, b_.CreateNeg(y), y);
  b_.CreateBr(loop);

  b_.SetInsertPoint(loop);
  llvm::PHINode *n = b_.CreatePHI(i64, 2), *base = b_.CreatePHI(i64, 2), *result = b_.CreatePHI(i64, 2);
  b_.CreateCondBr(b_.CreateICmpEQ(n, zero), done, step);
  b_.SetInsertPoint(step);
  Value* odd = b_.CreateTrunc(n, b_.getInt1Ty());
  Value* next = b_.CreateSelect(odd, b_.CreateMul(result, base), result);
  Value* square = b_.CreateMul(base, base);
  Value* shifted = b_.CreateLShr(n, one);
  b_.CreateBr(loop);
  n->addIncoming(n0, entry);
  n->addIncoming(shifted, step);
  base->addIncoming(base0, entry);
  base->addIncoming(square, step);
  result->addIncoming(one, entry);
  result->addIncoming(next, step);
  b_.SetInsertPoint(done);
  b_.CreateRet(result);
  return function;
}

}  // namespace gantry
