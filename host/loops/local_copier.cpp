#include "host/loops/local_copier.h"

#include <memory>

namespace gantry {

const Buffer& LocalCopier::copy_of(const Buffer& buffer) const {
  const auto copy = copies_.find(buffer.get());
  return copy == copies_.end() ? buffer : copy->second;
}

Stmt LocalCopier::mutate_allocate(const AllocateNode* node, const Stmt&) {
  auto copy = std::make_shared<BufferNode>(*node->buffer);
  copy->name += suffix();
  copies_[node->buffer.get()] = copy;
  Stmt body = mutate_stmt(node->body);
  copies_.erase(node->buffer.get());
  return allocate(copy, body);
}

Stmt LocalCopier::mutate_store(const StoreNode* node, const Stmt& self) {
  if (!has_copy(node->buffer)) return StmtMutator::mutate_store(node, self);
  return store(copy_of(node->buffer), mutate(node->index), mutate(node->value), mutate(node->predicate));
}

Expr LocalCopier::mutate_load(const LoadNode* node, const Expr& self) {
  if (!has_copy(node->buffer)) return StmtMutator::mutate_load(node, self);
  return load(copy_of(node->buffer), mutate(node->index), mutate(node->predicate));
}

Stmt LocalCopier::mutate_shuffle(const ShuffleNode* node, const Stmt& self) {
  if (!has_copy(node->target)) return StmtMutator::mutate_shuffle(node, self);
  return shuffle(copy_of(node->target), mutate(node->index), mutate(node->value), node->lane_mask);
}

Stmt LocalCopier::mutate_mma(const MmaNode* node, const Stmt& self) {
  if (!has_copy(node->d) && !has_copy(node->a) && !has_copy(node->b))
    return StmtMutator::mutate_mma(node, self);
  return mma(node->shape, copy_of(node->d), mutate(node->d_index), copy_of(node->a), mutate(node->a_index),
             copy_of(node->b), mutate(node->b_index));
}

Stmt LocalCopier::mutate_tile(const TileNode* node, const Stmt& self) {
  if (!has_copy(node->buffer)) return StmtMutator::mutate_tile(node, self);
  auto copy = std::make_shared<TileNode>(*node);
  copy->buffer = copy_of(node->buffer);
  copy->index = mutate(node->index);
  copy->stride = mutate(node->stride);
  return copy;
}

Stmt LocalCopier::mutate_prefetch(const PrefetchNode* node, const Stmt& self) {
  if (!has_copy(node->buffer)) return StmtMutator::mutate_prefetch(node, self);
  return prefetch(copy_of(node->buffer), mutate(node->index), node->fetch);
}

Stmt LocalCopier::mutate_transpose(const TransposeNode* node, const Stmt& self) {
  if (!has_copy(node->rows) && !has_copy(node->source)) return StmtMutator::mutate_transpose(node, self);
  return transpose_block(copy_of(node->rows), copy_of(node->source), mutate(node->index),
                         mutate(node->stride), node->side);
}

}  // namespace gantry
