// Where a tile may reach beyond the edge of a tensor, lowering guards every point of it. This pass tests the whole
// tile at once instead:
//
//   for o: for i < 8: if (o*8 + i < n) S      =>      for o: if (o*8 + 7 < n) { for i < 8: S }
//                                                            else { for i < 8: if (o*8 + i < n) S }
//
// The test goes as far out as it can without being false for every tile; what is inside is written twice, never more.
#include <optional>

#include "host/loops/lower.h"
#include "host/loops/ranged_mutator.h"

namespace gantry {
namespace {

void split_conjunction(const Expr& condition, std::vector<Expr>& terms) {
  auto* binary = condition.as<BinaryNode>();
  if (binary && binary->op == BinaryOp::kAnd && condition.type().dtype == DType::kBool) {
    split_conjunction(binary->a, terms);
    split_conjunction(binary->b, terms);
  } else {
    terms.push_back(condition);
  }
}

// Guards (ifs without an else) and loops of a statement; parallel loops are not entered.
struct Contents {
  std::vector<Expr> guards;
  std::vector<const ForNode*> loops;
  bool has_parallel = false;
};

Contents contents_of(const Stmt& s) {
  Contents found;
  walk(
      s,
      [&](const Stmt& inner) {
        if (auto* guard = inner.as<IfNode>(); guard && !guard->else_case) {
          split_conjunction(guard->condition, found.guards);
        }
        if (auto* loop = inner.as<ForNode>()) {
          found.loops.push_back(loop);
          found.has_parallel = found.has_parallel || loop->loop == LoopKind::kParallel;
        }
      },
      [](const Expr&) {});
  return found;
}

// a - b for a comparison a < b, a <= b, …, oriented so that small values satisfy it; nothing for other conditions.
std::optional<Expr> slack_of(const Expr& condition) {
  auto* binary = condition.as<BinaryNode>();
  if (!binary || binary->a.type().dtype != DType::kI64) return std::nullopt;
  switch (binary->op) {
    case BinaryOp::kLt: case BinaryOp::kLe: return binary->a - binary->b;
    case BinaryOp::kGt: case BinaryOp::kGe: return binary->b - binary->a;
    default: return std::nullopt;
  }
}

// The condition at the iteration of `loop` that satisfies it least; nothing if that cannot be told.
std::optional<Expr> at_extreme(const Expr& condition, const ForNode& loop, const RangeMap& ranges) {
  const auto* var = loop.var.as<VarNode>();
  if (!uses_var(condition, var)) return condition;
  auto slack = slack_of(condition);
  if (!slack) return std::nullopt;
  Expr next = substitute(*slack, {{var, loop.var + 1}});
  Expr step = simplify(next - *slack, ranges);
  auto* constant = step.as<IntImmNode>();
  if (!constant) return std::nullopt;
  Expr extreme = constant->value >= 0 ? loop.low + loop.extent - 1 : loop.low;
  return substitute(condition, {{var, extreme}});
}

class GuardDropper : public StmtMutator {
 protected:
  Stmt mutate_if(const IfNode* node, const Stmt& self) override {
    if (node->else_case) return StmtMutator::mutate_if(node, self);
    return mutate_stmt(node->then_case);
  }
};

class Partitioner : public RangedMutator {
 protected:
  Stmt mutate_for(const ForNode* node, const Stmt& self) override {
    const auto* var = node->var.as<VarNode>();
    ranges_[var] = {node->low, node->extent};
    Stmt body = partition(node->body);
    if (!body) body = mutate_stmt(node->body);
    ranges_.erase(var);
    return body.same_as(node->body) ? self : for_loop(node->var, node->low, node->extent, node->loop, body);
  }

 private:
  // The statement in two versions, or null if no test of all its guards can be made here.
  Stmt partition(const Stmt& s) {
    Contents inside = contents_of(s);
    if (inside.guards.empty() || inside.has_parallel) return {};
    RangeMap ranges = ranges_;
    for (const ForNode* loop : inside.loops) ranges[loop->var.as<VarNode>()] = {loop->low, loop->extent};
    Expr whole_tile;
    for (const Expr& guard : inside.guards) {
      Expr condition = guard;
      // Inner loops first: their bounds may depend on outer ones.
      for (auto loop = inside.loops.rbegin(); loop != inside.loops.rend(); ++loop) {
        if (!uses_var(condition, (*loop)->var.as<VarNode>())) continue;
        if (!(*loop)->extent.as<IntImmNode>()) return {};
        auto extreme = at_extreme(condition, **loop, ranges);
        if (!extreme) return {};
        condition = *extreme;
      }
      condition = simplify(condition, ranges_);
      if (auto* constant = condition.as<IntImmNode>()) {
        if (constant->value == 0) return {};
        continue;
      }
      bool known = false;
      if (whole_tile) {
        std::vector<Expr> terms;
        split_conjunction(whole_tile, terms);
        for (const Expr& term : terms) known = known || structurally_equal(term, condition);
      }
      if (!known) whole_tile = whole_tile ? whole_tile && condition : condition;
    }
    Stmt unguarded = GuardDropper().mutate_stmt(s);
    return whole_tile ? if_stmt(whole_tile, unguarded, s) : unguarded;
  }
};

}  // namespace

Stmt partition_guards(const Stmt& s) { return s ? Partitioner().mutate_stmt(s) : s; }

}  // namespace gantry
