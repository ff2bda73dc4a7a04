// Loops are divided where a condition changes:
//
//   for x in [0, 8) { … if 0 < x * 7 + i { body } }        =>   … x = 0 …; for x in [1, 8) { … body }
//   for c in [0, 6) { y[c] = if c < 4 then a[c] else b[c - 4] }   =>   for c in [0, 4) { y[c] = a[c] }; …
//
// Iterations in which it holds for some of what is inside are written apart each: the edges of padded data,
// where guards then depend on unrolled loops alone and vanish at compile time.
#include <algorithm>

#include "host/loops/local_copier.h"
#include "host/loops/lower.h"
#include "host/tensor/conjunction.h"
#include "host/tensor/fold.h"
#include "host/tensor/simplifier.h"

namespace gantry {
namespace {

/// Iterations of a loop that are tried, and of those in which guards vary.
constexpr int64_t kMaxIterations = 256, kMaxPeeled = 4;
/// Stores of all ranges, unrolled loops written out.
constexpr int64_t kMaxStores = 2400;

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
class IterationCopier : public LocalCopier {
 public:
  IterationCopier(const VarNode* var, Expr value) { values_[var] = std::move(value); }

 protected:
  Stmt mutate_for(const ForNode* node, const Stmt&) override {
    Expr low = mutate(node->low), extent = mutate(node->extent);
    Expr var = make_var(node->var.as<VarNode>()->name);
    values_[node->var.as<VarNode>()] = var;
    return for_loop_like(*node, var, low, extent, mutate_stmt(node->body));
  }
  std::string suffix() override { return ".edge"; }
  Expr mutate_var(const VarNode* node, const Expr& self) override {
    auto it = values_.find(node);
    return it == values_.end() ? self : it->second;
  }

 private:
  std::unordered_map<const VarNode*, Expr> values_;
};

class Peeler : public StmtMutator {
 protected:
  Stmt mutate_launch(const LaunchNode*, const Stmt& self) override { return self; }

  Stmt mutate_for(const ForNode* node, const Stmt& self) override {
    simplifier_.bind(node->var, node->low, node->extent);
    auto count = constant_of(node->extent);
    if (node->loop == LoopKind::kSerial && constant_of(node->low) == 0 && count && *count > 1 &&
        *count <= kMaxIterations) {
      std::vector<Range> ranges = ranges_of(*node, *count);
      const int64_t stores = count_stores(node->body);
      if (ranges.size() > 1 && static_cast<int64_t>(ranges.size()) * stores <= kMaxStores)
        return split(*node, ranges);
    }
    return StmtMutator::mutate_for(node, self);
  }

 private:
  /// Iterations in which the same conditions hold and fail; [low, high).
  struct Range {
    int64_t low, high;
  };
  enum class Truth : uint8_t { kFails, kHolds, kVaries };
  struct Condition {
    Expr claim;
    bool guard = false;  ///< of statements, not a choice between values
  };

  /// Without a condition worth it, all iterations are one range.
  std::vector<Range> ranges_of(const ForNode& loop, int64_t count) {
    std::vector<std::vector<Truth>> known, guards;
    int64_t varying = 0;
    for (const Condition& condition : conditions_of(loop)) {
      std::vector<Truth> truth = truth_of(condition.claim, loop, count);
      bool settled = std::any_of(truth.begin(), truth.end(), [](Truth t) { return t != Truth::kVaries; });
      if (!settled && (count > kMaxPeeled || !depends_inside(condition.claim, loop))) continue;
      // Choices at edges are left to partition_guards too: what is divided here is what has parts.
      const bool fails = std::any_of(truth.begin(), truth.end(), [](Truth t) { return t == Truth::kFails; });
      if (!condition.guard && !fails) continue;
      // Guards of tails are left to partition_guards.
      if (condition.guard && truth.front() == Truth::kHolds && truth.back() != Truth::kVaries) continue;
      if (condition.guard && truth.front() == Truth::kHolds && !has_leading_guard(loop, count)) continue;
      if (condition.guard) guards.push_back(truth);
      known.push_back(std::move(truth));
    }
    std::vector<Range> ranges;
    for (int64_t i = 0; i < count; ++i) {
      auto at = static_cast<size_t>(i);
      bool varies = false, same = i > 0;
      for (const auto& truth : known) {
        varies |= truth[at] == Truth::kVaries;
        same = same && truth[at] == truth[at - 1];
      }
      varying += std::any_of(guards.begin(), guards.end(),
                             [&](const auto& truth) { return truth[at] == Truth::kVaries; });
      if (same && !varies) {
        ++ranges.back().high;
      } else {
        ranges.push_back({i, i + 1});
      }
    }
    if (known.empty() || varying > kMaxPeeled) return {{0, count}};
    return ranges;
  }

