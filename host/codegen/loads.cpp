#include "host/codegen/loads.h"

#include <vector>

#include "host/codegen/value_types.h"

namespace gantry {

using llvm::Value;

Loads::Loads(llvm::IRBuilder<>& builder, Expressions& expressions, VectorLanes& lanes,
             Conversions& conversions, const Buffers& buffers, BufferElements& elements,
             AccessReports& reports, bool gpu)
    : b_(builder),
      expressions_(expressions),
      lanes_(lanes),
      conversions_(conversions),
      buffers_(buffers),
      elements_(elements),
      reports_(reports),
      gpu_(gpu) {}

Value* Loads::emit(const LoadNode& node) {
  Value* raw = nullptr;
  {
    const Expressions::InIndex inside(expressions_);
    raw = node.type.lanes == 1 ? scalar(node) : vector(node);
  }
  return conversions_.from_storage(raw, node.buffer->dtype);
}

llvm::Type* Loads::type_of(const LoadNode& node) const {
  return with_lanes(storage_type(b_.getContext(), node.buffer->dtype), node.type.lanes);
}

Value* Loads::scalar(const LoadNode& node) {
  Value* index = expressions_.emit(node.index);
  return elements_.load(*node.buffer, index, node.predicate ? expressions_.emit(node.predicate) : nullptr,
                        buffers_.alignment(*node.buffer, node.index));
}

Value* Loads::vector(const LoadNode& node) {
  const bool is_masked = static_cast<bool>(node.predicate);
  const std::optional<Affine> affine = lanes_.affine(node.index);
  if (gpu_ && is_masked) {
    const bool all_or_none = affine && affine->stride == 1 && scalar_predicate(node.predicate).get();
    return all_or_none ? guarded(node, affine->base) : by_lanes(node, affine);
  }
  if (affine && affine->stride == 1 && is_masked) return masked(node, affine->base);
  if (affine && (affine->stride == 1 || affine->stride == -1) && !is_masked) return adjacent(node, *affine);
  if (affine && affine->stride == 0) return repeated(node, affine->base);
  return by_lanes(node, affine);
}

Value* Loads::guarded(const LoadNode& node, Value* first) {
  const BufferNode& buffer = *node.buffer;
  llvm::Type* type = type_of(node);
  return elements_.load_where(expressions_.emit(scalar_predicate(node.predicate)), type, [&] {
    Value* pointer = buffers_.element(buffer, first);
    llvm::LoadInst* load = b_.CreateAlignedLoad(type, pointer, buffers_.alignment(buffer, node.index));
    buffers_.annotate(load, buffer);
    return load;
  });
}

Value* Loads::masked(const LoadNode& node, Value* first) {
  const BufferNode& buffer = *node.buffer;
  llvm::Type* type = type_of(node);
  Value* mask = splat(b_, expressions_.emit(node.predicate), node.type.lanes);
  reports_.lanes(buffer, false, first, node.type.lanes, mask);
  llvm::CallInst* load =
      b_.CreateMaskedLoad(type, buffers_.element(buffer, first), buffers_.alignment(buffer), mask,
                          llvm::Constant::getNullValue(type));
  buffers_.annotate(load, buffer);
  return load;
}

Value* Loads::adjacent(const LoadNode& node, const Affine& affine) {
  const BufferNode& buffer = *node.buffer;
  const int lanes = node.type.lanes;
  const bool ascends = affine.stride == 1;
  Value* first =
      ascends ? affine.base : b_.CreateNSWAdd(affine.base, b_.getInt64(static_cast<uint64_t>(1 - lanes)));
  reports_.lanes(buffer, false, first, lanes, nullptr);
  const llvm::Align known = ascends ? buffers_.alignment(buffer, node.index) : buffers_.alignment(buffer);
  llvm::LoadInst* load = b_.CreateAlignedLoad(type_of(node), buffers_.element(buffer, first), known);
  buffers_.annotate(load, buffer);
  return ascends ? static_cast<Value*>(load) : b_.CreateVectorReverse(load);
}

Value* Loads::repeated(const LoadNode& node, Value* index) {
  const BufferNode& buffer = *node.buffer;
  const int lanes = node.type.lanes;
  auto* broadcast = node.predicate ? node.predicate.as<BroadcastNode>() : nullptr;
  if (!node.predicate || broadcast) {
    Value* predicate = broadcast ? expressions_.emit(broadcast->value) : nullptr;
    return splat(b_, elements_.load(buffer, index, predicate), lanes);
  }
  Value* mask = expressions_.emit(node.predicate);
  Value* one = elements_.load(buffer, index, b_.CreateOrReduce(mask));
  return b_.CreateSelect(mask, splat(b_, one, lanes), llvm::Constant::getNullValue(type_of(node)));
}

Value* Loads::every_second(const LoadNode& node, Value* first) {
  const BufferNode& buffer = *node.buffer;
  const int lanes = node.type.lanes;
  reports_.access(buffer, false, first, 2, lanes, nullptr);
  auto part = [&](int64_t offset) {
    llvm::LoadInst* load = b_.CreateAlignedLoad(
        type_of(node),
        buffers_.element(buffer, b_.CreateNSWAdd(first, b_.getInt64(static_cast<uint64_t>(offset)))),
        buffers_.alignment(buffer));
    buffers_.annotate(load, buffer);
    return load;
  };
  Value *low = part(0), *high = part(lanes - 1);
  std::vector<int> mask;
  for (int i = 0; i < lanes; ++i) mask.push_back(2 * i < lanes ? 2 * i : lanes + 2 * i - lanes + 1);
  return b_.CreateShuffleVector(low, high, mask);
}

Value* Loads::by_lanes(const LoadNode& node, const std::optional<Affine>& affine) {
  const int lanes = node.type.lanes;
  const BufferNode& buffer = *node.buffer;
  Value* predicate = node.predicate ? splat(b_, expressions_.emit(node.predicate), lanes) : nullptr;
  if (!gpu_ && !predicate && affine && affine->stride == 2 && lanes >= 4)
    return every_second(node, affine->base);
  Value* result = llvm::PoisonValue::get(type_of(node));
  for (int lane = 0; lane < lanes; ++lane) {
    Value* index =
        affine ? b_.CreateNSWAdd(affine->base, b_.getInt64(static_cast<uint64_t>(affine->stride * lane)))
               : lanes_.lane(node.index, lane);
    Value* active = predicate ? b_.CreateExtractElement(predicate, static_cast<uint64_t>(lane)) : nullptr;
    result =
        b_.CreateInsertElement(result, elements_.load(buffer, index, active), static_cast<uint64_t>(lane));
  }
  return result;
}

}  // namespace gantry
