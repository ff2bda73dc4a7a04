// Versions of a nest with and without its guards.
//
//   for i in tile { if o*8 + i < N { body } }   =>   if o*8 + 7 < N { for i { body } } else { for i { if …
//   body } }
//
// A condition is hoisted as far out as it governs everything that stands there (initialisation that reads
// nothing aside), but not out of a loop in which it would never hold for all iterations.
#include <set>

#include "host/loops/lower.h"
#include "host/tensor/fold.h"
#include "host/tensor/simplifier.h"

namespace gantry {
namespace {

/// Statements that partitioning may add to a kernel.
constexpr int kMaxAddedStatements = 1500;

struct Candidate {
  std::vector<Expr> hoisted;  ///< all of these at the place reached imply the originals below it
  std::set<const ExprNode*> originals;
  bool crossed_loop = false;
};

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

void conjuncts(const Expr& e, std::vector<Candidate>& out) {
  const auto* node = e.as<BinaryNode>();
  if (node && node->op == BinaryOp::kAnd && node->type.dtype == DType::kBool) {
    conjuncts(node->a, out);
    conjuncts(node->b, out);
    return;
  }
  bool inequality = node && is_comparison(node->op) && node->op != BinaryOp::kEq && node->op != BinaryOp::kNe;
  if (inequality && node->a->type == ExprType{DType::kI64, 1} && is_pure(e)) {
    out.push_back({{e}, {e.get()}, false});
  }
}

bool reads_nothing(const Stmt& s) {
  bool none = true;
  walk(s, {}, [&](const Expr& e) { none &= e->kind != ExprKind::kLoad; });
  return none;
}

/// Replaces the conditions by true.
class Stripper : public StmtMutator {
 public:
  explicit Stripper(const std::set<const ExprNode*>& conditions) : conditions_(conditions) {}

 protected:
  Expr mutate_default(const Expr& self) override {
    return conditions_.count(self.get()) ? int_imm(DType::kBool, 1) : StmtMutator::mutate_default(self);
  }

 private:
  const std::set<const ExprNode*>& conditions_;
};

/// A copy with local buffers of its own.
class LocalCopier : public StmtMutator {
 protected:
  Stmt mutate_allocate(const AllocateNode* node, const Stmt&) override {
    auto copy = std::make_shared<BufferNode>(*node->buffer);
    copy->name += ".tail";
    buffers_[node->buffer.get()] = copy;
    return allocate(copy, mutate_stmt(node->body));
  }
  Stmt mutate_store(const StoreNode* node, const Stmt& self) override {
    auto it = buffers_.find(node->buffer.get());
    if (it == buffers_.end()) return StmtMutator::mutate_store(node, self);
    return store(it->second, mutate(node->index), mutate(node->value), mutate(node->predicate));
  }
  Expr mutate_load(const LoadNode* node, const Expr& self) override {
    auto it = buffers_.find(node->buffer.get());
    if (it == buffers_.end()) return StmtMutator::mutate_load(node, self);
    return load(it->second, mutate(node->index), mutate(node->predicate));
  }
  Stmt mutate_tile(const TileNode* node, const Stmt& self) override {
    auto it = node->buffer ? buffers_.find(node->buffer.get()) : buffers_.end();
    if (it == buffers_.end()) return StmtMutator::mutate_tile(node, self);
    auto copy = std::make_shared<TileNode>(*node);
    copy->buffer = it->second;
    copy->index = mutate(node->index);
    copy->stride = mutate(node->stride);
    return copy;
  }

 private:
  std::unordered_map<const BufferNode*, Buffer> buffers_;
};

class Partitioner {
 public:
  explicit Partitioner(const Stmt& root) {
    walk(root,
         [&](const Stmt& s) {
           if (const auto* loop = s.as<ForNode>()) simplifier_.bind(loop->var, loop->low, loop->extent);
         },
         {});
  }

  Stmt partition(const Stmt& s) {
    if (!s) return s;
    if (may_be_copied(s)) {
      Expr condition;
      std::set<const ExprNode*> originals;
      for (const Candidate& c : governing(s)) {
        if (!c.crossed_loop || kept(c)) continue;
        for (const Expr& part : c.hoisted) condition = condition ? condition && part : part;
        originals.insert(c.originals.begin(), c.originals.end());
      }
      int size = count(s);
      if (condition.get() && added_ + size <= kMaxAddedStatements) {
        added_ += size;
        Stmt full = partition(Stripper(originals).mutate_stmt(s));
        kept_.insert(originals.begin(), originals.end());
        Stmt rest = LocalCopier().mutate_stmt(partition_inside(s));
        for (const ExprNode* original : originals) kept_.erase(original);
        return if_stmt(condition, full, rest);
      }
    }
    return partition_inside(s);
  }

