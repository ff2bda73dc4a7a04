#include "host/loops/vectorize_expr.h"

#include "host/tensor/tensor.h"

namespace gantry {
namespace {

Expr ramp(Expr base, Expr stride, int lanes) {
  return std::make_shared<RampNode>(std::move(base), std::move(stride), lanes);
}

// Ramps stay ramps under addition and multiplication by what is the same in all lanes.
Expr fold_ramp(BinaryOp op, const Expr& a, const Expr& b) {
  auto* ra = a.as<RampNode>();
  auto* rb = b.as<RampNode>();
  int lanes = ra ? ra->type.lanes : rb ? rb->type.lanes : 1;
  bool a_scalar = a.type().lanes == 1, b_scalar = b.type().lanes == 1;
  if (ra && b_scalar) {
    if (op == BinaryOp::kAdd) return ramp(ra->base + b, ra->stride, lanes);
    if (op == BinaryOp::kSub) return ramp(ra->base - b, ra->stride, lanes);
    if (op == BinaryOp::kMul) return ramp(ra->base * b, ra->stride * b, lanes);
  }
  if (rb && a_scalar) {
    if (op == BinaryOp::kAdd) return ramp(a + rb->base, rb->stride, lanes);
    if (op == BinaryOp::kSub) return ramp(a - rb->base, Expr(0) - rb->stride, lanes);
    if (op == BinaryOp::kMul) return ramp(a * rb->base, a * rb->stride, lanes);
  }
  if (ra && rb && op == BinaryOp::kAdd) return ramp(ra->base + rb->base, ra->stride + rb->stride, lanes);
  if (ra && rb && op == BinaryOp::kSub) return ramp(ra->base - rb->base, ra->stride - rb->stride, lanes);
  return {};
}

}  // namespace

ExprVectorizer::ExprVectorizer(const VarNode* var, Expr low, int lanes)
    : var_(var), ramp_(ramp(std::move(low), Expr(1), lanes)), lanes_(lanes) {
  // The same load means different things under different predicates.
  memoise_ = false;
}

Expr ExprVectorizer::widen(const Expr& e) const {
  if (e.type().lanes != 1) return e;
  return std::make_shared<BroadcastNode>(e, lanes_);
}

Expr ExprVectorizer::both(const Expr& a, const Expr& b) const {
  if (!a) return b;
  if (!b) return a;
  if (a.type().lanes == b.type().lanes) return a && b;
  return widen(a) && widen(b);
}

Expr ExprVectorizer::mutate_var(const VarNode* node, const Expr& self) {
  if (node == var_) return ramp_;
  for (const auto& [var, value] : bindings_) {
    if (var == node) return value;
  }
  return self;
}

Expr ExprVectorizer::mutate_load(const LoadNode* node, const Expr& self) {
  Expr index = mutate(node->index);
  Expr own = node->predicate ? mutate(node->predicate) : Expr();
  Expr predicate = both(own, predicate_);
  bool varies = index.type().lanes > 1 || (predicate.get() && predicate.type().lanes > 1);
  if (!varies) {
    if (index.same_as(node->index) && predicate.same_as(node->predicate)) return self;
    return load(node->buffer, index, predicate);
  }
  // A load that is the same for all lanes but wanted by some only still has one address: keep it in bounds.
  return load(node->buffer, widen(index), predicate ? widen(predicate) : Expr());
}

Expr ExprVectorizer::guarded(const Expr& condition, const Expr& e) {
  Expr outer = predicate_;
  predicate_ = both(predicate_, condition);
  Expr result = mutate(e);
  predicate_ = outer;
  return result;
}

Expr ExprVectorizer::mutate_call(const CallNode* node, const Expr& self) {
  if (node->fn == MathFn::kIfThenElse) {
    Expr condition = mutate(node->args[0]);
    if (condition.type().lanes == 1) {
      Expr yes = mutate(node->args[1]), no = mutate(node->args[2]);
      if (yes.type().lanes != no.type().lanes) yes = widen(yes), no = widen(no);
      return if_then_else(condition, yes, no);
    }
    Expr yes = guarded(condition, node->args[1]), no = guarded(logical_not(condition), node->args[2]);
    return select(condition, widen(yes), widen(no));
  }
  std::vector<Expr> args;
  bool varies = false;
  for (const Expr& arg : node->args) {
    args.push_back(mutate(arg));
    varies = varies || args.back().type().lanes > 1;
  }
  if (varies) {
    for (Expr& arg : args) arg = widen(arg);
  }
  bool same = true;
  for (size_t i = 0; i < args.size(); ++i) same = same && args[i].same_as(node->args[i]);
  return same ? self : call(node->fn, std::move(args));
}

Expr ExprVectorizer::binary_of(const BinaryNode* node, const Expr& self) {
  Expr a = mutate(node->a), b = mutate(node->b);
  if (a.same_as(node->a) && b.same_as(node->b)) return self;
  if (Expr folded = fold_ramp(node->op, a, b)) return folded;
  if (a.type().lanes != b.type().lanes) a = widen(a), b = widen(b);
  return binary(node->op, a, b);
}

Expr ExprVectorizer::mutate_default(const Expr& self) {
  if (auto* node = self.as<BinaryNode>()) return binary_of(node, self);
  if (auto* node = self.as<SelectNode>()) {
    Expr condition = mutate(node->condition), yes = mutate(node->if_true), no = mutate(node->if_false);
    if (condition.type().lanes == 1 && yes.type().lanes == 1 && no.type().lanes == 1) {
      return ExprMutator::mutate_default(self);
    }
    return select(widen(condition), widen(yes), widen(no));
  }
  if (auto* node = self.as<CastNode>()) {
    Expr a = mutate(node->a);
    if (a.same_as(node->a)) return self;
    return std::make_shared<CastNode>(node->type.with_lanes(a.type().lanes), a);
  }
  if (auto* node = self.as<LetNode>()) {
    Expr value = mutate(node->value);
    bind(node->var.as<VarNode>(), value);
    Expr body = mutate(node->body);
    bindings_.pop_back();
    return body;
  }
  return ExprMutator::mutate_default(self);
}

}  // namespace gantry
