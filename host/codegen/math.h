// Math functions as straight-line LLVM IR, for scalars and vectors of f32 and f64: kernels have no libm.
//
// Error bounds against the exact value, for finite results in the normal range (docs/math-functions.md has
// the method of each; tests/codegen/math_test.cpp checks them):
//   f32: exp, log, tanh, erf, sigmoid: 2e-7 relative; all others are computed in f64 and rounded
//   once: 6.1e-8. f64: 1e-12 relative; pow: 1e-12 for |y log x| < 700; sin, cos: 1e-12 absolute.
// Infinities, NaN, signed zeros and overflow follow IEEE 754; exp, log and pow handle denormals too.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <initializer_list>
#include <utility>

#include "host/codegen/cpu_codegen.h"
#include "host/tensor/expr.h"

namespace gantry {

struct OddTable;

/// What a minimum or maximum is made of.
enum class MinMaxBy : uint8_t {
  kIntrinsic,           ///< one instruction, whatever the operands
  kFewestInstructions,  ///< comparisons where they take fewer
  kComparisons,
};

class MathBuilder {
 public:
  /// `has_fma`: the target has fused multiply-add (without it llvm.fma would become a call of libm).
  /// `vector_math`: what it has for vectors of 16 f32; null: nothing.
  MathBuilder(llvm::IRBuilder<>& builder, bool has_fma, const VectorMath* vector_math = nullptr)
      : b_(builder), has_fma_(has_fma), vector_math_(vector_math) {}

  /// A function of one argument, float or double, scalar or vector.
  llvm::Value* unary(MathFn fn, llvm::Value* x);
  llvm::Value* pow(llvm::Value* x, llvm::Value* y);
  /// x to a constant power: multiplications, square roots and a reciprocal where `y` is a small multiple of
  /// 1/2; f32 by way of f64 where these are many or `y` is below -1.
  llvm::Value* pow_constant(llvm::Value* x, double y);
  /// Integers: x^y by squaring, wrapping; 0 for negative y (1 and -1 keep theirs).
  llvm::Value* integer_pow(llvm::Value* x, llvm::Value* y, bool is_signed);
  /// C's fmod, exact.
  llvm::Value* fmod(llvm::Value* x, llvm::Value* y);
  /// x * y + z, fused where the target can.
  llvm::Value* fma(llvm::Value* x, llvm::Value* y, llvm::Value* z);
  /// minnum / maxnum: the other operand if one is NaN, but NaN beside a constant (host/tensor/expr.h).
  /// `number`: the operand that holds an extremum so far and never is NaN, if one does.
  llvm::Value* min_max(bool is_max, llvm::Value* x, llvm::Value* y, MinMaxBy by,
                       llvm::Value* number = nullptr);

