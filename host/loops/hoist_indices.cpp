// Divisions by sizes that are known only when the kernel runs, in indices that a loop does not change.
//
//   for k in [0, +3)                               =>   let index.0 = floordiv(p, w) * 64 + mod(p, w) * 8
//     … x[floordiv(p, w) * 64 + mod(p, w) * 8 + k]      for k in [0, +3)
//                                                         … x[index.0 + k]
//
// A back end moves the divisions out by itself, but not what is added to them: an index is a sum in whatever order,
// and a tile of rows that begin anywhere would add up an address for every row in every step. On CPUs; threads of a
// GPU have the registers but not the time to fill them.
#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "host/loops/index_terms.h"
#include "host/loops/lower.h"
#include "host/tensor/fold.h"

namespace gantry {

void collect_terms(const Expr& e, std::vector<Expr>& terms) {
  const auto* node = e.as<BinaryNode>();
  if (node && node->op == BinaryOp::kAdd) {
    collect_terms(node->a, terms);
    collect_terms(node->b, terms);
    return;
  }
  terms.push_back(e);
}

bool divides_by_size(const Expr& e) {
  bool found = false;
  walk(e, [&](const Expr& part) {
    const auto* node = part.as<BinaryNode>();
    found |= node && (node->op == BinaryOp::kFloorDiv || node->op == BinaryOp::kMod) && !constant_of(node->b);
  });
  return found;
}

bool divides_integers(const BinaryNode& node) {
  if (is_float(node.type.dtype)) return false;
  return node.op == BinaryOp::kDiv || node.op == BinaryOp::kFloorDiv || node.op == BinaryOp::kMod ||
         node.op == BinaryOp::kRem;
}

bool is_of_sizes(const Expr& e) {
  bool only_sizes = true;
  walk(e, [&](const Expr& part) {
    const auto* var = part.as<VarNode>();
    only_sizes = only_sizes && !part.as<LoadNode>() && !(var && !var->is_symbol);
  });
  return only_sizes;
}

Expr nonzero_divisor(const Expr& b, const IndexSigns& signs) {
  const DType dtype = b.type().dtype;
  const Expr one = int_imm(dtype, 1);
  const bool is_size = dtype == DType::kI64 && (is_of_sizes(b) || signs.is_non_negative(b));
  // Of a maximum the sign is known.
  return is_size ? max(b, one) : select(eq(b, int_imm(dtype, 0)), one, b);
}

namespace {

Expr sum_of(const std::vector<Expr>& terms) {
  Expr sum = terms[0];
  for (size_t i = 1; i < terms.size(); ++i) sum = sum + terms[i];
  return sum;
}

/// Divisors that are not 0: where the index is used they are not, where it is not they may be.
class SafeDivisors : public ExprMutator {
 public:
  explicit SafeDivisors(const IndexSigns& signs) : signs_(signs) {}

 protected:
  Expr mutate_default(const Expr& self) override {
    const Expr inside = ExprMutator::mutate_default(self);
    const auto* node = inside.as<BinaryNode>();
    if (!node || !divides_integers(*node) || constant_of(node->b)) return inside;
    return binary(node->op, node->a, nonzero_divisor(node->b, signs_));
  }

 private:
  const IndexSigns& signs_;
};

/// What is bound inside of a loop, its own variable included.
std::set<const VarNode*> bound_in(const ForNode& loop) {
  std::set<const VarNode*> bound{loop.var.as<VarNode>()};
  const auto of_stmt = [&](const Stmt& s) {
    if (const auto* inner = s.as<ForNode>()) bound.insert(inner->var.as<VarNode>());
    if (const auto* let = s.as<LetStmtNode>()) bound.insert(let->var.as<VarNode>());
  };
  const auto of_expr = [&](const Expr& e) {
    if (const auto* let = e.as<LetNode>()) bound.insert(let->var.as<VarNode>());
  };
  walk(loop.body, of_stmt, of_expr);
  return bound;
}

/// Replaces the part of each index in a loop's body that the loop leaves as it is.
class LoopIndices : public StmtMutator {
 public:
  /// `signs`: of the variables of loops and lets around the loop.
  LoopIndices(const ForNode& loop, const IndexSigns& signs, int& count)
      : bound_(bound_in(loop)), signs_(signs), count_(count) {}
  /// In the order of their use: variables and their values.
  const std::vector<std::pair<Expr, Expr>>& fixed() const { return fixed_; }

