#include <vector>

#include "host/loops/lower.h"
#include "host/loops/stored_buffers.h"
#include "host/tensor/conjunction.h"
#include "host/tensor/fold.h"
#include "host/tensor/simplifier.h"

namespace gantry {
namespace {

class LoopSimplifier : public StmtMutator {
 protected:
  Stmt mutate_store(const StoreNode* node, const Stmt& self) override {
    Expr index = simplify(node->index), value = simplify(node->value), predicate = simplify(node->predicate);
    if (predicate && constant_of(predicate)) {
      if (*constant_of(predicate) == 0) return {};
      predicate = {};
    }
    bool same =
        index.same_as(node->index) && value.same_as(node->value) && predicate.same_as(node->predicate);
    return same ? self : store(node->buffer, index, value, predicate);
  }

  Stmt mutate_for(const ForNode* node, const Stmt& self) override {
    Expr low = simplify(node->low), extent = simplify(node->extent);
    if (auto count = constant_of(extent); count && *count <= 0) return {};
    bool bound = node->loop == LoopKind::kBlock || node->loop == LoopKind::kThread;
    if (constant_of(extent) == 1 && !bound) {  // one thread of many is not the same as all
      auto [it, inserted] = bindings_.insert_or_assign(node->var.as<VarNode>(), low);
      (void)inserted;
      return mutate_stmt(node->body);
    }
    unbind(node->var);
    simplifier_.bind(node->var, low, extent);
    Stmt body = mutate_stmt(node->body);
    bool same = low.same_as(node->low) && extent.same_as(node->extent) && body.same_as(node->body);
    return same ? self : for_loop_like(*node, node->var, low, extent, body);
  }

  Stmt mutate_launch(const LaunchNode* node, const Stmt& self) override {
    for (size_t i = 0; i < 3; ++i) {
      if (constant_of(node->grid[i]) == 1) {
        bindings_.insert_or_assign(node->block_vars[i].as<VarNode>(), Expr(0));
      } else {
        unbind(node->block_vars[i]);
        simplifier_.bind(node->block_vars[i], Expr(0), simplify(node->grid[i]));
      }
    }
    if (node->threads == 1) {
      bindings_.insert_or_assign(node->thread_var.as<VarNode>(), Expr(0));
    } else {
      unbind(node->thread_var);
      simplifier_.bind(node->thread_var, Expr(0), Expr(node->threads));
    }
    return StmtMutator::mutate_launch(node, self);
  }

  Stmt mutate_shuffle(const ShuffleNode* node, const Stmt& self) override {
    Expr index = simplify(node->index), value = simplify(node->value);
    bool same = index.same_as(node->index) && value.same_as(node->value);
    return same ? self : shuffle(node->target, index, value, node->lane_mask);
  }

  Stmt mutate_prefetch(const PrefetchNode* node, const Stmt& self) override {
    Expr index = simplify(node->index);
    return index.same_as(node->index) ? self : prefetch(node->buffer, index, node->fetch);
  }

  Stmt mutate_transpose(const TransposeNode* node, const Stmt& self) override {
    Expr index = simplify(node->index), stride = simplify(node->stride);
    bool same = index.same_as(node->index) && stride.same_as(node->stride);
    return same ? self : transpose_block(node->rows, node->source, index, stride, node->side);
  }

  Stmt mutate_mma(const MmaNode* node, const Stmt& self) override {
    Expr d = simplify(node->d_index), a = simplify(node->a_index), b = simplify(node->b_index);
    bool same = d.same_as(node->d_index) && a.same_as(node->a_index) && b.same_as(node->b_index);
    return same ? self : mma(node->shape, node->d, d, node->a, a, node->b, b);
  }

  Stmt mutate_tile(const TileNode* node, const Stmt& self) override {
    if (!node->buffer) return self;
    auto copy = std::make_shared<TileNode>(*node);
    copy->index = simplify(node->index);
    copy->stride = simplify(node->stride);
    bool same = copy->index.same_as(node->index) && copy->stride.same_as(node->stride);
    return same ? self : Stmt(std::shared_ptr<TileNode>(copy));
  }

  Stmt mutate_if(const IfNode* node, const Stmt& self) override {
    Expr condition = simplify(node->condition);
    if (auto truth = constant_of(condition)) return mutate_stmt(*truth ? node->then_case : node->else_case);
    size_t known = simplifier_.facts();
    assume_during(condition, node->then_case);
    Stmt then_case = mutate_stmt(node->then_case);
    simplifier_.forget(known);
    Stmt else_case = mutate_stmt(node->else_case);
    bool same = condition.same_as(node->condition) && then_case.same_as(node->then_case) &&
                else_case.same_as(node->else_case);
    return same ? self : if_stmt(condition, then_case, else_case);
  }

  Stmt mutate_let(const LetStmtNode* node, const Stmt& self) override {
    Expr value = simplify(node->value);
    if (value.as<IntImmNode>() || value.as<VarNode>()) {
      bindings_.insert_or_assign(node->var.as<VarNode>(), value);
      return mutate_stmt(node->body);
    }
    unbind(node->var);
    Stmt body = mutate_stmt(node->body);
    return value.same_as(node->value) && body.same_as(node->body) ? self : let(node->var, value, body);
  }

  Expr mutate_var(const VarNode* node, const Expr& self) override {
    auto it = bindings_.find(node);
    return it == bindings_.end() ? self : it->second;
  }

 private:
  Expr simplify(const Expr& e) {
    if (!e) return e;
    return simplifier_.simplify(bindings_.empty() ? e : mutate(e));
  }
  /// Of a condition what still holds at the end of `body`, which may store to what is compared.
  void assume_during(const Expr& condition, const Stmt& body) {
    if (!may_change(body, condition)) return simplifier_.assume(condition);
    std::vector<Expr> parts;
    collect_conjuncts(condition, parts);
    for (const Expr& part : parts)
      if (!may_change(body, part)) simplifier_.assume(part);
  }
  /// Copies of a loop's body have the same variables: what one is in a copy it need not be in the next.
  void unbind(const Expr& var) { bindings_.erase(var.as<VarNode>()); }

  Simplifier simplifier_;
  std::unordered_map<const VarNode*, Expr> bindings_;  ///< variables of loops and lets that are gone
};

}  // namespace

Stmt simplify_loops(const Stmt& s) {
  return LoopSimplifier().mutate_stmt(s);
}

}  // namespace gantry
