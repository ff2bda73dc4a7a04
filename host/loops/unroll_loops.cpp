#include "host/loops/lower.h"
#include "host/tensor/fold.h"

namespace gantry {
namespace {

/// Iterations that one kernel may write out; loops beyond it stay loops.
constexpr int64_t kMaxIterations = 20000;

class Unroller : public StmtMutator {
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
    if (copying_ == 0) return StmtMutator::mutate_allocate(node, self);
    auto copy = std::make_shared<BufferNode>(*node->buffer);
    copy->name += "." + std::to_string(copies_++);
    buffers_[node->buffer.get()] = copy;
    Stmt body = mutate_stmt(node->body);
    buffers_.erase(node->buffer.get());
    return allocate(copy, body);
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

  Stmt mutate_shuffle(const ShuffleNode* node, const Stmt&) override {
    return shuffle(renamed(node->target), mutate(node->index), mutate(node->value), node->lane_mask);
  }

  Stmt mutate_mma(const MmaNode* node, const Stmt&) override {
    return mma(node->shape, renamed(node->d), mutate(node->d_index), renamed(node->a), mutate(node->a_index),
               renamed(node->b), mutate(node->b_index));
  }

  Stmt mutate_tile(const TileNode* node, const Stmt& self) override {
    if (!node->buffer) return self;
    auto copy = std::make_shared<TileNode>(*node);
    copy->buffer = renamed(node->buffer);
    copy->index = mutate(node->index);
    copy->stride = mutate(node->stride);
    return copy;
  }

  Stmt mutate_prefetch(const PrefetchNode* node, const Stmt&) override {
    return prefetch(renamed(node->buffer), mutate(node->index), node->fetch);
  }

  Stmt mutate_transpose(const TransposeNode* node, const Stmt&) override {
    return transpose_block(renamed(node->rows), renamed(node->source), mutate(node->index),
                           mutate(node->stride), node->side);
  }

  Expr mutate_var(const VarNode* node, const Expr& self) override {
    auto it = bindings_.find(node);
    return it == bindings_.end() ? self : it->second;
  }

 private:
  Buffer renamed(const Buffer& buffer) const {
    auto it = buffers_.find(buffer.get());
    return it == buffers_.end() ? buffer : it->second;
  }

  std::unordered_map<const VarNode*, Expr> bindings_;
  std::unordered_map<const BufferNode*, Buffer> buffers_;
  int64_t iterations_ = 0;
  int copying_ = 0, copies_ = 0;
};

}  // namespace

Stmt unroll_loops(const Stmt& s) {
  return Unroller().mutate_stmt(s);
}

}  // namespace gantry
