#include "host/codegen/memory_statements.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "host/codegen/value_types.h"
#include "host/support/error.h"

namespace gantry {

using llvm::Value;

MemoryStatements::MemoryStatements(llvm::IRBuilder<>& builder, Expressions& expressions, VectorLanes& lanes,
                                   Conversions& conversions, const Buffers& buffers, BufferElements& elements,
                                   AccessReports& reports, bool gpu, const std::string& kernel)
    : b_(builder),
      expressions_(expressions),
      lanes_(lanes),
      conversions_(conversions),
      buffers_(buffers),
      elements_(elements),
      reports_(reports),
      gpu_(gpu),
      kernel_(kernel) {}

void MemoryStatements::prefetch(const PrefetchNode& node) {
  if (gpu_ || reports_.active()) return;
  Value* base = buffers_.address(*node.buffer);
  expressions_.forget();
  Value* index = expressions_.emit_index(node.index);
  constexpr uint32_t kData = 1;
  const uint32_t write = node.fetch == Fetch::kWrite ? 1 : 0;
  const uint32_t locality = node.fetch == Fetch::kSecondLevel ? 2 : 3;
  Value* pointer =
      b_.CreateGEP(storage_type(b_.getContext(), node.buffer->dtype), base, index);  // may be outside
  b_.CreateIntrinsic(llvm::Intrinsic::prefetch, {b_.getPtrTy()},
                     {pointer, b_.getInt32(write), b_.getInt32(locality), b_.getInt32(kData)});
}

void MemoryStatements::transpose(const TransposeNode& node) {
  expressions_.forget();
  const auto side = static_cast<size_t>(node.side);
  llvm::Type* vector = with_lanes(storage_type(b_.getContext(), node.source->dtype), node.side);
  Value *index = expressions_.emit_index(node.index), *stride = expressions_.emit_index(node.stride);
  std::vector<Value*> rows;
  for (size_t j = 0; j < side; ++j, index = b_.CreateNSWAdd(index, stride)) {
    reports_.lanes(*node.source, false, index, node.side, nullptr);
    llvm::LoadInst* row =
        b_.CreateAlignedLoad(vector, buffers_.element(*node.source, index), buffers_.alignment(*node.source));
    buffers_.annotate(row, *node.source);
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
    Value* pointer = buffers_.element(*node.rows, b_.getInt64(i * side));
    buffers_.annotate(b_.CreateAlignedStore(rows[i], pointer, buffers_.alignment(*node.rows)), *node.rows);
  }
}

void MemoryStatements::store(const StoreNode& node) {
  expressions_.forget();
  const BufferNode& buffer = *node.buffer;
  const int lanes = std::max(node.index.type().lanes, node.value.type().lanes);
  internal_check(node.index.type().lanes == lanes, "kernel {}: store of {} lanes to one element of {}",
                 kernel_, lanes, buffer.name);
  Value* raw = splat(b_, conversions_.to_storage(expressions_.emit(node.value), buffer.dtype), lanes);
  const Expressions::InIndex inside(expressions_);
  Value* predicate = node.predicate ? expressions_.emit(node.predicate) : nullptr;
  if (lanes > 1) return store_lanes(node, raw, predicate, lanes);
  elements_.store(buffer, expressions_.emit(node.index), raw, predicate,
                  buffers_.alignment(buffer, node.index));
}

void MemoryStatements::store_lanes(const StoreNode& node, Value* raw, Value* predicate, int lanes) {
  const BufferNode& buffer = *node.buffer;
  const std::optional<Affine> affine = lanes_.affine(node.index);
  const bool adjacent = affine && affine->stride == 1;
  if (adjacent && !(gpu_ && predicate)) return store_adjacent(node, affine->base, raw, predicate, lanes);
  if (adjacent && scalar_predicate(node.predicate).get()) {
    elements_.store_where(expressions_.emit(scalar_predicate(node.predicate)), [&] {
      Value* pointer = buffers_.element(buffer, affine->base);
      buffers_.annotate(b_.CreateAlignedStore(raw, pointer, buffers_.alignment(buffer, node.index)), buffer);
    });
    return;
  }
  for (int lane = 0; lane < lanes; ++lane) {
    Value* index =
        affine ? b_.CreateNSWAdd(affine->base, b_.getInt64(static_cast<uint64_t>(affine->stride * lane)))
               : lanes_.lane(node.index, lane);
    Value* active = predicate
                        ? b_.CreateExtractElement(splat(b_, predicate, lanes), static_cast<uint64_t>(lane))
                        : nullptr;
    elements_.store(buffer, index, b_.CreateExtractElement(raw, static_cast<uint64_t>(lane)), active);
  }
}

void MemoryStatements::store_adjacent(const StoreNode& node, Value* first, Value* raw, Value* predicate,
                                      int lanes) {
  const BufferNode& buffer = *node.buffer;
  reports_.lanes(buffer, true, first, lanes, predicate ? splat(b_, predicate, lanes) : nullptr);
  Value* pointer = buffers_.element(buffer, first);
  llvm::Instruction* store =
      predicate ? static_cast<llvm::Instruction*>(b_.CreateMaskedStore(
                      raw, pointer, buffers_.alignment(buffer), splat(b_, predicate, lanes)))
                : b_.CreateAlignedStore(raw, pointer, buffers_.alignment(buffer, node.index));
  buffers_.annotate(store, buffer);
}

}  // namespace gantry
