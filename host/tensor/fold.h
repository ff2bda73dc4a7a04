// Arithmetic on scalar constants, exactly as compiled kernels do it.
#pragma once

#include <cstdint>
#include <optional>

#include "host/tensor/expr.h"

namespace gantry {

/// The value that an integer of that dtype holds after wrapping `value` to its width (bool: 0 or 1). u64 is
/// kept as the int64 of the same bits.
int64_t wrap_integer(DType dtype, int64_t value);
/// Rounds to f32 for kF32 (and to the narrower formats for kF16, kBF16 and the small floats); f64 is kept.
double round_float(DType dtype, double value);

/// op on integers (or bools) of that dtype; comparisons give 0 or 1. Empty for division by zero and for ops
/// that integers do not have.
std::optional<int64_t> fold_integers(BinaryOp op, DType dtype, int64_t a, int64_t b);
/// Arithmetic op on floats of that dtype, rounded to it. Not for comparisons. Minima and maxima are the other
/// operand if one is NaN, or NaN with `nan_passes`.
std::optional<double> fold_floats(BinaryOp op, DType dtype, double a, double b, bool nan_passes = false);
std::optional<bool> compare_floats(BinaryOp op, double a, double b);
/// Functions of floats: `b` is read by two-argument ones only. Empty for kFma, kIfThenElse, kIsNan, kIsInf.
std::optional<double> fold_math(MathFn fn, DType dtype, double a, double b);
/// Float to integer: truncates and saturates; NaN gives 0. Integers of less than 8 bits are the low bits of i32.
int64_t float_to_integer(DType dtype, double value);
/// The value of an integer of that dtype as a float (u64 read as unsigned).
double integer_to_float(DType dtype, int64_t value);
/// A double that, rounded to `to`, is the float of that type nearest to the integer: beyond 2^53, where f64
/// has not every integer, the last bits are rounded to odd, unless `to` is f64.
double integer_to_float(DType dtype, int64_t value, DType to);

bool is_comparison(BinaryOp op);

/// A float constant other than NaN, or a vector of it.
bool is_number(const Expr& value);
/// A minimum or maximum with such a constant (Relu, Clip): NaN where the other operand is NaN. That takes no
/// more instructions than to return the constant there.
bool passes_nan(const BinaryNode& node);

int64_t floor_divide(int64_t a, int64_t b);
int64_t floor_modulo(int64_t a, int64_t b);

/// The constant if `e` is an IntImm.
inline std::optional<int64_t> constant_of(const Expr& e) {
  if (const auto* imm = e.as<IntImmNode>()) return imm->value;
  return std::nullopt;
}

}  // namespace gantry
