#include <optional>

#include "host/loops/lower.h"
#include "host/loops/ranged_mutator.h"
#include "host/loops/vectorize_expr.h"

namespace gantry {
namespace {

// The body of a vectorized loop in vector form, or nothing where it has none.
class BodyVectorizer {
 public:
  BodyVectorizer(const VarNode* var, Expr low, int lanes) : expr_(var, std::move(low), lanes) {}

  std::optional<Stmt> run(const Stmt& s) {
    if (!s) return Stmt();
    if (auto* node = s.as<StoreNode>()) return run_store(*node);
    if (auto* node = s.as<BlockNode>()) return run_block(*node);
    if (auto* node = s.as<IfNode>()) return run_if(*node);
    if (auto* node = s.as<ForNode>()) return run_for(*node);
    if (auto* node = s.as<LetStmtNode>()) return run_let(*node);
    return std::nullopt;  // a buffer of its own a lane
  }

 private:
  std::optional<Stmt> run_store(const StoreNode& node) {
    Expr index = expr_.mutate(node.index), value = expr_.mutate(node.value);
    Expr predicate = node.predicate ? expr_.mutate(node.predicate) : Expr();
    predicate = expr_.both(predicate, expr_.predicate());
    if (index.type().lanes == 1) {
      // All lanes write one place: fine only if they write the same.
      if (value.type().lanes > 1 || (predicate.get() && predicate.type().lanes > 1)) return std::nullopt;
      return store(node.buffer, index, value, predicate);
    }
    return store(node.buffer, index, expr_.widen(value), predicate ? expr_.widen(predicate) : Expr());
  }

  std::optional<Stmt> run_block(const BlockNode& node) {
    std::vector<Stmt> statements;
    for (const Stmt& inner : node.statements) {
      auto done = run(inner);
      if (!done) return std::nullopt;
      statements.push_back(*done);
    }
    return block(std::move(statements));
  }

  std::optional<Stmt> run_if(const IfNode& node) {
    Expr condition = expr_.mutate(node.condition);
    if (condition.type().lanes == 1) {
      auto then_case = run(node.then_case), else_case = run(node.else_case);
      if (!then_case || !else_case) return std::nullopt;
      return if_stmt(condition, *then_case, *else_case);
    }
    auto then_case = run_under(condition, node.then_case);
    auto else_case = run_under(logical_not(condition), node.else_case);
    if (!then_case || !else_case) return std::nullopt;
    return block({*then_case, *else_case});
  }

  std::optional<Stmt> run_under(const Expr& condition, const Stmt& s) {
    if (!s) return Stmt();
    Expr outer = expr_.predicate();
    expr_.set_predicate(expr_.both(outer, condition));
    auto done = run(s);
    expr_.set_predicate(outer);
    return done;
  }

  std::optional<Stmt> run_for(const ForNode& node) {
    Expr low = expr_.mutate(node.low), extent = expr_.mutate(node.extent);
    if (low.type().lanes > 1 || extent.type().lanes > 1) return std::nullopt;
    auto body = run(node.body);
    if (!body) return std::nullopt;
    // A loop around vectors is vectorized once; inner requests become plain loops.
    LoopKind kind = node.loop == LoopKind::kVectorized ? LoopKind::kSerial : node.loop;
    return for_loop(node.var, low, extent, kind, *body);
  }

  std::optional<Stmt> run_let(const LetStmtNode& node) {
    Expr value = expr_.mutate(node.value);
    if (value.type().lanes > 1) {
      expr_.bind(node.var.as<VarNode>(), value);
      return run(node.body);
    }
    auto body = run(node.body);
    if (!body) return std::nullopt;
    return let(node.var, value, *body);
  }

