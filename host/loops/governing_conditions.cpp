#include "host/loops/governing_conditions.h"

#include <algorithm>
#include <utility>

#include "host/tensor/conjunction.h"
#include "host/tensor/fold.h"

namespace gantry {
namespace {

bool is_pure(const Expr& e) {
  bool pure = true;
  walk(e, [&](const Expr& x) { pure &= x->kind != ExprKind::kLoad; });
  return pure;
}

/// c*var + rest, so that the ends of a range bound what lies between.
bool linear_in(const Expr& e, const VarNode* var) {
  if (!mentions(e, var)) return true;
  if (e.as<VarNode>()) return true;
  const auto* node = e.as<BinaryNode>();
  if (!node) return false;
  if (node->op == BinaryOp::kAdd || node->op == BinaryOp::kSub)
    return linear_in(node->a, var) && linear_in(node->b, var);
  if (node->op != BinaryOp::kMul) return false;
  return (!mentions(node->a, var) && linear_in(node->b, var)) ||
         (!mentions(node->b, var) && linear_in(node->a, var));
}

/// Of the parts of a condition those that may be hoisted.
void add_candidates(const Expr& condition, std::vector<GoverningCondition>& out) {
  std::vector<Expr> conjuncts;
  collect_conjuncts(condition, conjuncts);
  for (const Expr& e : conjuncts) {
    const auto* node = e.as<BinaryNode>();
    bool inequality =
        node && is_comparison(node->op) && node->op != BinaryOp::kEq && node->op != BinaryOp::kNe;
    if (inequality && node->a->type == ExprType{DType::kI64, 1} && is_pure(e)) {
      out.push_back({{e}, {e.get()}, false});
    }
  }
}

bool reads_nothing(const Stmt& s) {
  bool none = true;
  walk(s, {}, [&](const Expr& e) { none &= e->kind != ExprKind::kLoad; });
  return none;
}

class Governor {
 public:
  explicit Governor(Simplifier& simplifier) : simplifier_(simplifier) {}

  std::vector<GoverningCondition> governing(const Stmt& s) {
    std::vector<GoverningCondition> found;
    if (!s) return found;
    switch (s->kind) {
      case StmtKind::kStore:
        walk(s.as<StoreNode>()->value, [&](const Expr& e) {
          const auto* node = e.as<CallNode>();
          if (node && node->fn == MathFn::kIfThenElse) add_candidates(node->args[0], found);
        });
        return found;
      case StmtKind::kIf:
        found = governing(s.as<IfNode>()->then_case);
        if (s.as<IfNode>()->else_case) return {};
        add_candidates(s.as<IfNode>()->condition, found);
        return found;
      case StmtKind::kFor:
        return leave_loop(s.as<ForNode>(), governing(s.as<ForNode>()->body));
      case StmtKind::kAllocate:
        return governing(s.as<AllocateNode>()->body);
      case StmtKind::kLet:
        for (GoverningCondition& c : governing(s.as<LetStmtNode>()->body)) {
          bool local = false;
          for (const Expr& e : c.hoisted) local |= mentions(e, s.as<LetStmtNode>()->var.as<VarNode>());
          if (!local) found.push_back(std::move(c));
        }
        return found;
      case StmtKind::kLaunch:
      case StmtKind::kBarrier:
      case StmtKind::kShuffle:
      case StmtKind::kMma:
      case StmtKind::kTile:
      case StmtKind::kPrefetch:
      case StmtKind::kTranspose:
        return found;
      case StmtKind::kOnce:
        return governing(s.as<OnceNode>()->body);
      case StmtKind::kBlock:
        return common(s.as<BlockNode>()->statements);
    }
    return found;
  }

 private:
  std::vector<GoverningCondition> common(const std::vector<Stmt>& statements) {
    std::vector<GoverningCondition> shared;
    bool first = true;
    for (const Stmt& s : statements) {
      std::vector<GoverningCondition> own = governing(s);
      if (own.empty() && reads_nothing(s)) continue;
      if (first) {
        shared = std::move(own);
        first = false;
        continue;
      }
      std::vector<GoverningCondition> both;
      for (GoverningCondition& a : shared) {
        bool matched = false;
        for (const GoverningCondition& b : own) {
          if (!are_equal(a.hoisted, b.hoisted)) continue;
          a.originals.insert(b.originals.begin(), b.originals.end());
          a.crossed_loop |= b.crossed_loop;
          matched = true;
        }
        if (matched) both.push_back(std::move(a));
      }
      shared = std::move(both);
    }
    return shared;
  }

  std::vector<GoverningCondition> leave_loop(const ForNode* loop, std::vector<GoverningCondition> inside) {
    std::vector<GoverningCondition> outside;
    for (GoverningCondition& c : inside) {
      std::vector<Expr> hoisted;
      bool possible = true;
      for (const Expr& e : c.hoisted) possible = possible && for_all_iterations(loop, e, hoisted);
      if (!possible) continue;
      c.hoisted = std::move(hoisted);
      c.crossed_loop = true;
      outside.push_back(std::move(c));
    }
    return outside;
  }

  /// Appends conditions free of the loop's variable that imply `e` in every iteration; false if there are
  /// none or they never hold.
  bool for_all_iterations(const ForNode* loop, const Expr& e, std::vector<Expr>& out) {
    const auto* var = loop->var.as<VarNode>();
    if (!mentions(e, var)) {
      out.push_back(e);
      return true;
    }
    if (!constant_of(loop->extent)) return false;
    const auto* node = e.as<BinaryNode>();
    if (!node || !linear_in(node->a, var) || !linear_in(node->b, var)) return false;
    Expr last = loop->low + loop->extent - Expr(1);
    Expr at_first = simplifier_.simplify(substitute(e, {{var, loop->low}}));
    Expr at_last = simplifier_.simplify(substitute(e, {{var, last}}));
    if (constant_of(at_first) == 0 || constant_of(at_last) == 0) return false;
    Expr gap = node->b - node->a;
    Expr growth = substitute(gap, {{var, last}}) - substitute(gap, {{var, loop->low}});
    bool less = node->op == BinaryOp::kLt || node->op == BinaryOp::kLe;
    bool shrinks = simplifier_.prove(le(growth, Expr(0))), grows = simplifier_.prove(ge(growth, Expr(0)));
    bool first_implied = less ? shrinks : grows, last_implied = less ? grows : shrinks;
    if (!first_implied || constant_of(at_last) == 1) push(at_first, out);
    if (first_implied || !last_implied) push(at_last, out);
    return true;
  }

  static void push(const Expr& e, std::vector<Expr>& out) {
    if (constant_of(e) == 1) return;
    out.push_back(e);
  }

  Simplifier& simplifier_;
};

}  // namespace

std::vector<GoverningCondition> governing_conditions(const Stmt& s, Simplifier& simplifier) {
  return Governor(simplifier).governing(s);
}

bool are_equal(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  return std::ranges::equal(a, b, [](const Expr& x, const Expr& y) { return structurally_equal(x, y); });
}

}  // namespace gantry
