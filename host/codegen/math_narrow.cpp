// The f32 functions that networks spend their time in: tanh, erf and sigmoid without branches, where e^x
// needs no care for overflow, and by tables held in registers where a target looks up such.
#include <array>
#include <bit>
#include <cmath>
#include <numbers>

#include "host/codegen/math.h"

namespace gantry {

using llvm::Value;

constexpr int kIntervals = 16;  // elements of a table

/// An odd function f that is 1 within rounding beyond (kIntervals - 1/2) * width.
struct OddTable {
  double (*f)(double);
  double width;  ///< of an interval; they are centred at its multiples
  int degree;    ///< of the polynomials of Q(a) = f(a) / a
};

namespace {

constexpr int kMaxTerms = 8;

/// The polynomial in t that interpolates Q(centre + t) at the Chebyshev nodes of the interval.
std::array<double, kMaxTerms> interpolate(const OddTable& table, int interval) {
  const double centre = interval * table.width, high = table.width / 2, low = interval == 0 ? 0 : -high;
  const int terms = table.degree + 1;
  std::array<double, kMaxTerms> node{}, difference{}, result{};
  for (int i = 0; i < terms; ++i) {
    node[i] = (low + high) / 2 + (high - low) / 2 * std::cos((2 * i + 1) * std::numbers::pi / (2 * terms));
    difference[i] = table.f(centre + node[i]) / (centre + node[i]);
  }
  for (int order = 1; order < terms; ++order) {
    for (int i = terms - 1; i >= order; --i)
      difference[i] = (difference[i] - difference[i - 1]) / (node[i] - node[i - order]);
  }
  // Newton's form multiplied out: result = result * (t - node) + difference.
  for (int i = terms - 1; i >= 0; --i) {
    for (int k = terms - 1; k > 0; --k) result[k] = result[k - 1] - node[i] * result[k];
    result[0] = difference[i] - node[i] * result[0];
  }
  return result;
}

}  // namespace

bool MathBuilder::has_tables(Value* x) const {
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(x->getType());
  return vector_math_ != nullptr && vector && vector->getNumElements() == kIntervals && !is_wide(x);
}

Value* MathBuilder::odd_by_table(Value* x, const OddTable& table) {
  Value* limit = constant(x, (kIntervals - 0.5001) * table.width);
  Value* a = abs(x);
  Value* is_beyond = b_.CreateFCmpOLT(limit, a);  // NaN is not
  a = b_.CreateSelect(is_beyond, limit, a);
  Value* magic = constant(x, 0x1.8p23);
  Value* shifted = fma(a, constant(x, 1 / table.width), magic);
  Value* t = fma(b_.CreateFSub(shifted, magic), constant(x, -table.width), a);
  std::array<std::array<float, kIntervals>, kMaxTerms> coefficients{};
  for (int interval = 0; interval < kIntervals; ++interval) {
    const auto terms = interpolate(table, interval);
    for (int k = 0; k <= table.degree; ++k) coefficients[k][interval] = static_cast<float>(terms[k]);
  }
  auto look_up = [&](int k) {
    Value* row = llvm::ConstantDataVector::get(b_.getContext(), llvm::ArrayRef<float>(coefficients[k]));
    return vector_math_->look_up(b_, row, bits(shifted));
  };
  Value* q = look_up(table.degree);
  for (int k = table.degree - 1; k >= 0; --k) q = fma(q, t, look_up(k));
  // Exactly 1 there: GELU multiplies what is left of 1 by x.
  return with_sign_of(b_.CreateSelect(is_beyond, constant(x, 1), b_.CreateFMul(q, a)), x);
}

Value* MathBuilder::reciprocal(Value* x) {
  if (!has_tables(x)) return b_.CreateFDiv(constant(x, 1), x);
  // An estimate of 14 bits and one step of Newton's method, faster than a division.
  Value* r = vector_math_->reciprocal(b_, x);
  return fma(r, fma(b_.CreateFNeg(x), r, constant(x, 1)), r);
}

// 2^n where that is a normal number. Of NaN it is any number: factors beside it have to be NaN then. (Added to
// the bits of a factor, n would make a number of a NaN whose bits are all set, as GPUs make them.)
Value* MathBuilder::power_of_two(Value* shifted) {
  // The shift drops all but n from the bits of 1.5 * 2^23 + n.
  Value* n = b_.CreateShl(bits(shifted), integer(shifted, 23));
  return b_.CreateBitCast(b_.CreateAdd(bits(constant(shifted, 1)), n), shifted->getType());
}

// e^x - 1 = 2^n p + (2^n - 1), for |x| < 80; accurate near 0, where n is 0.
Value* MathBuilder::expm1_in_range(Value* x) {
  ExpParts parts = exp_parts(x);
  Value* power = power_of_two(parts.shifted);
  Value* p = fma(b_.CreateFMul(parts.r, parts.r), parts.p, parts.r);
  return fma(power, p, b_.CreateFSub(power, constant(x, 1)));
}

// E / (E + 2), E = e^2x - 1.
Value* MathBuilder::narrow_tanh(Value* x) {
  if (has_tables(x)) return odd_by_table(x, {[](double a) { return std::tanh(a); }, 0.5875, 6});
  Value* e = expm1_in_range(clamp(b_.CreateFAdd(x, x), -20, 20));
  Value* quotient = b_.CreateFDiv(e, b_.CreateFAdd(e, constant(x, 2)));
  return with_sign_of(quotient, x);  // of -0
}

// 1 - e^-Q, Q(a) = -log(erfc a) = a + a R(a), a = |x|.
Value* MathBuilder::narrow_erf(Value* x) {
  if (has_tables(x)) return odd_by_table(x, {[](double a) { return std::erf(a); }, 0.2525, 5});
  // Beyond 3.93 erfc is below half a unit in the last place of 1.
  Value* limit = constant(x, 3.93);
  Value* a = abs(x);
  a = b_.CreateSelect(b_.CreateFCmpOLT(limit, a), limit, a);
  Value* r = polynomial(a, {1.28379174e-1, 6.366192241e-1, 1.027793811e-1, -1.915895513e-2, -1.493042521e-4,
                            1.655774245e-3, -6.266199608e-4, 1.158906748e-4, -9.06052364e-6});
  Value* q = fma(a, r, a);
  return with_sign_of(expm1_in_range(b_.CreateFNeg(q)), x);
}

// -x = n ln 2 / 16 - s with |s| <= ln 2 / 32; e^-x = 2^(n / 16) e^-s, where the low bits of n choose one of
// the powers of 2^(1/16) and the others are its exponent.
std::pair<Value*, Value*> MathBuilder::negative_exp_by_table(Value* x) {
  constexpr double kStep = std::numbers::ln2 / kIntervals;
  constexpr auto kNearStep = static_cast<float>(kStep);
  Value* magic = constant(x, 0x1.8p23);
  Value* shifted = fma(x, constant(x, -1 / kStep), magic);
  Value* n = b_.CreateFSub(shifted, magic);
  Value* s = fma(n, constant(x, kNearStep), x);
  s = fma(n, constant(x, kStep - kNearStep), s);
  Value* of_remainder = polynomial(s, {1, -1, 0.5, -1.0 / 6});
  // A shift by 19 bits puts n / 16 into the exponent, and n mod 16 behind it, which the table has taken off.
  std::array<uint32_t, kIntervals> powers{};
  for (uint32_t i = 0; i < kIntervals; ++i)
    powers[i] = std::bit_cast<uint32_t>(static_cast<float>(std::exp2(double(i) / kIntervals))) - (i << 19);
  Value* table = llvm::ConstantDataVector::get(b_.getContext(), llvm::ArrayRef<uint32_t>(powers));
  Value* power = vector_math_->look_up(b_, table, bits(shifted));
  power = b_.CreateAdd(power, b_.CreateShl(bits(shifted), integer(x, 19)));
  return {b_.CreateBitCast(power, x->getType()), of_remainder};
}

// 1 / (1 + e^-x); below the range of normal results it is 0.
Value* MathBuilder::narrow_sigmoid(Value* x) {
  constexpr double kLimit = 87.336;
  Value* one = constant(x, 1);
  Value* sum = nullptr;  // 1 + e^-x
  if (has_tables(x)) {
    const auto [power, of_remainder] = negative_exp_by_table(clamp(x, -kLimit, kLimit));
    sum = fma(power, of_remainder, one);
  } else {
    ExpParts parts = exp_parts(clamp(b_.CreateFNeg(x), -kLimit, kLimit));
    sum = fma(power_of_two(parts.shifted), exp_of_remainder(parts), one);
  }
  Value* result = reciprocal(sum);
  return b_.CreateSelect(b_.CreateFCmpOLT(x, constant(x, -kLimit)), constant(x, 0), result);
}

}  // namespace gantry
