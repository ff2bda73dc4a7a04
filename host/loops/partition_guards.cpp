// Versions of a nest with and without its guards.
//
//   for i in tile { if o*8 + i < N { body } }   =>   if o*8 + 7 < N { for i { body } } else { for i { if …
//   body } }
//
// A condition is hoisted as far out as it governs everything that stands there (initialisation that reads
// nothing aside), but not out of a loop in which it would never hold for all iterations. Where it depends on a size
// that is known only when the kernel runs, the guarded version may be what always runs, and is divided once more by
// the loops inside of it:
//
//   else { for o { for i { if c*64 + o*8 + i < N { body } } } }
//                                 =>   else { for o { if c*64 + o*8 + 7 < N { for i { body } } else { … } } }
//
// Of the few rows of a tile there is a version for every number of them that may be left, none of which asks:
//
//   else { for i in [0, +4) { if o*4 + i < N { body } } }
//                                 =>   else if o*4 + 2 < N { for i in [0, +3) { body } } else if o*4 + 1 < N { …
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "host/loops/governing_conditions.h"
#include "host/loops/local_copier.h"
#include "host/loops/loop_limits.h"
#include "host/loops/lower.h"
#include "host/tensor/fold.h"
#include "host/tensor/simplifier.h"

namespace gantry {
namespace {

/// Statements that partitioning may add to a kernel.
constexpr int kMaxAddedStatements = 1500;

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

/// A copy with local buffers of its own, whose names end in `suffix`.
class VersionCopier : public LocalCopier {
 public:
  explicit VersionCopier(std::string suffix) : suffix_(std::move(suffix)) {}

 protected:
  std::string suffix() override { return suffix_; }

 private:
  std::string suffix_;
};

/// Loops over the rows of a tile, of which conditions let the first ones through.
class RowLoops {
 public:
  /// Of conditions that stand in `s`: the loops in it that they depend on.
  RowLoops(const Stmt& s, const std::set<const ExprNode*>& conditions) : conditions_(conditions) {
    visit(s, false);
    for (const auto& [condition, loop] : of_) usable_ = usable_ && is_guarded(loop->body, loop);
  }

  /// How many iterations each of them has, if every condition depends on one, nothing in them happens without one of
  /// their own, nothing beside them that is seen from outside happens without one, all have as many, and some are
  /// written out in every step of a loop around them; 0: there is no such number.
  int64_t rows() const {
    return usable_ && in_every_step_ && noted_.size() == conditions_.size() ? rows_ : 0;
  }
  /// The condition of that row; null where it is not one for all.
  Expr at(int64_t row, Simplifier& simplifier) const {
    Expr common;
    for (const auto& [condition, loop] : of_) {
      const Expr here = simplifier.simplify(substitute(condition, {{loop->var.as<VarNode>(), Expr(row)}}));
      if (common.get() && !structurally_equal(common, here)) return {};
      common = here;
    }
    return common;
  }
  bool contain(const ForNode* loop) const {
    return std::ranges::any_of(of_, [&](const auto& entry) { return entry.second == loop; });
  }

 private:
  /// `guarded`: a condition stands around `s`.
  void visit(const Stmt& s, bool guarded) {
    if (!s) return;
    if (const auto* loop = s.as<ForNode>()) {
      around_.push_back(loop);
      visit(loop->body, guarded);
      around_.pop_back();
    } else if (const auto* node = s.as<IfNode>()) {
      const size_t noted = noted_.size();
      walk(node->condition, [&](const Expr& e) { note(e); });
      visit(node->then_case, guarded || noted_.size() > noted);
      visit(node->else_case, guarded);
    } else if (const auto* statements = s.as<BlockNode>()) {
      for (const Stmt& inner : statements->statements) visit(inner, guarded);
    } else if (const auto* buffer = s.as<AllocateNode>()) {
      locals_.insert(buffer->buffer.get());
      visit(buffer->body, guarded);
    } else if (const auto* value = s.as<LetStmtNode>()) {
      visit(value->body, guarded);
    } else {
      // Where no row is left nothing of all this happens.
      usable_ = usable_ && (guarded || stays_inside(s));
      // A condition in a value says what else is stored.
      walk(s, {}, [&](const Expr& e) { usable_ = usable_ && conditions_.count(e.get()) == 0; });
    }
  }

  bool stays_inside(const Stmt& s) const {
    const auto* node = s.as<StoreNode>();
    return s->kind == StmtKind::kPrefetch || (node && locals_.count(node->buffer.get()) > 0);
  }

  void note(const Expr& e) {
    if (conditions_.count(e.get()) == 0) return;
    const ForNode* of = nullptr;
    for (const ForNode* loop : around_) {
      if (!mentions(e, loop->var)) continue;
      usable_ = usable_ && of == nullptr;
      of = loop;
    }
    const auto extent = of ? constant_of(of->extent) : std::nullopt;
    if (!extent || constant_of(of->low) != 0 || (rows_ != 0 && rows_ != *extent)) {
      usable_ = false;
      return;
    }
    rows_ = *extent;
    in_every_step_ = in_every_step_ || (of->loop == LoopKind::kUnrolled && of != around_.front());
    of_.emplace_back(e, of);
    noted_.insert(e.get());
  }

  /// Whether all that happens in `s` is under one of the conditions that depend on the loop.
  bool is_guarded(const Stmt& s, const ForNode* of) const {
    if (const auto* loop = s.as<ForNode>()) return is_guarded(loop->body, of);
    if (const auto* buffer = s.as<AllocateNode>()) return is_guarded(buffer->body, of);
    if (const auto* value = s.as<LetStmtNode>()) return is_guarded(value->body, of);
    if (const auto* statements = s.as<BlockNode>())
      return std::ranges::all_of(statements->statements, [&](const Stmt& inner) { return is_guarded(inner, of); });
    const auto* node = s.as<IfNode>();
    if (node == nullptr) return false;
    bool found = false;
    walk(node->condition, [&](const Expr& e) {
      found |= std::ranges::any_of(
          of_, [&](const auto& entry) { return entry.first.get() == e.get() && entry.second == of; });
    });
    return found && !node->else_case;
  }

