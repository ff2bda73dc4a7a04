// Simplification of integer index expressions with known ranges of variables.
#pragma once

#include <map>
#include <optional>

#include "host/tensor/expr.h"

namespace gantry {

/// A closed interval; a missing end is unbounded.
struct Interval {
  std::optional<int64_t> low, high;
};
/// Variables by node; ranges as expressions so that symbolic extents are kept: low <= v <= low + extent - 1.
struct VarRange {
  Expr low, extent;
};
using RangeMap = std::map<const VarNode*, VarRange>;

/// Rewrites to a canonical sum of products; proves and removes min/max/floordiv/mod/select/comparisons where
/// the ranges allow: ((i/24)*24 + i%24 -> i), (i*16+j)/16 -> i for 0<=j<16, min(i*8+j, N-1) …. Floats: only
/// constant folding, x*1, x+0 of exact identity. Never changes the value for any assignment inside the
/// ranges.
Expr simplify(const Expr& e, const RangeMap& ranges = {});
/// True only if the boolean expression is proven for every assignment inside the ranges.
bool can_prove(const Expr& condition, const RangeMap& ranges);
/// Constant bounds of an integer expression (symbols: >= 0).
Interval bounds_of(const Expr& e, const RangeMap& ranges);

}  // namespace gantry
