#include "host/codegen/memory_statements.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "host/codegen/value_types.h"
#include "host/support/error.h"

namespace gantry {

using llvm::Value;

void MemoryStatements::prefetch(const PrefetchNode& node) {
  if (parts_.gpu || parts_.reports.active()) return;
  Value* base = parts_.buffers.address(*node.buffer);
  parts_.expressions.forget();
  Value* index = parts_.expressions.emit_index(node.index);
  constexpr uint32_t kData = 1;
  const uint32_t write = node.fetch == Fetch::kWrite ? 1 : 0;
  const uint32_t locality = node.fetch == Fetch::kSecondLevel ? 2 : 3;
  Value* pointer =
      b_.CreateGEP(storage_type(b_.getContext(), node.buffer->dtype), base, index);  // may be outside
  b_.CreateIntrinsic(llvm::Intrinsic::prefetch, {b_.getPtrTy()},
                     {pointer, b_.getInt32(write), b_.getInt32(locality), b_.getInt32(kData)});
}

void MemoryStatements::transpose(const TransposeNode& node) {
  parts_.expressions.forget();
  const auto side = static_cast<size_t>(node.side);
  llvm::Type* vector = with_lanes(storage_type(b_.getContext(), node.source->dtype), node.side);
  Value *index = parts_.expressions.emit_index(node.index),
        *stride = parts_.expressions.emit_index(node.stride);
  std::vector<Value*> rows;
  for (size_t j = 0; j < side; ++j, index = b_.CreateNSWAdd(index, stride)) {
    parts_.reports.lanes(*node.source, false, index, node.side, nullptr);
    llvm::LoadInst* row = b_.CreateAlignedLoad(vector, parts_.buffers.element(*node.source, index),
                                               parts_.buffers.alignment(*node.source));
    parts_.buffers.annotate(row, *node.source);
    rows.push_back(row);
  }
  // Each step exchanges a bit of the row's number with that of the lane's.
  for (size_t bit = 1; bit < side; bit *= 2) {
    std::vector<int> even, odd;
    for (size_t lane = 0; lane < side; ++lane) {
      const bool of_second = (lane & bit) != 0;
      even.push_back(int(of_second ? side + lane - bit : lane));
      odd.push_back(int(of_second ? side + lane : lane + bit));
    }
    for (size_t row = 0; row < side; ++row) {
      if (row & bit) continue;
      Value *first = rows[row], *second = rows[row | bit];
      rows[row] = b_.CreateShuffleVector(first, second, even);
      rows[row | bit] = b_.CreateShuffleVector(first, second, odd);
    }
  }
  for (size_t i = 0; i < side; ++i) {
    Value* pointer = parts_.buffers.element(*node.rows, b_.getInt64(i * side));
    parts_.buffers.annotate(b_.CreateAlignedStore(rows[i], pointer, parts_.buffers.alignment(*node.rows)),
                            *node.rows);
  }
}

void MemoryStatements::store(const StoreNode& node) {
  parts_.expressions.forget();
  const BufferNode& buffer = *node.buffer;
  const int lanes = std::max(node.index.type().lanes, node.value.type().lanes);
  internal_check(node.index.type().lanes == lanes, "kernel {}: store of {} lanes to one element of {}",
                 kernel_, lanes, buffer.name);
  Value* raw =
      splat(b_, parts_.conversions.to_storage(parts_.expressions.emit(node.value), buffer.dtype), lanes);
  const Expressions::InIndex inside(parts_.expressions);
  Value* predicate = node.predicate ? parts_.expressions.emit(node.predicate) : nullptr;
  if (lanes > 1) return store_lanes(node, raw, predicate, lanes);
  parts_.elements.store(buffer, parts_.expressions.emit(node.index), raw, predicate,
                        parts_.buffers.alignment(buffer, node.index));
}

void MemoryStatements::store_lanes(const StoreNode& node, Value* raw, Value* predicate, int lanes) {
  const BufferNode& buffer = *node.buffer;
  const std::optional<Affine> affine = parts_.lanes.affine(node.index);
  const bool adjacent = affine && affine->stride == 1;
  if (adjacent && !(parts_.gpu && predicate))
    return store_adjacent(node, affine->base, raw, predicate, lanes);
  if (adjacent && scalar_predicate(node.predicate).get()) {
    parts_.elements.store_where(parts_.expressions.emit(scalar_predicate(node.predicate)), [&] {
      Value* pointer = parts_.buffers.element(buffer, affine->base);
      parts_.buffers.annotate(
          b_.CreateAlignedStore(raw, pointer, parts_.buffers.alignment(buffer, node.index)), buffer);
    });
    return;
  }
  for (int lane = 0; lane < lanes; ++lane) {
    Value* index =
        affine ? b_.CreateNSWAdd(affine->base, b_.getInt64(static_cast<uint64_t>(affine->stride * lane)))
               : parts_.lanes.lane(node.index, lane);
    Value* active = predicate
                        ? b_.CreateExtractElement(splat(b_, predicate, lanes), static_cast<uint64_t>(lane))
                        : nullptr;
    parts_.elements.store(buffer, index, b_.CreateExtractElement(raw, static_cast<uint64_t>(lane)), active);
  }
}

void MemoryStatements::store_adjacent(const StoreNode& node, Value* first, Value* raw, Value* predicate,
                                      int lanes) {
  const BufferNode& buffer = *node.buffer;
  parts_.reports.lanes(buffer, true, first, lanes, predicate ? splat(b_, predicate, lanes) : nullptr);
  Value* pointer = parts_.buffers.element(buffer, first);
  llvm::Instruction* store =
      predicate ? static_cast<llvm::Instruction*>(b_.CreateMaskedStore(
                      raw, pointer, parts_.buffers.alignment(buffer), splat(b_, predicate, lanes)))
                : b_.CreateAlignedStore(raw, pointer, parts_.buffers.alignment(buffer, node.index));
  parts_.buffers.annotate(store, buffer);
}

}  // namespace gantry