  ExprVectorizer expr_;
};

bool loads_from(const Expr& e, const BufferNode* buffer) {
  bool found = false;
  walk(e, [&](const Expr& node) {
    auto* load = node.as<LoadNode>();
    found = found || (load && load->buffer.get() == buffer);
  });
  return found;
}

// What a store adds to what is there: `buffer[index] = buffer[index] (op) term`.
struct Accumulation {
  const StoreNode* store = nullptr;
  ReduceKind kind = ReduceKind::kSum;
  Expr term;
  Expr guard;  ///< condition around the store inside the vectorized loop; may be null
};

std::optional<ReduceKind> kind_of(BinaryOp op) {
  switch (op) {
    case BinaryOp::kAdd: return ReduceKind::kSum;
    case BinaryOp::kMul: return ReduceKind::kProd;
    case BinaryOp::kMax: return ReduceKind::kMax;
    case BinaryOp::kMin: return ReduceKind::kMin;
    default: return std::nullopt;
  }
}

std::optional<Accumulation> accumulation_of(const Stmt& body) {
  Accumulation found;
  Stmt inner = body;
  if (auto* guard = inner.as<IfNode>(); guard && !guard->else_case) {
    found.guard = guard->condition;
    inner = guard->then_case;
  }
  found.store = inner.as<StoreNode>();
  if (!found.store || found.store->predicate.get()) return std::nullopt;
  auto* value = found.store->value.as<BinaryNode>();
  if (!value) return std::nullopt;
  auto kind = kind_of(value->op);
  auto* old = value->a.as<LoadNode>();
  if (!kind || !old || old->buffer != found.store->buffer || old->predicate.get() ||
      !structurally_equal(old->index, found.store->index) || loads_from(value->b, old->buffer.get())) {
    return std::nullopt;
  }
  found.kind = *kind;
  found.term = value->b;
  return found;
}

// A nest of serial loops around a vectorized reduction, from the outermost loop whose variable the accumulator's
// place does not depend on.
struct ReductionNest {
  const ForNode* vector_loop = nullptr;
  Accumulation accumulation;
};

std::optional<ReductionNest> reduction_nest(const ForNode* outer) {
  std::vector<const ForNode*> loops;
  const ForNode* loop = outer;
  while (true) {
    loops.push_back(loop);
    if (loop->loop == LoopKind::kVectorized) break;
    if (loop->loop == LoopKind::kParallel) return std::nullopt;
    Stmt body = loop->body;
    // Guards of outer loops stay where they are.
    while (auto* guard = body.as<IfNode>()) {
      if (guard->else_case) return std::nullopt;
      body = guard->then_case;
    }
    loop = body.as<ForNode>();
    if (!loop) return std::nullopt;
  }
  auto* lanes = loop->extent.as<IntImmNode>();
  if (!lanes || lanes->value < 2) return std::nullopt;
  auto accumulation = accumulation_of(loop->body);
  if (!accumulation) return std::nullopt;
  for (const ForNode* each : loops) {
    if (uses_var(accumulation->store->index, each->var.as<VarNode>())) return std::nullopt;
  }
  return ReductionNest{loop, *accumulation};
}

// Replaces one loop of a nest.
class LoopReplacer : public StmtMutator {
 public:
  LoopReplacer(const ForNode* loop, Stmt replacement) : loop_(loop), replacement_(std::move(replacement)) {}

 protected:
  Stmt mutate_for(const ForNode* node, const Stmt& self) override {
    return node == loop_ ? replacement_ : StmtMutator::mutate_for(node, self);
  }

 private:
  const ForNode* loop_;
  Stmt replacement_;
};

Expr tree_combine(ReduceKind kind, const Buffer& lanes, int64_t begin, int64_t count) {
  if (count == 1) return load(lanes, Expr(begin));
  int64_t half = count / 2;
  return combine(kind, tree_combine(kind, lanes, begin, half), tree_combine(kind, lanes, begin + half, count - half));
}

class LoopVectorizer : public StmtMutator {
 protected:
  Stmt mutate_for(const ForNode* node, const Stmt& self) override {
    if (node->loop == LoopKind::kSerial || node->loop == LoopKind::kVectorized) {
      if (auto nest = reduction_nest(node)) {
        if (Stmt done = lane_accumulators(self, *nest)) return done;
      }
    }
    if (node->loop != LoopKind::kVectorized) return StmtMutator::mutate_for(node, self);
    auto* extent = node->extent.as<IntImmNode>();
    if (extent && extent->value >= 2) {
      auto body = BodyVectorizer(node->var.as<VarNode>(), node->low, static_cast<int>(extent->value)).run(node->body);
      if (body) return *body;
    }
    return for_loop(node->var, node->low, node->extent, LoopKind::kSerial, mutate_stmt(node->body));
  }

 private:
  // acc[lane] starts at the identity, takes every lane's terms, and is combined into its place after the nest.
  Stmt lane_accumulators(const Stmt& nest, const ReductionNest& found) {
    const ForNode* loop = found.vector_loop;
    const Accumulation& a = found.accumulation;
    int64_t lanes = loop->extent.as<IntImmNode>()->value;
    DType dtype = a.store->buffer->dtype;
    auto acc = std::make_shared<BufferNode>();
    acc->name = a.store->buffer->name + "_lanes";
    acc->dtype = dtype;
    acc->element_count = Expr(lanes);
    acc->scope = BufferScope::kLocal;
    acc->alignment = 64;
    Buffer buffer = acc;

    Expr lane = loop->var - loop->low;
    // A lane beyond the edge adds the identity; its loads are not made.
    Expr term = a.guard ? if_then_else(a.guard, a.term, identity_of(a.kind, dtype)) : a.term;
    Stmt update = store(buffer, lane, combine(a.kind, load(buffer, lane), term));
    auto vector_update = BodyVectorizer(loop->var.as<VarNode>(), loop->low, static_cast<int>(lanes)).run(update);
    if (!vector_update) return {};

    Expr init_lane = make_var("lane");
    auto init = BodyVectorizer(init_lane.as<VarNode>(), Expr(0), static_cast<int>(lanes))
                    .run(store(buffer, init_lane, identity_of(a.kind, dtype)));
    Stmt body = LoopReplacer(loop, *vector_update).mutate_stmt(nest);
    Expr total = combine(a.kind, load(a.store->buffer, a.store->index), tree_combine(a.kind, buffer, 0, lanes));
    return allocate(buffer, block({*init, body, store(a.store->buffer, a.store->index, total)}));
  }
};

}  // namespace

Stmt vectorize_loops(const Stmt& s) { return s ? LoopVectorizer().mutate_stmt(s) : s; }

}  // namespace gantry
