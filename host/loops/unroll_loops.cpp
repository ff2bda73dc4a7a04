#include "host/loops/local_copier.h"
#include "host/loops/lower.h"
#include "host/tensor/fold.h"

namespace gantry {
namespace {

/// Iterations that one kernel may write out; loops beyond it stay loops.
constexpr int64_t kMaxIterations = 20000;

class Unroller : public LocalCopier {
 protected:
  Stmt mutate_for(const ForNode* node, const Stmt& self) override {
    Expr low = mutate(node->low), extent = mutate(node->extent);
    auto count = constant_of(extent);
    if (node->loop != LoopKind::kUnrolled || !count || iterations_ + *count > kMaxIterations) {
      Stmt body = mutate_stmt(node->body);
      if (node->loop == LoopKind::kUnrolled) return for_loop(node->var, low, extent, LoopKind::kSerial, body);
      bool same = low.same_as(node->low) && extent.same_as(node->extent) && body.same_as(node->body);
      return same ? self : for_loop_like(*node, node->var, low, extent, body);
    }
    iterations_ += *count;
    std::vector<Stmt> copies;
    ++copying_;
    for (int64_t i = 0; i < *count; ++i) {
      bindings_[node->var.as<VarNode>()] = low + Expr(i);
      copies.push_back(mutate_stmt(node->body));
    }
    --copying_;
    bindings_.erase(node->var.as<VarNode>());
    return block(std::move(copies));
  }

  /// Every copy of a body has local buffers of its own.
  Stmt mutate_allocate(const AllocateNode* node, const Stmt& self) override {
    return copying_ == 0 ? StmtMutator::mutate_allocate(node, self) : LocalCopier::mutate_allocate(node, self);
  }
  std::string suffix() override { return "." + std::to_string(copies_++); }

  Expr mutate_var(const VarNode* node, const Expr& self) override {
    auto it = bindings_.find(node);
    return it == bindings_.end() ? self : it->second;
  }

 private:
  std::unordered_map<const VarNode*, Expr> bindings_;
  int64_t iterations_ = 0;
  int copying_ = 0, copies_ = 0;
};

}  // namespace

Stmt unroll_loops(const Stmt& s) {
  return Unroller().mutate_stmt(s);
}

}  // namespace gantry
