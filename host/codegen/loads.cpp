#include "host/codegen/loads.h"

#include <vector>

#include "host/codegen/value_types.h"

namespace gantry {

using llvm::Value;

Value* Loads::emit(const LoadNode& node) {
  Value* raw = nullptr;
  {
    const Expressions::InIndex inside(parts_.expressions);
    raw = node.type.lanes == 1 ? scalar(node) : vector(node);
  }
  return parts_.conversions.from_storage(raw, node.buffer->dtype);
}

llvm::Type* Loads::type_of(const LoadNode& node) const {
  return with_lanes(storage_type(b_.getContext(), node.buffer->dtype), node.type.lanes);
}

Value* Loads::scalar(const LoadNode& node) {
  Value* index = parts_.expressions.emit(node.index);
  return parts_.elements.load(*node.buffer, index,
                              node.predicate ? parts_.expressions.emit(node.predicate) : nullptr,
                              parts_.buffers.alignment(*node.buffer, node.index));
}

Value* Loads::vector(const LoadNode& node) {
  const bool is_masked = static_cast<bool>(node.predicate);
  const std::optional<Affine> affine = parts_.lanes.affine(node.index);
  if (parts_.gpu && is_masked) {
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
  return parts_.elements.load_where(parts_.expressions.emit(scalar_predicate(node.predicate)), type, [&] {
    Value* pointer = parts_.buffers.element(buffer, first);
    llvm::LoadInst* load = b_.CreateAlignedLoad(type, pointer, parts_.buffers.alignment(buffer, node.index));
    parts_.buffers.annotate(load, buffer);
    return load;
  });
}

Value* Loads::masked(const LoadNode& node, Value* first) {
  const BufferNode& buffer = *node.buffer;
  llvm::Type* type = type_of(node);
  Value* mask = splat(b_, parts_.expressions.emit(node.predicate), node.type.lanes);
  parts_.reports.lanes(buffer, false, first, node.type.lanes, mask);
  llvm::CallInst* load =
      b_.CreateMaskedLoad(type, parts_.buffers.element(buffer, first), parts_.buffers.alignment(buffer), mask,
                          llvm::Constant::getNullValue(type));
  parts_.buffers.annotate(load, buffer);
  return load;
}

Value* Loads::adjacent(const LoadNode& node, const Affine& affine) {
  const BufferNode& buffer = *node.buffer;
  const int lanes = node.type.lanes;
  const bool ascends = affine.stride == 1;
  Value* first =
      ascends ? affine.base : b_.CreateNSWAdd(affine.base, b_.getInt64(static_cast<uint64_t>(1 - lanes)));
  parts_.reports.lanes(buffer, false, first, lanes, nullptr);
  const llvm::Align known =
      ascends ? parts_.buffers.alignment(buffer, node.index) : parts_.buffers.alignment(buffer);
  llvm::LoadInst* load = b_.CreateAlignedLoad(type_of(node), parts_.buffers.element(buffer, first), known);
  parts_.buffers.annotate(load, buffer);
  return ascends ? static_cast<Value*>(load) : b_.CreateVectorReverse(load);
}

Value* Loads::repeated(const LoadNode& node, Value* index) {
  const BufferNode& buffer = *node.buffer;
  const int lanes = node.type.lanes;
  auto* broadcast = node.predicate ? node.predicate.as<BroadcastNode>() : nullptr;
  if (!node.predicate || broadcast) {
    Value* predicate = broadcast ? parts_.expressions.emit(broadcast->value) : nullptr;
    return splat(b_, parts_.elements.load(buffer, index, predicate), lanes);
  }
  Value* mask = parts_.expressions.emit(node.predicate);
  Value* one = parts_.elements.load(buffer, index, b_.CreateOrReduce(mask));
  return b_.CreateSelect(mask, splat(b_, one, lanes), llvm::Constant::getNullValue(type_of(node)));
}

Value* Loads::every_second(const LoadNode& node, Value* first) {
  const BufferNode& buffer = *node.buffer;
  const int lanes = node.type.lanes;
  parts_.reports.access(buffer, false, first, 2, lanes, nullptr);
  auto part = [&](int64_t offset) {
    llvm::LoadInst* load = b_.CreateAlignedLoad(
        type_of(node),
        parts_.buffers.element(buffer, b_.CreateNSWAdd(first, b_.getInt64(static_cast<uint64_t>(offset)))),
        parts_.buffers.alignment(buffer));
    parts_.buffers.annotate(load, buffer);
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
  Value* predicate = node.predicate ? splat(b_, parts_.expressions.emit(node.predicate), lanes) : nullptr;
  if (!parts_.gpu && !predicate && affine && affine->stride == 2 && lanes >= 4)
    return every_second(node, affine->base);
  Value* result = llvm::PoisonValue::get(type_of(node));
  for (int lane = 0; lane < lanes; ++lane) {
    Value* index =
        affine ? b_.CreateNSWAdd(affine->base, b_.getInt64(static_cast<uint64_t>(affine->stride * lane)))
               : parts_.lanes.lane(node.index, lane);
    Value* active = predicate ? b_.CreateExtractElement(predicate, static_cast<uint64_t>(lane)) : nullptr;
    result = b_.CreateInsertElement(result, parts_.elements.load(buffer, index, active),
                                    static_cast<uint64_t>(lane));
  }
  return result;
}

}  // namespace gantry
