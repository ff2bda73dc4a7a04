#include "host/codegen/number_buffers.h"

#include "host/tensor/fold.h"

namespace gantry {
namespace {

bool reads(const Expr& value, const BufferNode* buffer) {
  const auto* load = value.as<LoadNode>();
  return load != nullptr && load->buffer.get() == buffer;
}

bool keeps_numbers(const StoreNode& store) {
  const auto* update = store.value.as<BinaryNode>();
  const bool chooses = update != nullptr && (update->op == BinaryOp::kMax || update->op == BinaryOp::kMin);
  const BufferNode* buffer = store.buffer.get();
  return is_number(store.value) || (chooses && (reads(update->a, buffer) || reads(update->b, buffer)));
}

}  // namespace

std::set<const BufferNode*> accumulators_of_numbers(const Stmt& body) {
  std::set<const BufferNode*> stored, others;
  auto visit = [&](const Stmt& s) {
    if (const auto* store = s.as<StoreNode>()) {
      const BufferNode& buffer = *store->buffer;
      const bool float_local =
          buffer.scope == BufferScope::kLocal && (buffer.dtype == DType::kF32 || buffer.dtype == DType::kF64);
      (float_local && keeps_numbers(*store) ? stored : others).insert(&buffer);
    } else if (const auto* shuffle = s.as<ShuffleNode>()) {
      others.insert(shuffle->target.get());
    } else if (const auto* mma = s.as<MmaNode>()) {
      others.insert(mma->d.get());
    } else if (const auto* tile = s.as<TileNode>()) {
      others.insert(tile->buffer.get());
    } else if (const auto* block = s.as<TransposeNode>()) {
      others.insert(block->rows.get());
    }
  };
  walk(body, visit, {});
  for (const BufferNode* buffer : others) stored.erase(buffer);
  return stored;
}

}  // namespace gantry
