// A statement mutator that knows the ranges of the loop variables around it.
#pragma once

#include "host/loops/stmt.h"
#include "host/tensor/simplify.h"

namespace gantry {

/// Keeps `ranges_` up to date while it descends through loops and lets of constant-free values.
class RangedMutator : public StmtMutator {
 protected:
  /// The loop's body, mutated with its variable's range known.
  Stmt mutate_loop_body(const ForNode* loop) {
    const auto* var = loop->var.as<VarNode>();
    ranges_[var] = {loop->low, loop->extent};
    Stmt body = mutate_stmt(loop->body);
    ranges_.erase(var);
    return body;
  }

  RangeMap ranges_;
};

/// Replaces variables in a statement.
Stmt substitute(const Stmt& s, const std::vector<std::pair<const VarNode*, Expr>>& bindings);
/// True if the expression reads that variable (by identity).
bool uses_var(const Expr& e, const VarNode* var);

}  // namespace gantry
