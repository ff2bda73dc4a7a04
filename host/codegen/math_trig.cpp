// Circular and hyperbolic functions and their inverses, in f64 (f32 calls them and rounds).
// Coefficients: interpolation at Chebyshev nodes of the remainder named beside each, computed to 50 digits.
#include <cmath>

#include "host/codegen/math.h"

namespace gantry {

using llvm::Value;

// x = n pi/2 + r, |r| <= pi/4; the quadrant n mod 4 chooses between sin r and cos r and their signs.
MathBuilder::SinCos MathBuilder::sin_cos(Value* x, bool from_narrow) {
  const Quadrant quadrant = this->quadrant(x, from_narrow);
  Value* n = bits(b_.CreateFAdd(quadrant.n, constant(x, 0x1.8p52)));  // its low bits
  Value* r = quadrant.r;
  Value* z = b_.CreateFMul(r, r);
  Value* s = odd_polynomial(
      r, z,
      {-1.666666666666666667e-1, 8.333333333333331379e-3, -1.984126984126482162e-4, 2.755731921915078158e-6,
       -2.505210616733570639e-8, 1.605852134995498633e-10, -7.586094789672620074e-13});
  Value* p = polynomial(
      z, {4.166666666666666667e-2, -1.38888888888888878e-3, 2.480158730158451114e-5, -2.755731922129808697e-7,
          2.087675575487959641e-9, -1.147045517821690658e-11, 4.745537017319258366e-14});
  Value* c = fma(b_.CreateFMul(z, z), p, fma(z, constant(x, -0.5), constant(x, 1)));
  auto bit_set = [&](Value* v, int64_t mask) {
    return b_.CreateICmpNE(b_.CreateAnd(v, integer(x, mask)), integer(x, 0));
  };
  Value* swap = bit_set(n, 1);
  Value *sine = b_.CreateSelect(swap, c, s), *cosine = b_.CreateSelect(swap, s, c);
  sine = b_.CreateSelect(bit_set(n, 2), b_.CreateFNeg(sine), sine);
  cosine = b_.CreateSelect(bit_set(b_.CreateAdd(n, integer(x, 1)), 2), b_.CreateFNeg(cosine), cosine);
  Value* infinite = b_.CreateFCmpUEQ(abs(x), constant(x, INFINITY));
  Value* nan = constant(x, std::nan(""));
  return {b_.CreateSelect(infinite, nan, sine), b_.CreateSelect(infinite, nan, cosine)};
}

// asin x for |x| <= 1/2: x + x z P(z), z = x^2.
Value* MathBuilder::asin_core(Value* x) {
  return odd_polynomial(
      x, b_.CreateFMul(x, x),
      {1.666666666666666783e-1, 7.499999999998432933e-2, 4.464285714635542978e-2, 3.038194413853124729e-2,
       2.237217294214988787e-2, 1.735239272086997294e-2, 1.39712129735529333e-2, 1.14791774151849059e-2,
       1.032281435018577929e-2, 5.4575067186403583e-3, 1.740087944269402244e-2, -1.485188707124720322e-2,
       2.875785136742156471e-2});
}

// |x| > 1/2: pi/2 - 2 asin(sqrt((1 - |x|) / 2)).
Value* MathBuilder::asin(Value* x) {
  Value* a = abs(x);
  Value* half = constant(x, 0.5);
  Value* is_large = b_.CreateFCmpOGT(a, half);
  Value* complement = sqrt(b_.CreateFMul(b_.CreateFSub(constant(x, 1), a), half));
  Value* core = asin_core(b_.CreateSelect(is_large, complement, a));
  Value* large = b_.CreateFSub(constant(x, M_PI_2), b_.CreateFMul(core, constant(x, 2)));
  return with_sign_of(b_.CreateSelect(is_large, large, core), x);
}

Value* MathBuilder::acos(Value* x) {
  Value* a = abs(x);
  Value* half = constant(x, 0.5);
  Value* is_large = b_.CreateFCmpOGT(a, half);
  Value* complement = sqrt(b_.CreateFMul(b_.CreateFSub(constant(x, 1), a), half));
  Value* core = asin_core(b_.CreateSelect(is_large, complement, x));
  Value* twice = b_.CreateFMul(core, constant(x, 2));
  Value* negative = b_.CreateFCmpOLT(x, constant(x, 0));
  Value* large = b_.CreateSelect(negative, b_.CreateFSub(constant(x, M_PI), twice), twice);
  return b_.CreateSelect(is_large, large, b_.CreateFSub(constant(x, M_PI_2), core));
}

// |x| <= 1: x + x z P(z), z = x^2; else pi/2 - atan(1 / |x|).
Value* MathBuilder::atan(Value* x) {
  Value* a = abs(x);
  Value* is_large = b_.CreateFCmpOGT(a, constant(x, 1));
  Value* t = b_.CreateSelect(is_large, b_.CreateFDiv(constant(x, 1), a), a);
  Value* core = odd_polynomial(
      t, b_.CreateFMul(t, t),
      {-3.333333333333333025e-1, 1.99999999999975322e-1,  -1.428571428538413154e-1, 1.11111110934908281e-1,
       -9.090908590891934225e-2, 7.692298971033216917e-2, -6.666564699289104211e-2, 5.881506877793656067e-2,
       -5.257973334284110807e-2, 4.737749579527778972e-2, -4.260356632601652133e-2, 3.749486812535247112e-2,
       -3.127718906699638479e-2, 2.369673158004862201e-2, -1.553515247541417613e-2, 8.368931178450162136e-3,
       -3.49588597391630952e-3,  1.049603508496851507e-3, -1.999618937790138206e-4, 1.80619546186121522e-5});
  Value* result = b_.CreateSelect(is_large, b_.CreateFSub(constant(x, M_PI_2), core), core);
  return with_sign_of(result, x);
}

// With h = e^(|x|/2): (h^2 -+ h^-2) / 2, which overflows no earlier than the result; |x| < 1 of sinh by
// x + x z P(z), z = x^2.
Value* MathBuilder::sinh_cosh(Value* x, bool is_sinh) {
  Value* a = abs(x);
  Value* half = constant(x, 0.5);
  Value* h = exp(b_.CreateFMul(a, half));
  Value* grows = b_.CreateFMul(b_.CreateFMul(h, half), h);
  Value* decays = b_.CreateFDiv(half, b_.CreateFMul(h, h));
  if (!is_sinh) return b_.CreateFAdd(grows, decays);
  Value* large = b_.CreateFSub(grows, decays);
  Value* small = odd_polynomial(a, b_.CreateFMul(a, a),
                                {1.666666666666666667e-1, 8.333333333333333366e-3, 1.98412698412697732e-4,
                                 2.75573192240403386e-6, 2.505210836405804075e-8, 1.605904839635056164e-10,
                                 7.646625361656657656e-13, 2.844526416989528563e-15});
  return with_sign_of(b_.CreateSelect(b_.CreateFCmpOLT(a, constant(x, 1)), small, large), x);
}

// log(a + sqrt(a^2 + 1)) = log1p(a + a^2 / (1 + sqrt(a^2 + 1))) for a = |x|; log(a) + ln 2 where a^2
// overflows.
Value* MathBuilder::asinh(Value* x) {
  Value* a = abs(x);
  Value* one = constant(x, 1);
  Value* aa = b_.CreateFMul(a, a);
  Value* inner = b_.CreateFAdd(a, b_.CreateFDiv(aa, b_.CreateFAdd(one, sqrt(b_.CreateFAdd(aa, one)))));
  Value* is_huge = b_.CreateFCmpOGT(a, constant(x, 0x1p500));
  Value* huge = b_.CreateFAdd(log(a), constant(x, M_LN2));
  return with_sign_of(b_.CreateSelect(is_huge, huge, log1p(inner)), x);
}

// log(x + sqrt(x^2 - 1)) = log1p(t + sqrt(2t + t^2)) for t = x - 1.
Value* MathBuilder::acosh(Value* x) {
  Value* t = b_.CreateFSub(x, constant(x, 1));
  Value* inner = b_.CreateFAdd(t, sqrt(fma(t, t, b_.CreateFAdd(t, t))));
  Value* is_huge = b_.CreateFCmpOGT(x, constant(x, 0x1p500));
  Value* huge = b_.CreateFAdd(log(x), constant(x, M_LN2));
  Value* result = b_.CreateSelect(is_huge, huge, log1p(inner));
  return b_.CreateSelect(b_.CreateFCmpOLT(x, constant(x, 1)), constant(x, std::nan("")), result);
}

// log1p(2a / (1 - a)) / 2 for a = |x|.
Value* MathBuilder::atanh(Value* x) {
  Value* a = abs(x);
  Value* ratio = b_.CreateFDiv(b_.CreateFAdd(a, a), b_.CreateFSub(constant(x, 1), a));
  return with_sign_of(b_.CreateFMul(log1p(ratio), constant(x, 0.5)), x);
}

}  // namespace gantry