  /// Some guard fails, or may fail, in the first iteration and holds later: data that is padded.
  bool has_leading_guard(const ForNode& loop, int64_t count) {
    for (const Condition& condition : conditions_of(loop)) {
      if (!condition.guard) continue;
      std::vector<Truth> truth = truth_of(condition.claim, loop, count);
      if (truth.front() != Truth::kHolds && truth.back() == Truth::kHolds) return true;
    }
    return false;
  }

  std::vector<Condition> conditions_of(const ForNode& loop) {
    std::vector<Condition> found;
    const auto* var = loop.var.as<VarNode>();
    walk(
        loop.body,
        [&](const Stmt& s) {
          if (const auto* inner = s.as<ForNode>()) simplifier_.bind(inner->var, inner->low, inner->extent);
          const auto* node = s.as<IfNode>();
          if (node && !node->else_case) add_claims(node->condition, var, true, found);
        },
        [&](const Expr& e) {
          const auto* node = e.as<CallNode>();
          if (node && node->fn == MathFn::kIfThenElse) add_claims(node->args[0], var, false, found);
        });
    return found;
  }

  /// The parts of a condition that depend on the loop's variable and on nothing that is loaded, each once.
  static void add_claims(const Expr& condition, const VarNode* var, bool guard, std::vector<Condition>& out) {
    std::vector<Expr> conjuncts;
    collect_conjuncts(condition, conjuncts);
    for (const Expr& e : conjuncts) {
      auto same = [&](const Condition& c) { return structurally_equal(c.claim, e); };
      bool arithmetic = true;
      walk(e, [&](const Expr& x) { arithmetic = arithmetic && x->kind != ExprKind::kLoad; });
      if (arithmetic && mentions(e, var) && std::none_of(out.begin(), out.end(), same))
        out.push_back({e, guard});
    }
  }

  std::vector<Truth> truth_of(const Expr& claim, const ForNode& loop, int64_t count) {
    std::vector<Truth> truth;
    for (int64_t i = 0; i < count; ++i) {
      Expr here = simplifier_.simplify(substitute(claim, {{loop.var.as<VarNode>(), Expr(i)}}));
      truth.push_back(simplifier_.prove(here)                ? Truth::kHolds
                      : simplifier_.prove(logical_not(here)) ? Truth::kFails
                                                             : Truth::kVaries);
    }
    return truth;
  }

  /// All variables are the loop's or those of loops inside.
  static bool depends_inside(const Expr& claim, const ForNode& loop) {
    std::vector<const VarNode*> own{loop.var.as<VarNode>()};
    walk(loop.body,
         [&](const Stmt& s) {
           if (const auto* inner = s.as<ForNode>()) own.push_back(inner->var.as<VarNode>());
         },
         {});
    bool inside = true;
    walk(claim, [&](const Expr& e) {
      const auto* var = e.as<VarNode>();
      if (var) inside = inside && std::find(own.begin(), own.end(), var) != own.end();
    });
    return inside;
  }

  Stmt split(const ForNode& loop, const std::vector<Range>& ranges) {
    std::vector<Stmt> parts;
    for (const Range& range : ranges) {
      if (range.high == range.low + 1) {
        IterationCopier copier(loop.var.as<VarNode>(), Expr(range.low));
        parts.push_back(mutate_stmt(copier.mutate_stmt(loop.body)));
        continue;
      }
      Expr var = make_var(loop.var.as<VarNode>()->name), low(range.low), extent(range.high - range.low);
      simplifier_.bind(var, low, extent);
      Stmt body = mutate_stmt(IterationCopier(loop.var.as<VarNode>(), var).mutate_stmt(loop.body));
      parts.push_back(for_loop_like(loop, var, low, extent, body));
    }
    return block(std::move(parts));
  }

  Simplifier simplifier_;
};

}  // namespace

Stmt peel_edges(const Stmt& s) {
  return Peeler().mutate_stmt(s);
}

}  // namespace gantry
