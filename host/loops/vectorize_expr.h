// Expressions of one iteration -> of all iterations of a vectorized loop.
#pragma once

#include "host/loops/stmt.h"

namespace gantry {

/// Replaces `var` by low, low+1, …, low+lanes-1. Subexpressions that do not depend on it stay scalar. Loads under
/// an if_then_else whose condition varies are predicated. Throws NotVectorizable for what has no vector form.
class ExprVectorizer : public ExprMutator {
 public:
  ExprVectorizer(const VarNode* var, Expr low, int lanes);

  /// Variables of lets whose value became a vector.
  void bind(const VarNode* var, Expr vector_value) { bindings_.emplace_back(var, std::move(vector_value)); }
  /// Loads evaluated from here on are predicated by `condition` (null: not).
  void set_predicate(Expr condition) { predicate_ = std::move(condition); }
  const Expr& predicate() const { return predicate_; }
  /// The scalar as that many equal lanes; a vector stays.
  Expr widen(const Expr& e) const;
  /// a && b, either of which may be null.
  Expr both(const Expr& a, const Expr& b) const;

 protected:
  Expr mutate_var(const VarNode* node, const Expr& self) override;
  Expr mutate_load(const LoadNode* node, const Expr& self) override;
  Expr mutate_call(const CallNode* node, const Expr& self) override;
  Expr mutate_default(const Expr& self) override;

 private:
  Expr binary_of(const BinaryNode* node, const Expr& self);
  Expr guarded(const Expr& condition, const Expr& e);

  const VarNode* var_;
  Expr ramp_;
  int lanes_;
  Expr predicate_;
  std::vector<std::pair<const VarNode*, Expr>> bindings_;
};

}  // namespace gantry
