// The first and last iterations of loops over padded data are written apart:
//
//   for x in [0, 8) { … if 0 < x * 7 + i { body } }   =>   … x = 0 …; for x in [1, 8) { … body }
//
// There the guards depend on unrolled loops alone and vanish at compile time, so that neither the edges nor
// the interior have branches.
#include <algorithm>

#include "host/loops/lower.h"
#include "host/tensor/fold.h"
#include "host/tensor/simplifier.h"

namespace gantry {
namespace {

/// Iterations of a loop that are tried, and that are written apart at most.
constexpr int64_t kMaxIterations = 256, kMaxPeeled = 4;
/// Stores of one iteration, unrolled loops written out.
constexpr int64_t kMaxStores = 800;

bool mentions(const Expr& e, const VarNode* var) {
  bool found = false;
  walk(e, [&](const Expr& x) { found |= x.get() == var; });
  return found;
}

int64_t count_stores(const Stmt& s) {
  if (!s) return 0;
  switch (s->kind) {
    case StmtKind::kFor: {
      const auto* loop = s.as<ForNode>();
      bool unrolled = loop->loop == LoopKind::kUnrolled;
      return count_stores(loop->body) * (unrolled ? constant_of(loop->extent).value_or(1) : 1);
    }
    case StmtKind::kIf:
      return count_stores(s.as<IfNode>()->then_case) + count_stores(s.as<IfNode>()->else_case);
    case StmtKind::kBlock: {
      int64_t total = 0;
      for (const Stmt& inner : s.as<BlockNode>()->statements) total += count_stores(inner);
      return total;
    }
    case StmtKind::kAllocate:
      return count_stores(s.as<AllocateNode>()->body);
    case StmtKind::kLet:
      return count_stores(s.as<LetStmtNode>()->body);
    default:
      return 1;
  }
}

/// A copy for one iteration, with local buffers and inner loop variables of its own.
class IterationCopier : public StmtMutator {
 public:
  IterationCopier(const VarNode* var, Expr value) { values_[var] = std::move(value); }

 protected:
  Stmt mutate_for(const ForNode* node, const Stmt&) override {
    Expr low = mutate(node->low), extent = mutate(node->extent);
    Expr var = make_var(node->var.as<VarNode>()->name);
    values_[node->var.as<VarNode>()] = var;
    return for_loop(var, low, extent, node->loop, mutate_stmt(node->body));
  }
  Stmt mutate_allocate(const AllocateNode* node, const Stmt&) override {
    auto copy = std::make_shared<BufferNode>(*node->buffer);
    copy->name += ".edge";
    buffers_[node->buffer.get()] = copy;
    return allocate(copy, mutate_stmt(node->body));
  }
  Stmt mutate_store(const StoreNode* node, const Stmt&) override {
    auto it = buffers_.find(node->buffer.get());
    return store(it == buffers_.end() ? node->buffer : it->second, mutate(node->index), mutate(node->value),
                 mutate(node->predicate));
  }
  Expr mutate_load(const LoadNode* node, const Expr&) override {
    auto it = buffers_.find(node->buffer.get());
    return load(it == buffers_.end() ? node->buffer : it->second, mutate(node->index),
                mutate(node->predicate));
  }
  Expr mutate_var(const VarNode* node, const Expr& self) override {
    auto it = values_.find(node);
    return it == values_.end() ? self : it->second;
  }

 private:
  std::unordered_map<const VarNode*, Expr> values_;
  std::unordered_map<const BufferNode*, Buffer> buffers_;
};

class Peeler : public StmtMutator {
 protected:
  Stmt mutate_launch(const LaunchNode*, const Stmt& self) override { return self; }

  Stmt mutate_for(const ForNode* node, const Stmt& self) override {
    simplifier_.bind(node->var, node->low, node->extent);
    auto count = constant_of(node->extent);
    if (node->loop == LoopKind::kSerial && constant_of(node->low) == 0 && count && *count > 1 &&
        *count <= kMaxIterations && count_stores(node->body) <= kMaxStores) {
      if (auto interior = interior_of(*node, *count)) return split(*node, *count, *interior);
    }
    return StmtMutator::mutate_for(node, self);
  }

 private:
  struct Range {
    int64_t low, high;
  };

  /// The iterations in which all guards hold that hold in some; nothing if these are not what is inside of two
  /// edges.
  std::optional<Range> interior_of(const ForNode& loop, int64_t count) {
    const auto* var = loop.var.as<VarNode>();
    std::vector<Expr> guards;
    walk(loop.body,
         [&](const Stmt& s) {
           if (const auto* inner = s.as<ForNode>()) simplifier_.bind(inner->var, inner->low, inner->extent);
           const auto* node = s.as<IfNode>();
           if (node && !node->else_case) add_conjuncts(node->condition, var, guards);
         },
         {});
    std::vector<bool> inside(static_cast<size_t>(count), true);
    bool varies = false;
    for (const Expr& guard : guards) {
      std::vector<bool> holds;
      for (int64_t i = 0; i < count; ++i)
        holds.push_back(simplifier_.prove(substitute(guard, {{var, Expr(i)}})));
      int64_t held = std::count(holds.begin(), holds.end(), true);
      if (held == 0) {  // nowhere, with so few iterations; or it takes more than this loop to decide
        if (count > 2) continue;
        varies = true;
        inside.assign(inside.size(), false);
      }
      varies |= held < count;
      for (size_t i = 0; i < holds.size(); ++i) inside[i] = inside[i] && (holds[i] || held == 0);
    }
    if (!varies) return std::nullopt;
    auto first = std::find(inside.begin(), inside.end(), true);
    if (first == inside.end()) return count <= kMaxPeeled ? std::optional<Range>({0, 0}) : std::nullopt;
    auto last = std::find(first, inside.end(), false);
    Range range{first - inside.begin(), last - inside.begin()};
    if (range.low == 0 || count - (range.high - range.low) > kMaxPeeled) return std::nullopt;
    return range;
  }

  void add_conjuncts(const Expr& e, const VarNode* var, std::vector<Expr>& out) const {
    const auto* node = e.as<BinaryNode>();
    if (node && node->op == BinaryOp::kAnd && node->type.dtype == DType::kBool) {
      add_conjuncts(node->a, var, out);
      add_conjuncts(node->b, var, out);
    } else if (mentions(e, var)) {
      out.push_back(e);
    }
  }

  Stmt split(const ForNode& loop, int64_t count, Range interior) {
    std::vector<Stmt> parts;
    auto iteration = [&](int64_t i) {
      parts.push_back(
          mutate_stmt(IterationCopier(loop.var.as<VarNode>(), Expr(i)).mutate_stmt(loop.body)));
    };
    for (int64_t i = 0; i < interior.low; ++i) iteration(i);
    if (interior.high > interior.low) {
      Expr low(interior.low), extent(interior.high - interior.low);
      simplifier_.bind(loop.var, low, extent);
      parts.push_back(for_loop(loop.var, low, extent, loop.loop, mutate_stmt(loop.body)));
    }
    for (int64_t i = interior.high; i < count; ++i) iteration(i);
    return block(std::move(parts));
  }

  Simplifier simplifier_;
};

}  // namespace

Stmt peel_edges(const Stmt& s) {
  return Peeler().mutate_stmt(s);
}

}  // namespace gantry