 protected:
  /// What differs from thread to thread is none of a loop around their launch.
  Stmt mutate_launch(const LaunchNode*, const Stmt& self) override { return self; }
  Expr mutate_load(const LoadNode* node, const Expr& self) override {
    const Expr inside = ExprMutator::mutate_load(node, self);
    const auto* made = inside.as<LoadNode>();
    const Expr index = without_fixed(made->index);
    return index.same_as(made->index) ? inside : load(made->buffer, index, made->predicate);
  }
  Stmt mutate_store(const StoreNode* node, const Stmt& self) override {
    const Stmt inside = StmtMutator::mutate_store(node, self);
    const auto* made = inside.as<StoreNode>();
    const Expr index = without_fixed(made->index);
    return index.same_as(made->index) ? inside : store(made->buffer, index, made->value, made->predicate);
  }

 private:
  bool is_fixed(const Expr& term) const {
    bool fixed = !constant_of(term);
    walk(term, [&](const Expr& e) {
      const auto* var = e.as<VarNode>();
      fixed = fixed && !e.as<LoadNode>() && !e.as<CallNode>() && !(var && bound_.count(var) > 0);
    });
    return fixed;
  }

  Expr without_fixed(const Expr& index) {
    if (const auto* ramp = index.as<RampNode>()) {
      const Expr base = without_fixed(ramp->base);
      if (base.same_as(ramp->base)) return index;
      return std::make_shared<RampNode>(base, ramp->stride, ramp->type.lanes);
    }
    if (index.type().lanes != 1) return index;
    std::vector<Expr> terms, fixed, rest;
    collect_terms(index, terms);
    for (const Expr& term : terms) (is_fixed(term) ? fixed : rest).push_back(term);
    if (!std::ranges::any_of(fixed, divides_by_size)) return index;
    const Expr var = variable_of(sum_of(fixed));
    return rest.empty() ? var : var + sum_of(rest);
  }

  Expr variable_of(const Expr& sum) {
    const Expr value = SafeDivisors(signs_).mutate(sum);
    for (const auto& [var, known] : fixed_) {
      if (structurally_equal(known, value)) return var;
    }
    fixed_.emplace_back(make_var("index." + std::to_string(count_++)), value);
    return fixed_.back().first;
  }

  std::set<const VarNode*> bound_;
  std::vector<std::pair<Expr, Expr>> fixed_;
  const IndexSigns& signs_;
  int& count_;
};

class IndexHoister : public StmtMutator {
 protected:
  Stmt mutate_launch(const LaunchNode*, const Stmt& self) override { return self; }
  Stmt mutate_for(const ForNode* node, const Stmt& self) override {
    signs_.set_at_least(node->var.as<VarNode>(), node->low);
    if (node->loop != LoopKind::kSerial) return StmtMutator::mutate_for(node, self);
    LoopIndices indices(*node, signs_, count_);
    const Stmt body = indices.mutate_stmt(node->body);
    Stmt loop = self;
    if (!body.same_as(node->body)) loop = for_loop_like(*node, node->var, node->low, node->extent, body);
    loop = StmtMutator::mutate_for(loop.as<ForNode>(), loop);
    for (auto fixed = indices.fixed().rbegin(); fixed != indices.fixed().rend(); ++fixed)
      loop = let(fixed->first, fixed->second, loop);
    return loop;
  }
  Stmt mutate_let(const LetStmtNode* node, const Stmt& self) override {
    signs_.set_at_least(node->var.as<VarNode>(), node->value);
    return StmtMutator::mutate_let(node, self);
  }

 private:
  IndexSigns signs_;
  int count_ = 0;
};

}  // namespace

Stmt hoist_indices(const Stmt& s) {
  return IndexHoister().mutate_stmt(s);
}

}  // namespace gantry
