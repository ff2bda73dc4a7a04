#include "host/loops/lower.h"
#include "host/loops/ranged_mutator.h"

namespace gantry {
namespace {

const IntImmNode* as_constant(const Expr& e) { return e.as<IntImmNode>(); }

class LoopSimplifier : public RangedMutator {
 protected:
  Stmt mutate_store(const StoreNode* node, const Stmt& self) override {
    Expr index = simplify_all(node->index), value = simplify_all(node->value);
    Expr predicate = node->predicate ? simplify_all(node->predicate) : Expr();
    if (auto* constant = predicate ? as_constant(predicate) : nullptr) {
      if (constant->value == 0) return {};
      predicate = {};
    }
    if (index.same_as(node->index) && value.same_as(node->value) && predicate.same_as(node->predicate)) return self;
    return store(node->buffer, index, value, predicate);
  }

  Stmt mutate_for(const ForNode* node, const Stmt& self) override {
    Expr low = simplify_all(node->low), extent = simplify_all(node->extent);
    if (auto* constant = as_constant(extent)) {
      if (constant->value <= 0) return {};
      // A parallel loop of one iteration is no reason to wake the pool.
      if (constant->value == 1) {
        return mutate_stmt(substitute(node->body, {{node->var.as<VarNode>(), low}}));
      }
    }
    const auto* var = node->var.as<VarNode>();
    ranges_[var] = {low, extent};
    Stmt body = mutate_stmt(node->body);
    ranges_.erase(var);
    if (!body) return {};
    if (body.same_as(node->body) && low.same_as(node->low) && extent.same_as(node->extent)) return self;
    return for_loop(node->var, low, extent, node->loop, body);
  }

  Stmt mutate_if(const IfNode* node, const Stmt& self) override {
    Expr condition = simplify_all(node->condition);
    if (auto* constant = as_constant(condition)) {
      if (constant->value != 0) return mutate_stmt(node->then_case);
      return node->else_case ? mutate_stmt(node->else_case) : Stmt();
    }
    Stmt then_case = mutate_stmt(node->then_case);
    Stmt else_case = node->else_case ? mutate_stmt(node->else_case) : Stmt();
    if (!then_case && !else_case) return {};
    if (!then_case) return if_stmt(logical_not(condition), else_case);
    if (condition.same_as(node->condition) && then_case.same_as(node->then_case) &&
        else_case.same_as(node->else_case)) {
      return self;
    }
    return if_stmt(condition, then_case, else_case);
  }

 private:
  Expr simplify_all(const Expr& e) { return simplify(e, ranges_); }
};

class Substituter : public StmtMutator {
 public:
  explicit Substituter(const std::vector<std::pair<const VarNode*, Expr>>& bindings) : bindings_(bindings) {}

 protected:
  Expr mutate_var(const VarNode* node, const Expr& self) override {
    for (const auto& [var, value] : bindings_) {
      if (var == node) return value;
    }
    return self;
  }

 private:
  const std::vector<std::pair<const VarNode*, Expr>>& bindings_;
};

}  // namespace

Stmt substitute(const Stmt& s, const std::vector<std::pair<const VarNode*, Expr>>& bindings) {
  return Substituter(bindings).mutate_stmt(s);
}

bool uses_var(const Expr& e, const VarNode* var) {
  bool found = false;
  walk(e, [&](const Expr& node) { found = found || node.get() == var; });
  return found;
}

Stmt simplify_loops(const Stmt& s) { return s ? LoopSimplifier().mutate_stmt(s) : s; }

}  // namespace gantry
