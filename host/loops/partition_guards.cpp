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

#include "host/loops/local_copier.h"
#include "host/loops/loop_limits.h"
#include "host/loops/lower.h"
#include "host/tensor/conjunction.h"
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

/// Of the parts of a condition those that may be hoisted.
void add_candidates(const Expr& condition, std::vector<Candidate>& out) {
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
      const std::vector<Candidate> candidates = governing(s);
      for (const Candidate& c : candidates) {
        if (Stmt versions = by_rows(s, c)) return versions;
      }
      Expr condition;
      std::set<const ExprNode*> originals;
      std::vector<Candidate> taken;
      for (const Candidate& c : candidates) {
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
        for (const Candidate& c : taken) {
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
  Stmt by_rows(const Stmt& s, const Candidate& c) {
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
  bool kept(const Candidate& c, const Stmt& s) const {
    return std::ranges::any_of(c.originals, [&](const ExprNode* original) {
      const auto hoisted = kept_.find(original);
      if (hoisted == kept_.end()) return false;
      return hoisted->second.size() > 1 || equal(hoisted->second.front(), c.hoisted) ||
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

  /// Conditions that hold or fail for everything in `s`, in terms of what is known in front of `s`.
  std::vector<Candidate> governing(const Stmt& s) {
    std::vector<Candidate> found;
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
          if (!equal(a.hoisted, b.hoisted)) continue;
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

  static bool equal(const std::vector<Expr>& a, const std::vector<Expr>& b) {
    return std::ranges::equal(a, b, [](const Expr& x, const Expr& y) { return structurally_equal(x, y); });
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
  /// Of the guarded versions that are being rewritten, the conditions and what was hoisted of them.
  std::map<const ExprNode*, std::vector<std::vector<Expr>>> kept_;
  int added_ = 0;
};

}  // namespace

Stmt partition_guards(const Stmt& s) {
  return s ? Partitioner(s).partition(s) : s;
}

}  // namespace gantry