  const std::set<const ExprNode*>& conditions_;
  std::vector<const ForNode*> around_;
  std::vector<std::pair<Expr, const ForNode*>> of_;
  std::set<const ExprNode*> noted_;
  std::set<const BufferNode*> locals_;
  int64_t rows_ = 0;
  bool in_every_step_ = false, usable_ = true;
};

/// The first rows of a tile, without the conditions that let them through.
class FirstRows : public Stripper {
 public:
  FirstRows(const RowLoops& loops, const std::set<const ExprNode*>& conditions, int64_t rows)
      : Stripper(conditions), loops_(loops), rows_(rows) {}

 protected:
  Stmt mutate_for(const ForNode* node, const Stmt& self) override {
    if (!loops_.contain(node)) return Stripper::mutate_for(node, self);
    return for_loop_like(*node, node->var, node->low, Expr(rows_), mutate_stmt(node->body));
  }

 private:
  const RowLoops& loops_;
  int64_t rows_;
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
      const std::vector<GoverningCondition> candidates = governing_conditions(s, simplifier_);
      for (const GoverningCondition& c : candidates) {
        if (Stmt versions = by_rows(s, c)) return versions;
      }
      Expr condition;
      std::set<const ExprNode*> originals;
      std::vector<GoverningCondition> taken;
      for (const GoverningCondition& c : candidates) {
        if (!c.crossed_loop || kept(c, s)) continue;
        for (const Expr& part : c.hoisted) condition = condition ? condition && part : part;
        originals.insert(c.originals.begin(), c.originals.end());
        taken.push_back(c);
      }
      int size = count(s);
      if (condition.get() && added_ + size <= kMaxAddedStatements) {
        added_ += size;
        Stmt full = partition(Stripper(originals).mutate_stmt(s));
        const auto kept_outside = kept_;
        for (const GoverningCondition& c : taken) {
          for (const ExprNode* original : c.originals) kept_[original].push_back(c.hoisted);
        }
        Stmt rest = VersionCopier(".tail").mutate_stmt(partition_inside(s));
        kept_ = kept_outside;
        return if_stmt(condition, full, rest);
      }
    }
    return partition_inside(s);
  }

 private:
  /// A version for every number of rows that a tile may have, most first; null where the condition is no such.
  Stmt by_rows(const Stmt& s, const GoverningCondition& c) {
    if (!c.crossed_loop || c.hoisted.size() != 1 || !mentions_size(c.hoisted)) return {};
    const RowLoops loops(s, c.originals);
    const int64_t rows = loops.rows();
    if (rows < 2 || rows > kMostRowVersions) return {};
    const int size = count(s) * static_cast<int>(rows);
    if (added_ + size > kMaxAddedStatements) return {};
    // What lets the last row through lets all others through.
    const Expr last = loops.at(rows - 1, simplifier_);
    if (!last || !structurally_equal(last, c.hoisted[0])) return {};
    for (int64_t row = 0; row + 1 < rows; ++row) {
      if (!loops.at(row, simplifier_)) return {};
    }
    added_ += size;
    Stmt versions;
    for (int64_t n = 1; n <= rows; ++n) {
      Stmt version = partition(FirstRows(loops, c.originals, n).mutate_stmt(s));
      if (n < rows) version = VersionCopier(fmt::format(".rows{}", n)).mutate_stmt(version);
      versions = if_stmt(loops.at(n - 1, simplifier_), version, versions);
    }
    return versions;
  }

  // Of an iteration that works on what its thread has made once there is no second version: that would have
  // made nothing.
  static bool may_be_copied(const Stmt& s) {
    if (s->kind == StmtKind::kFor) return true;
    bool makes_once = false;
    walk(s, [&](const Stmt& inner) { makes_once |= inner->kind == StmtKind::kOnce; }, {});
    return !makes_once && (s->kind == StmtKind::kAllocate || s->kind == StmtKind::kBlock);
  }

  /// Whether `s`, in a guarded version, is not to be divided by the condition once more.
  bool kept(const GoverningCondition& c, const Stmt& s) const {
    return std::ranges::any_of(c.originals, [&](const ExprNode* original) {
      const auto hoisted = kept_.find(original);
      if (hoisted == kept_.end()) return false;
      return hoisted->second.size() > 1 || are_equal(hoisted->second.front(), c.hoisted) ||
             !mentions_size(c.hoisted) || !has_steps(s);
    });
  }

  /// Vectors by themselves are faster with a mask than asked for one by one.
  static bool has_steps(const Stmt& s) {
    bool found = false;
    walk(s,
         [&](const Stmt& inner) {
           found |= inner.as<ForNode>() && inner.as<ForNode>()->loop == LoopKind::kSerial;
         },
         {});
    return found;
  }

  static bool mentions_size(const std::vector<Expr>& conditions) {
    bool found = false;
    for (const Expr& condition : conditions) {
      walk(condition, [&](const Expr& e) { found |= e.as<VarNode>() && e.as<VarNode>()->is_symbol; });
    }
    return found;
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

  Simplifier simplifier_;
  /// Of the guarded versions that are being rewritten, the conditions and what was hoisted of them.
  std::map<const ExprNode*, std::vector<std::vector<Expr>>> kept_;
  int added_ = 0;
};

}  // namespace

Stmt partition_guards(const Stmt& s) {
  return s ? Partitioner(s).partition(s) : s;
}

}  // namespace gantry
