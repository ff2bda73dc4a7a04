// Which index expressions are never negative, as far as is plain to see: divisions of them need no rounding
// down, and their sums no sign.
#pragma once

#include <set>

#include "host/tensor/expr.h"

namespace gantry {

class IndexSigns {
 public:
  void set_non_negative(const VarNode* var) { non_negative_.insert(var); }
  /// The variable is `low` or more, which is all that is known of it: in one copy of a loop's body it may be
  /// less than in the one before.
  void set_at_least(const VarNode* var, const Expr& low);
  /// Symbols of dimensions are >= 0.
  bool is_non_negative(const Expr& e) const;

 private:
  std::set<const VarNode*> non_negative_;
};

}  // namespace gantry
