// Walking, rewriting and comparing expressions.
#include <cmath>
#include <unordered_map>
#include <unordered_set>

#include "host/support/error.h"
#include "host/tensor/expr.h"
#include "host/tensor/tensor.h"

namespace gantry {
namespace {

/// Calls `visit` on each child, in order.
template <typename Visit>
void for_each_child(const Expr& e, Visit&& visit) {
  switch (e->kind) {
    case ExprKind::kIntImm:
    case ExprKind::kFloatImm:
    case ExprKind::kVar:
      break;
    case ExprKind::kBinary:
      visit(e.as<BinaryNode>()->a);
      visit(e.as<BinaryNode>()->b);
      break;
    case ExprKind::kUnary:
      visit(e.as<UnaryNode>()->a);
      break;
    case ExprKind::kCall:
      for (const Expr& arg : e.as<CallNode>()->args) visit(arg);
      break;
    case ExprKind::kSelect:
      visit(e.as<SelectNode>()->condition);
      visit(e.as<SelectNode>()->if_true);
      visit(e.as<SelectNode>()->if_false);
      break;
    case ExprKind::kCast:
      visit(e.as<CastNode>()->a);
      break;
    case ExprKind::kRead:
      for (const Expr& index : e.as<ReadNode>()->indices) visit(index);
      break;
    case ExprKind::kLoad:
      visit(e.as<LoadNode>()->index);
      if (e.as<LoadNode>()->predicate) visit(e.as<LoadNode>()->predicate);
      break;
    case ExprKind::kReduce:
      visit(e.as<ReduceNode>()->value);
      if (e.as<ReduceNode>()->condition) visit(e.as<ReduceNode>()->condition);
      break;
    case ExprKind::kRamp:
      visit(e.as<RampNode>()->base);
      visit(e.as<RampNode>()->stride);
      break;
    case ExprKind::kBroadcast:
      visit(e.as<BroadcastNode>()->value);
      break;
    case ExprKind::kLet:
      visit(e.as<LetNode>()->var);
      visit(e.as<LetNode>()->value);
      visit(e.as<LetNode>()->body);
      break;
  }
}

bool is_leaf(const Expr& e) {
  return e->kind == ExprKind::kIntImm || e->kind == ExprKind::kFloatImm || e->kind == ExprKind::kVar;
}

void walk_once(const Expr& e, const std::function<void(const Expr&)>& visit,
               std::unordered_set<const ExprNode*>& seen) {
  // Only nodes with several owners can be met twice.
  if (!is_leaf(e) && !seen.insert(e.get()).second) return;
  visit(e);
  for_each_child(e, [&](const Expr& child) { walk_once(child, visit, seen); });
}

/// A node's own fields, children aside.
bool same_fields(const Expr& a, const Expr& b) {
  switch (a->kind) {
    case ExprKind::kIntImm:
      return a.as<IntImmNode>()->value == b.as<IntImmNode>()->value;
    case ExprKind::kFloatImm: {
      double x = a.as<FloatImmNode>()->value, y = b.as<FloatImmNode>()->value;
      return x == y ? std::signbit(x) == std::signbit(y) : x != x && y != y;
    }
    case ExprKind::kVar:
      return false;  // identity is the address
    case ExprKind::kBinary:
      return a.as<BinaryNode>()->op == b.as<BinaryNode>()->op;
    case ExprKind::kUnary:
      return a.as<UnaryNode>()->op == b.as<UnaryNode>()->op;
    case ExprKind::kCall:
      return a.as<CallNode>()->fn == b.as<CallNode>()->fn;
    case ExprKind::kRead:
      return a.as<ReadNode>()->op == b.as<ReadNode>()->op &&
             a.as<ReadNode>()->result == b.as<ReadNode>()->result;
    case ExprKind::kLoad:
      return a.as<LoadNode>()->buffer == b.as<LoadNode>()->buffer;
    case ExprKind::kReduce:
      return a.as<ReduceNode>()->reduce == b.as<ReduceNode>()->reduce &&
             a.as<ReduceNode>()->axes == b.as<ReduceNode>()->axes;
    default:
      return true;
  }
}

class Substituter : public ExprMutator {
 public:
  explicit Substituter(const std::vector<std::pair<const VarNode*, Expr>>& bindings)
      : bindings_(bindings.begin(), bindings.end()) {}

 protected:
  Expr mutate_var(const VarNode* node, const Expr& self) override {
    auto it = bindings_.find(node);
    return it == bindings_.end() ? self : it->second;
  }

