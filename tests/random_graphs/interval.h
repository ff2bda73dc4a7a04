// Floats of the reference: what an element is, and between what it lies wherever it is computed with roundings.
//
// Interval arithmetic (Moore, "Interval Analysis", 1966), with what each operation may round away added to both
// ends, as running error analysis does (Higham, "Accuracy and Stability of Numerical Algorithms", 2002, section
// 3.3). Roundings of sums and differences are relative to the operands, not to the result: so the order in which a
// rewritten graph adds, and what cancels in it, does not matter. A step (floor, a comparison) whose operand may lie
// on either side has both results within the ends.
#pragma once

#include <limits>
#include <optional>

#include "host/tensor/expr.h"

namespace gantry::random_graphs {

/// NaN in all three: it is NaN. Infinite ends: nothing is known, it may be NaN.
struct Interval {
  double value = 0, low = 0, high = 0;

  static Interval point(double v) { return {v, v, v}; }
  static Interval anything(double v) {
    return {v, -std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
  }
  bool is_anything() const;
  bool is_point() const;  ///< NaN is one
  bool is_nan() const;
  /// The largest absolute value between the ends.
  double size() const;
};

/// Half a unit in the last place of 1.
double unit_of(DType dtype);
/// Roundings, in units of the dtype, that an operation may take; functions are exact to a few units.
inline constexpr double kUnits = 8;

/// The interval with `error` on both sides, its ends infinite where the dtype has no such numbers. Underflow counts
/// as an error unless both ends are 0.
Interval rounded(Interval x, DType dtype, double error);
/// What contains both; `value` is that of the first.
Interval hull(const Interval& a, const Interval& b);

/// Arithmetic ops of floats, not comparisons; `nan_passes` as for fold_floats.
Interval apply(BinaryOp op, DType dtype, const Interval& a, const Interval& b, bool nan_passes);
/// Functions of one or two arguments (of one: `b` is not read).
Interval apply(MathFn fn, DType dtype, const Interval& a, const Interval& b);
/// The result of a comparison, where it does not depend on roundings.
std::optional<bool> compared(BinaryOp op, const Interval& a, const Interval& b);

}  // namespace gantry::random_graphs
