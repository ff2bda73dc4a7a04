// Conditions that govern a statement: which hold or fail for everything that happens in it.
#pragma once

#include <set>
#include <vector>

#include "host/loops/stmt.h"
#include "host/tensor/simplifier.h"

namespace gantry {

struct GoverningCondition {
  std::vector<Expr> hoisted;  ///< all of these at the place reached imply the originals below it
  std::set<const ExprNode*> originals;
  bool crossed_loop = false;
};

/// Conditions that hold or fail for everything in `s`, in terms of what is known in front of `s`:
/// inequalities of indices that read no data, and not out of loops in which they never hold for all
/// iterations. `simplifier` knows the ranges of the loops' variables.
std::vector<GoverningCondition> governing_conditions(const Stmt& s, Simplifier& simplifier);

/// Whether they are written alike, one by one.
bool are_equal(const std::vector<Expr>& a, const std::vector<Expr>& b);

}  // namespace gantry