 private:
  std::unordered_map<const VarNode*, Expr> bindings_;
};

}  // namespace

void walk(const Expr& e, const std::function<void(const Expr&)>& visit) {
  std::unordered_set<const ExprNode*> seen;
  if (e) walk_once(e, visit, seen);
}

bool mentions(const Expr& e, const VarNode* var) {
  bool found = false;
  walk(e, [&](const Expr& node) { found |= node.get() == var; });
  return found;
}

bool mentions(const Expr& e, const Expr& var) {
  return mentions(e, var.as<VarNode>());
}

bool structurally_equal(const Expr& a, const Expr& b) {
  if (a.same_as(b)) return true;
  if (!a.get() || !b.get() || a->kind != b->kind || !(a->type == b->type) || !same_fields(a, b)) return false;
  std::vector<Expr> left, right;
  for_each_child(a, [&](const Expr& child) { left.push_back(child); });
  for_each_child(b, [&](const Expr& child) { right.push_back(child); });
  if (left.size() != right.size()) return false;
  for (size_t i = 0; i < left.size(); ++i) {
    if (!structurally_equal(left[i], right[i])) return false;
  }
  return true;
}

Expr substitute(const Expr& e, const std::vector<std::pair<const VarNode*, Expr>>& bindings) {
  if (!e || bindings.empty()) return e;
  return Substituter(bindings).mutate(e);
}

Expr ExprMutator::mutate(const Expr& e) {
  if (!e) return e;
  // Trees share nodes; a shared one is rewritten once per outermost call, or deep sharing would cost
  // exponential time and lose the sharing.
  bool shared = memoise_ && !is_leaf(e);
  if (shared) {
    auto it = memo_.find(e.get());
    if (it != memo_.end()) return it->second.second;
  }
  ++depth_;
  Expr result;
  switch (e->kind) {
    case ExprKind::kVar:
      result = mutate_var(e.as<VarNode>(), e);
      break;
    case ExprKind::kRead:
      result = mutate_read(e.as<ReadNode>(), e);
      break;
    case ExprKind::kLoad:
      result = mutate_load(e.as<LoadNode>(), e);
      break;
    case ExprKind::kReduce:
      result = mutate_reduce(e.as<ReduceNode>(), e);
      break;
    case ExprKind::kCall:
      result = mutate_call(e.as<CallNode>(), e);
      break;
    default:
      result = mutate_default(e);
      break;
  }
  if (--depth_ == 0) {
    memo_.clear();
  } else if (shared) {
    memo_.emplace(e.get(), std::make_pair(e, result));
  }
  return result;
}

Expr ExprMutator::mutate_var(const VarNode*, const Expr& self) {
  return self;
}

Expr ExprMutator::mutate_read(const ReadNode* node, const Expr& self) {
  std::vector<Expr> indices;
  bool changed = false;
  for (const Expr& index : node->indices) {
    indices.push_back(mutate(index));
    changed |= !indices.back().same_as(index);
  }
  if (!changed) return self;
  return std::make_shared<ReadNode>(node->op, node->result, node->type.dtype, std::move(indices));
}

Expr ExprMutator::mutate_load(const LoadNode* node, const Expr& self) {
  Expr index = mutate(node->index), predicate = mutate(node->predicate);
  if (index.same_as(node->index) && predicate.same_as(node->predicate)) return self;
  return std::make_shared<LoadNode>(node->buffer, ExprType{node->type.dtype, index.type().lanes}, index,
                                    predicate);
}

Expr ExprMutator::mutate_reduce(const ReduceNode* node, const Expr& self) {
  Expr value = mutate(node->value), condition = mutate(node->condition);
  if (value.same_as(node->value) && condition.same_as(node->condition)) return self;
  return std::make_shared<ReduceNode>(node->reduce, value, node->axes, condition);
}

Expr ExprMutator::mutate_call(const CallNode* node, const Expr& self) {
  std::vector<Expr> args;
  bool changed = false;
  for (const Expr& arg : node->args) {
    args.push_back(mutate(arg));
    changed |= !args.back().same_as(arg);
  }
  return changed ? call(node->fn, std::move(args)) : self;
}

Expr ExprMutator::mutate_default(const Expr& self) {
  switch (self->kind) {
    case ExprKind::kBinary: {
      const auto* node = self.as<BinaryNode>();
      Expr a = mutate(node->a), b = mutate(node->b);
      return a.same_as(node->a) && b.same_as(node->b) ? self : binary(node->op, a, b);
    }
    case ExprKind::kUnary: {
      const auto* node = self.as<UnaryNode>();
      Expr a = mutate(node->a);
      return a.same_as(node->a) ? self : node->op == UnaryOp::kNeg ? -a : logical_not(a);
    }
    case ExprKind::kSelect: {
      const auto* node = self.as<SelectNode>();
      Expr c = mutate(node->condition), t = mutate(node->if_true), f = mutate(node->if_false);
      bool same = c.same_as(node->condition) && t.same_as(node->if_true) && f.same_as(node->if_false);
      return same ? self : select(c, t, f);
    }
    case ExprKind::kCast: {
      const auto* node = self.as<CastNode>();
      Expr a = mutate(node->a);
      return a.same_as(node->a) ? self : cast(node->type.dtype, a);
    }
    case ExprKind::kRamp: {
      const auto* node = self.as<RampNode>();
      Expr base = mutate(node->base), stride = mutate(node->stride);
      if (base.same_as(node->base) && stride.same_as(node->stride)) return self;
      return std::make_shared<RampNode>(base, stride, node->type.lanes);
    }
    case ExprKind::kBroadcast: {
      const auto* node = self.as<BroadcastNode>();
      Expr value = mutate(node->value);
      if (value.same_as(node->value)) return self;
      return std::make_shared<BroadcastNode>(value, node->type.lanes);
    }
    case ExprKind::kLet: {
      const auto* node = self.as<LetNode>();
      Expr value = mutate(node->value), body = mutate(node->body);
      if (value.same_as(node->value) && body.same_as(node->body)) return self;
      return std::make_shared<LetNode>(node->var, value, body);
    }
    default:
      return self;
  }
}

}  // namespace gantry