 private:
  // Of an iteration that works on what its thread has made once there is no second version: that would have
  // made nothing.
  static bool may_be_copied(const Stmt& s) {
    if (s->kind == StmtKind::kFor) return true;
    bool makes_once = false;
    walk(s, [&](const Stmt& inner) { makes_once |= inner->kind == StmtKind::kOnce; }, {});
    return !makes_once && (s->kind == StmtKind::kAllocate || s->kind == StmtKind::kBlock);
  }

  bool kept(const Candidate& c) const {
    for (const ExprNode* original : c.originals) {
      if (kept_.count(original)) return true;
    }
    return false;
  }

  static int count(const Stmt& s) {
    int total = 0;
    walk(s, [&](const Stmt&) { ++total; }, {});
    return total;
  }

  Stmt partition_inside(const Stmt& s) {
    switch (s->kind) {
      case StmtKind::kFor: {
        const auto* loop = s.as<ForNode>();
        Stmt body = partition(loop->body);
        return body.same_as(loop->body) ? s : for_loop_like(*loop, loop->var, loop->low, loop->extent, body);
      }
      case StmtKind::kIf: {
        const auto* node = s.as<IfNode>();
        Stmt then_case = partition(node->then_case), else_case = partition(node->else_case);
        if (then_case.same_as(node->then_case) && else_case.same_as(node->else_case)) return s;
        return if_stmt(node->condition, then_case, else_case);
      }
      case StmtKind::kBlock: {
        std::vector<Stmt> statements;
        bool same = true;
        for (const Stmt& inner : s.as<BlockNode>()->statements) {
          statements.push_back(partition(inner));
          same &= statements.back().same_as(inner);
        }
        return same ? s : block(std::move(statements));
      }
      case StmtKind::kAllocate: {
        const auto* node = s.as<AllocateNode>();
        Stmt body = partition(node->body);
        return body.same_as(node->body) ? s : allocate(node->buffer, body);
      }
      case StmtKind::kLet: {
        const auto* node = s.as<LetStmtNode>();
        Stmt body = partition(node->body);
        return body.same_as(node->body) ? s : let(node->var, node->value, body);
      }
      case StmtKind::kOnce: {
        Stmt body = partition(s.as<OnceNode>()->body);
        return body.same_as(s.as<OnceNode>()->body) ? s : once(body);
      }
      case StmtKind::kLaunch:
      case StmtKind::kStore:
      case StmtKind::kBarrier:
      case StmtKind::kShuffle:
      case StmtKind::kMma:
      case StmtKind::kTile:
      case StmtKind::kPrefetch:
      case StmtKind::kTranspose:
        return s;
    }
    return s;
  }

  /// Conditions that hold or fail for everything in `s`, in terms of what is known in front of `s`.
  std::vector<Candidate> governing(const Stmt& s) {
    std::vector<Candidate> found;
    if (!s) return found;
    switch (s->kind) {
      case StmtKind::kStore:
        walk(s.as<StoreNode>()->value, [&](const Expr& e) {
          const auto* node = e.as<CallNode>();
          if (node && node->fn == MathFn::kIfThenElse) conjuncts(node->args[0], found);
        });
        return found;
      case StmtKind::kIf:
        found = governing(s.as<IfNode>()->then_case);
        if (s.as<IfNode>()->else_case) return {};
        conjuncts(s.as<IfNode>()->condition, found);
        return found;
      case StmtKind::kFor:
        return leave_loop(s.as<ForNode>(), governing(s.as<ForNode>()->body));
      case StmtKind::kAllocate:
        return governing(s.as<AllocateNode>()->body);
      case StmtKind::kLet:
        for (Candidate& c : governing(s.as<LetStmtNode>()->body)) {
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

  std::vector<Candidate> common(const std::vector<Stmt>& statements) {
    std::vector<Candidate> shared;
    bool first = true;
    for (const Stmt& s : statements) {
      std::vector<Candidate> own = governing(s);
      if (own.empty() && reads_nothing(s)) continue;
      if (first) {
        shared = std::move(own);
        first = false;
        continue;
      }
      std::vector<Candidate> both;
      for (Candidate& a : shared) {
        bool matched = false;
        for (const Candidate& b : own) {
          if (!equal(a, b)) continue;
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

  static bool equal(const Candidate& a, const Candidate& b) {
    if (a.hoisted.size() != b.hoisted.size()) return false;
    for (size_t i = 0; i < a.hoisted.size(); ++i) {
      if (!structurally_equal(a.hoisted[i], b.hoisted[i])) return false;
    }
    return true;
  }

  std::vector<Candidate> leave_loop(const ForNode* loop, std::vector<Candidate> inside) {
    std::vector<Candidate> outside;
    for (Candidate& c : inside) {
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

  Simplifier simplifier_;
  std::set<const ExprNode*> kept_;  ///< conditions of the slow version that is being rewritten
  int added_ = 0;
};

}  // namespace

Stmt partition_guards(const Stmt& s) {
  return s ? Partitioner(s).partition(s) : s;
}

}  // namespace gantry
