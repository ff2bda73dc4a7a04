// exp, log, and the functions of networks that are made of them: tanh, erf, sigmoid; f32 and f64.
// Coefficients: interpolation at Chebyshev nodes of the remainder named beside each, computed to 50 digits.
#include <cmath>

#include "host/codegen/math.h"

namespace gantry {

using llvm::Value;

// x = n ln 2 + r with |r| <= ln 2 / 2; e^r = 1 + r + r^2 P(r).
MathBuilder::ExpParts MathBuilder::exp_parts(Value* x) {
  const bool wide = is_wide(x);
  // Adding 1.5 * 2^(mantissa bits) leaves the rounded integer in the low bits.
  Value* magic = constant(x, wide ? 0x1.8p52 : 0x1.8p23);
  Value* shifted = fma(x, constant(x, 1.4426950408889634), magic);
  Value* nf = b_.CreateFSub(shifted, magic);
  // ln 2 in two parts; the product of n with the first is exact even without fma.
  Value* r = fma(nf, constant(x, wide ? -0.6931471803691238 : -0.693359375), x);
  r = fma(nf, constant(x, wide ? -1.908214929270587816e-10 : 2.121944400546905828e-4), r);
  Value* p =
      wide ? polynomial(r, {0.5, 1.666666666666666753e-1, 4.166666666662063858e-2, 8.3333333333297935e-3,
                            1.388888891893916778e-3, 1.98412698643805133e-4, 2.480151864139599358e-5,
                            2.75572664186123037e-6, 2.76213386691429238e-7, 2.51013469283503402e-8})
           : polynomial(r, {0.5, 1.666657338e-1, 4.166655011e-2, 8.363773874e-3, 1.392692661e-3});
  return {shifted, r, p};
}

Value* MathBuilder::exp_of_remainder(const ExpParts& parts) {
  Value *r = parts.r, *one = constant(r, 1);
  if (is_wide(r)) return b_.CreateFAdd(fma(b_.CreateFMul(r, r), parts.p, r), one);
  return fma(fma(parts.p, r, one), r, one);
}

// Results of any size: they may be denormal, 0 or infinite.
Value* MathBuilder::exp_of_parts(const ExpParts& parts) {
  Value* y = exp_of_remainder(parts);
  Value* magic = constant(y, is_wide(y) ? 0x1.8p52 : 0x1.8p23);
  if (has_tables(y)) {  // the instruction does all of it
    Value* nf = b_.CreateFSub(parts.shifted, magic);
    return vector_math_->scale(b_, y, nf);
  }
  return scale_by_power(y, b_.CreateSub(bits(parts.shifted), bits(magic)));
}

Value* MathBuilder::exp(Value* x) {
  const bool wide = is_wide(x);
  return exp_of_parts(exp_parts(clamp(x, wide ? -746 : -104, wide ? 710 : 89)));
}

// x = 2^n m with m in [sqrt(1/2), sqrt(2)); log x = n ln 2 + log m.
Value* MathBuilder::log(Value* x) {
  const bool wide = is_wide(x);
  const int mantissa = wide ? 52 : 23;
  Value* tiny = b_.CreateFCmpOLT(x, constant(x, wide ? 0x1p-1022 : 0x1p-126));
  Value* normal = b_.CreateSelect(tiny, b_.CreateFMul(x, constant(x, wide ? 0x1p52 : 0x1p23)), x);
  // Subtracting the bits of sqrt(1/2) splits exponent and mantissa at the wanted place.
  Value* offset = bits(constant(x, std::sqrt(0.5)));
  Value* shifted = b_.CreateSub(bits(normal), offset);
  Value* n = b_.CreateAShr(shifted, integer(x, mantissa));
  Value* m =
      b_.CreateBitCast(b_.CreateSub(bits(normal), b_.CreateShl(n, integer(x, mantissa))), x->getType());
  n = b_.CreateSub(n, b_.CreateSelect(tiny, integer(x, mantissa), integer(x, 0)));
  Value* nf = nullptr;
  if (wide) {  // few vector units convert 64-bit integers
    Value* magic = constant(x, 0x1.8p52);
    nf = b_.CreateFSub(b_.CreateBitCast(b_.CreateAdd(n, bits(magic)), x->getType()), magic);
  } else {
    nf = b_.CreateSIToFP(n, x->getType());
  }
  Value* f = b_.CreateFSub(m, constant(x, 1));
  Value* result = nullptr;
  if (wide) {
    // log m = 2 s + s z P(z), s = f / (2 + f), z = s^2.
    Value* s = b_.CreateFDiv(f, b_.CreateFAdd(f, constant(x, 2)));
    Value* z = b_.CreateFMul(s, s);
    Value* p = polynomial(z, {6.666666666666666646e-1, 4.000000000000091204e-1, 2.857142857078220772e-1,
                              2.222222239655298081e-1, 1.818179512447675351e-1, 1.538626767288222503e-1,
                              1.326802614042873929e-1, 1.309441666652534408e-1});
    result = fma(b_.CreateFMul(s, z), p, b_.CreateFMul(s, constant(x, 2)));
    result = fma(nf, constant(x, 1.908214929270587816e-10), result);
    result = fma(nf, constant(x, 0.6931471803691238), result);
  } else {
    // log(1 + f) = f - f^2 / 2 + f^3 P(f).
    Value* p =
        polynomial(f, {3.333333118e-1, -2.499999696e-1, 2.000071575e-1, -1.666780232e-1, 1.424905765e-1,
                       -1.242568733e-1, 1.168541992e-1, -1.147973385e-1, 6.971611471e-2});
    Value* ff = b_.CreateFMul(f, f);
    result = b_.CreateFMul(b_.CreateFMul(ff, f), p);
    result = fma(nf, constant(x, -2.121944400546905828e-4), result);
    result = b_.CreateFAdd(fma(ff, constant(x, -0.5), result), f);
    result = fma(nf, constant(x, 0.693359375), result);
  }
  Value *zero = constant(x, 0), *infinity = constant(x, INFINITY);
  result = b_.CreateSelect(b_.CreateFCmpOLT(x, infinity), result, x);  // inf and NaN stay
  result = b_.CreateSelect(b_.CreateFCmpOEQ(x, zero), constant(x, -INFINITY), result);
  return b_.CreateSelect(b_.CreateFCmpOLT(x, zero), constant(x, std::nan("")), result);
}

// log(1 + x) = log(w) x / (w - 1) with w = 1 + x as rounded: the rounding of w cancels.
Value* MathBuilder::log1p(Value* x) {
  Value* one = constant(x, 1);
  Value* w = b_.CreateFAdd(x, one);
  Value* corrected = b_.CreateFMul(log(w), b_.CreateFDiv(x, b_.CreateFSub(w, one)));
  Value* infinite = b_.CreateFCmpOEQ(w, constant(x, INFINITY));
  Value* zero = b_.CreateFCmpOEQ(w, constant(x, 0));
  corrected = b_.CreateSelect(b_.CreateOr(infinite, zero), log(w), corrected);
  return b_.CreateSelect(b_.CreateFCmpOEQ(w, one), x, corrected);
}

// Small |x|: x + x z P(z), z = x^2; else 1 - 2 / (e^(2|x|) + 1) with the sign of x.
Value* MathBuilder::tanh(Value* x) {
  if (!is_wide(x)) return narrow_tanh(x);
  Value* a = abs(x);
  Value* z = b_.CreateFMul(x, x);
  Value* small = odd_polynomial(
      a, z,
      {-3.33333333333333066e-1, 1.333333333331564628e-1, -5.396825394889914387e-2, 2.186948771236318335e-2,
       -8.863217663269123046e-3, 3.591904413192801798e-3, -1.454118043617458278e-3, 5.817724407868131278e-4,
       -2.145422208907510308e-4, 5.390642014172176982e-5});
  Value* e = exp(b_.CreateFAdd(a, a));
  Value* rest = b_.CreateFDiv(constant(x, 2), b_.CreateFAdd(e, constant(x, 1)));
  Value* large = b_.CreateFSub(constant(x, 1), rest);
  Value* is_small = b_.CreateFCmpOLT(a, constant(x, 0.55));
  return with_sign_of(b_.CreateSelect(is_small, small, large), x);
}

// |x| < 1: x P(x^2); else 1 - e^(-Q(t)), Q = -log(erfc), t: |x| from [1, 6] mapped to [-1, 1].
Value* MathBuilder::erf(Value* x) {
  if (!is_wide(x)) return narrow_erf(x);
  Value* a = abs(x);
  Value* z = b_.CreateFMul(x, x);
  Value* p = polynomial(
      z, {1.128379167095512574, -3.761263890318375238e-1, 1.128379167095512024e-1, -2.686617064512984081e-2,
          5.223977625423298309e-3, -8.548327021934829596e-4, 1.205533290288873541e-4,
          -1.492564756751933213e-5, 1.646204544146841894e-6, -1.63646421581676153e-7, 1.4792401209404813e-8,
          -1.216456005728345008e-9, 8.70904512905310669e-11, -4.230945824295337817e-12});
  Value* small = b_.CreateFMul(x, p);
  // Beyond 6 erfc is below half a unit in the last place of 1.
  Value* limited = clamp(a, 1, 6);
  Value* t = b_.CreateFMul(b_.CreateFSub(limited, constant(x, 3.5)), constant(x, 0.4));
  Value* q = polynomial(
      t,
      {1.411243740214817376e+1,  1.816524897091301599e+1,  6.042206592138925871,     8.165090971439135987e-2,
       -3.412841107861726054e-2, 1.438454841914252171e-2,  -5.953704505736826548e-3, 2.37399621623401325e-3,
       -8.935762292845316317e-4, 3.078266389515353295e-4,  -9.090329371139073538e-5, 1.844578761685015149e-5,
       1.487335470165048758e-6,  -4.491179093423006867e-6, 3.39624157790451779e-6,   -2.045159214147946715e-6,
       9.579446644955513808e-7,  -2.437635291617384449e-7, 8.37975569400899361e-8,   -1.228503072813145214e-7,
       3.453682785449282955e-8,  3.690786006051600426e-8,  -1.74575281695570057e-8});
  Value* large = with_sign_of(b_.CreateFSub(constant(x, 1), exp(b_.CreateFNeg(q))), x);
  // NaN takes the small branch.
  return b_.CreateSelect(b_.CreateFCmpOGE(a, constant(x, 1)), large, small);
}

// With e = e^-|x|: 1 / (1 + e), and e / (1 + e) for negative x, so that nothing overflows or cancels.
Value* MathBuilder::sigmoid(Value* x) {
  if (!is_wide(x)) return narrow_sigmoid(x);
  Value* e = exp(b_.CreateFNeg(abs(x)));
  Value* one = constant(x, 1);
  Value* numerator = b_.CreateSelect(b_.CreateFCmpOLT(x, constant(x, 0)), e, one);
  return b_.CreateFDiv(numerator, b_.CreateFAdd(e, one));
}

}  // namespace gantry
