// Constant bounds and divisors of index expressions, for code that is cheaper where they are known: 32-bit
// arithmetic and aligned vector accesses on GPUs.
//
// Interval arithmetic over each tree as it stands: quick enough to ask of every node, and index expressions
// come simplified. (Simplifier proves more, at the cost of polynomials.)
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "host/tensor/expr.h"

namespace gantry {

class IndexRanges {
 public:
  /// A closed interval; ends beyond +-kUnbounded are clamped to it and mean "unknown".
  static constexpr int64_t kUnbounded = int64_t{1} << 62;
  struct Range {
    int64_t low = -kUnbounded, high = kUnbounded;
    bool fits_int32() const { return low >= INT32_MIN && high <= INT32_MAX; }
  };

  /// Declares low <= var <= high; replaces what was known.
  void bind(const VarNode* var, Range range);
  /// Narrows what is known of variables to where the condition (a conjunction of comparisons of variables with
  /// bounded expressions; other parts are passed over) holds. Returns what restore() takes to undo it.
  using Saved = std::vector<std::pair<const VarNode*, Range>>;
  Saved assume(const Expr& condition);
  void restore(const Saved& saved);
  /// Whether a comparison of scalar integers has one result for all values in the ranges.
  std::optional<bool> decide(const BinaryNode& comparison);
  /// Of a scalar integer expression. Symbols of dimensions are >= 0.
  Range range(const Expr& e);
  /// A number that divides the expression's value (the first lane's, of vectors), at least 1; 0 for the
  /// constant 0, which everything divides.
  int64_t divisor(const Expr& e);

 private:
  Range compute(const Expr& e);
  Range compute_binary(const BinaryNode& node);
  void assume_parts(const Expr& condition, Saved& saved);
  void assume_at_most(const Expr& e, int64_t limit, Saved& saved);
  void assume_at_least(const Expr& e, int64_t limit, Saved& saved);

  std::unordered_map<const VarNode*, Range> vars_;
  std::unordered_map<const ExprNode*, std::pair<Expr, Range>> memo_;  ///< keeps its nodes alive
};

}  // namespace gantry