 private:
  /// The target has a minimum and a maximum that are NaN where an operand is.
  bool has_maximum_instruction() const;
  llvm::Value* exp(llvm::Value* x);
  llvm::Value* log(llvm::Value* x);
  llvm::Value* log1p(llvm::Value* x);
  llvm::Value* tanh(llvm::Value* x);
  llvm::Value* erf(llvm::Value* x);
  llvm::Value* sigmoid(llvm::Value* x);
  /// e^x = 2^n e^r: `shifted` holds n in its low bits; `p` is (e^r - 1 - r) / r^2.
  struct ExpParts {
    llvm::Value *shifted, *r, *p;
  };
  ExpParts exp_parts(llvm::Value* x);
  llvm::Value* exp_of_remainder(const ExpParts& parts);
  llvm::Value* exp_of_parts(const ExpParts& parts);
  // f32 only:
  llvm::Value* narrow_tanh(llvm::Value* x);
  llvm::Value* narrow_erf(llvm::Value* x);
  llvm::Value* narrow_sigmoid(llvm::Value* x);
  llvm::Value* expm1_in_range(llvm::Value* x);
  llvm::Value* power_of_two(llvm::Value* shifted);
  /// 16 lanes of f32 on a target that looks up tables held in registers.
  bool has_tables(llvm::Value* x) const;
  /// sign(x) a Q(a), a = min(|x|, limit), where Q(a) = f(a) / a is a polynomial on each of 16 intervals.
  llvm::Value* odd_by_table(llvm::Value* x, const OddTable& table);
  /// Two factors of e^-x, for |x| < 87.34: a power of 2^(1/16), and one that is near 1.
  std::pair<llvm::Value*, llvm::Value*> negative_exp_by_table(llvm::Value* x);
  llvm::Value* reciprocal(llvm::Value* x);
  // f64 only:
  /// `from_narrow`: x is a number that f32 holds.
  llvm::Value* wide_unary(MathFn fn, llvm::Value* x, bool from_narrow);
  struct SinCos {
    llvm::Value *sin, *cos;
  };
  SinCos sin_cos(llvm::Value* x, bool from_narrow);
  /// x = n pi/2 + r: n a whole number, as f64, that may lack multiples of 4; |r| <= pi/4.
  struct Quadrant {
    llvm::Value *n, *r;
  };
  Quadrant quadrant(llvm::Value* x, bool from_narrow);
  Quadrant near_quadrant(llvm::Value* x);
  Quadrant far_quadrant(llvm::Value* x, bool from_narrow);
  llvm::Function* quadrant_function(llvm::Type* type, bool from_narrow);
  llvm::Value* asin_core(llvm::Value* x);
  llvm::Value* asin(llvm::Value* x);
  llvm::Value* acos(llvm::Value* x);
  llvm::Value* atan(llvm::Value* x);
  llvm::Value* sinh_cosh(llvm::Value* x, bool is_sinh);
  llvm::Value* asinh(llvm::Value* x);
  llvm::Value* acosh(llvm::Value* x);
  llvm::Value* atanh(llvm::Value* x);
  llvm::Value* pow_wide(llvm::Value* x, llvm::Value* y);
  /// x to the power of y, a multiple of 1/2 in [1/2, 32], by multiplications and a square root.
  llvm::Value* multiplied_out(llvm::Value* x, double y);
  /// x^-y: `inverse`, which is 1 / `product`, the x^y that was multiplied out; but where that has left the
  /// range, the power of 1 / x, which may still be a denormal number.
  llvm::Value* or_power_of_inverse(llvm::Value* inverse, llvm::Value* product, llvm::Value* x, double y);
  llvm::Value* fmod_scalar(llvm::Value* x, llvm::Value* y);
  /// Of f64; `from_narrow`: of numbers that f32 holds, which takes less.
  llvm::Function* fmod_function(bool from_narrow);
  /// Remainders of a dividend >= divisor > 0, f64, both finite: where f32 holds both, and of any.
  llvm::Value* remainder_in_parts(llvm::Value* dividend, llvm::Value* divisor);
  llvm::Value* remainder_of_integers(llvm::Value* dividend, llvm::Value* divisor);
  llvm::Function* integer_pow_function();

  // Helpers shared by the files.
  static bool is_wide(llvm::Value* x) { return x->getType()->getScalarType()->isDoubleTy(); }
  llvm::Value* constant(llvm::Value* like, double v) { return llvm::ConstantFP::get(like->getType(), v); }
  llvm::Type* int_type(llvm::Value* x);  ///< integers of x's width and lanes
  llvm::Value* bits(llvm::Value* x) { return b_.CreateBitCast(x, int_type(x)); }
  llvm::Value* integer(llvm::Value* like, int64_t v) {
    return llvm::ConstantInt::get(int_type(like), static_cast<uint64_t>(v), true);
  }
  llvm::Value* abs(llvm::Value* x) { return b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x); }
  llvm::Value* sqrt(llvm::Value* x) { return b_.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, x); }
  llvm::Value* with_sign_of(llvm::Value* magnitude, llvm::Value* sign) {
    return b_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, magnitude, sign);
  }
  /// Horner; coefficients from the constant term up.
  llvm::Value* polynomial(llvm::Value* x, std::initializer_list<double> coefficients);
  /// x + x * z * p(z), the odd functions' form, accurate to the last bits of x.
  llvm::Value* odd_polynomial(llvm::Value* x, llvm::Value* z, std::initializer_list<double> coefficients);
  /// Value times 2^n for integers n of any size that occurs; results may be denormal, 0 or infinite.
  llvm::Value* scale_by_power(llvm::Value* value, llvm::Value* n);
  /// x clamped so that NaN stays NaN.
  llvm::Value* clamp(llvm::Value* x, double low, double high);
  llvm::Value* widen(llvm::Value* x);
  llvm::Value* narrow(llvm::Value* x);

  llvm::IRBuilder<>& b_;
  bool has_fma_;
  const VectorMath* vector_math_;
};

}  // namespace gantry
