// Loads and stores of buffers.
#include <numeric>

#include "host/codegen/kernel_emitter.h"
#include "host/support/error.h"

namespace gantry {

using llvm::Value;

namespace {

/// The one condition of all lanes; null if they may differ.
Expr scalar_predicate(const Expr& predicate) {
  if (predicate.type().lanes == 1) return predicate;
  auto* broadcast = predicate.as<BroadcastNode>();
  return broadcast && broadcast->value.type().lanes == 1 ? broadcast->value : Expr();
}

}  // namespace

std::optional<KernelEmitter::Affine> KernelEmitter::emit_affine(const Expr& e) {
  if (e.type().lanes == 1) return Affine{emit(e), 0};
  if (auto* ramp = e.as<RampNode>()) {
    auto* stride = ramp->stride.as<IntImmNode>();
    if (!stride || ramp->base.type().lanes != 1) return std::nullopt;
    return Affine{emit(ramp->base), stride->value};
  }
  if (auto* broadcast = e.as<BroadcastNode>()) {
    if (broadcast->value.type().lanes != 1) return std::nullopt;
    return Affine{emit(broadcast->value), 0};
  }
  auto* binary = e.as<BinaryNode>();
  if (!binary) return std::nullopt;
  if (binary->op == BinaryOp::kAdd || binary->op == BinaryOp::kSub) {
    std::optional<Affine> a = emit_affine(binary->a), b = a ? emit_affine(binary->b) : std::nullopt;
    if (!b) return std::nullopt;
    if (binary->op == BinaryOp::kAdd) return Affine{b_.CreateNSWAdd(a->base, b->base), a->stride + b->stride};
    return Affine{b_.CreateNSWSub(a->base, b->base), a->stride - b->stride};
  }
  if (binary->op == BinaryOp::kMul) {
    std::optional<Affine> a = emit_affine(binary->a), b = a ? emit_affine(binary->b) : std::nullopt;
    if (!b) return std::nullopt;
    if (a->stride != 0) std::swap(a, b);
    if (b->stride == 0) return Affine{b_.CreateNSWMul(a->base, b->base), 0};
    auto* factor = llvm::dyn_cast<llvm::ConstantInt>(a->base);
    if (a->stride != 0 || !factor) return std::nullopt;
    return Affine{b_.CreateNSWMul(a->base, b->base), b->stride * factor->getSExtValue()};
  }
  return std::nullopt;
}

Value* KernelEmitter::emit_lanes_load(const LoadNode& node, const std::optional<Affine>& affine) {
  const int lanes = node.type.lanes;
  const BufferNode& buffer = *node.buffer;
  Value* predicate = node.predicate ? splat(b_, emit(node.predicate), lanes) : nullptr;
  llvm::Type* vector = with_lanes(storage_type(context_, buffer.dtype), lanes);
  if (!gpu_ && !predicate && affine && affine->stride == 2 && lanes >= 4) {
    reports_.access(buffer, false, affine->base, 2, lanes, nullptr);
    // Two loads that end at the last element wanted, so that nothing beyond it is read.
    auto part = [&](int64_t offset) {
      llvm::LoadInst* load = b_.CreateAlignedLoad(
          vector,
          buffers_.element(buffer, b_.CreateNSWAdd(affine->base, b_.getInt64(static_cast<uint64_t>(offset)))),
          buffers_.alignment(buffer));
      buffers_.annotate(load, buffer);
      return load;
    };
    Value *first = part(0), *second = part(lanes - 1);
    std::vector<int> mask;
    for (int i = 0; i < lanes; ++i) mask.push_back(2 * i < lanes ? 2 * i : lanes + 2 * i - lanes + 1);
    return b_.CreateShuffleVector(first, second, mask);
  }
  Value* result = llvm::PoisonValue::get(vector);
  for (int lane = 0; lane < lanes; ++lane) {
    Value* index =
        affine ? b_.CreateNSWAdd(affine->base, b_.getInt64(static_cast<uint64_t>(affine->stride * lane)))
               : emit_lane(node.index, lane);
    Value* active = predicate ? b_.CreateExtractElement(predicate, static_cast<uint64_t>(lane)) : nullptr;
    result =
        b_.CreateInsertElement(result, elements_.load(buffer, index, active), static_cast<uint64_t>(lane));
  }
  return result;
}

Value* KernelEmitter::emit_load(const LoadNode& node) {
  const BufferNode& buffer = *node.buffer;
  const int lanes = node.type.lanes;
  const bool masked = static_cast<bool>(node.predicate);
  ++index_depth_;
  Value* raw = nullptr;
  if (lanes == 1) {
    Value* index = emit(node.index);
    raw = elements_.load(buffer, index, node.predicate ? emit(node.predicate) : nullptr,
                         buffers_.alignment(buffer, node.index));
  } else {
    std::optional<Affine> affine = emit_affine(node.index);
    llvm::Type* vector = with_lanes(storage_type(context_, buffer.dtype), lanes);
    const bool contiguous = affine && (affine->stride == 1 || (affine->stride == -1 && !masked));
    if (gpu_ && masked && affine && affine->stride == 1 && scalar_predicate(node.predicate).get()) {
      raw = elements_.load_where(emit(scalar_predicate(node.predicate)), vector, [&] {
        Value* pointer = buffers_.element(buffer, affine->base);
        llvm::LoadInst* load = b_.CreateAlignedLoad(vector, pointer, buffers_.alignment(buffer, node.index));
        buffers_.annotate(load, buffer);
        return load;
      });
    } else if (gpu_ && masked) {
      raw = emit_lanes_load(node, affine);
    } else if (contiguous && masked) {
      Value* mask = splat(b_, emit(node.predicate), lanes);
      reports_.lanes(buffer, false, affine->base, lanes, mask);
      llvm::CallInst* load =
          b_.CreateMaskedLoad(vector, buffers_.element(buffer, affine->base), buffers_.alignment(buffer),
                              mask, llvm::Constant::getNullValue(vector));
      buffers_.annotate(load, buffer);
      raw = load;
    } else if (contiguous) {
      Value* first = affine->stride == 1
                         ? affine->base
                         : b_.CreateNSWAdd(affine->base, b_.getInt64(static_cast<uint64_t>(1 - lanes)));
      reports_.lanes(buffer, false, first, lanes, nullptr);
      const llvm::Align known =
          affine->stride == 1 ? buffers_.alignment(buffer, node.index) : buffers_.alignment(buffer);
      llvm::LoadInst* load = b_.CreateAlignedLoad(vector, buffers_.element(buffer, first), known);
      buffers_.annotate(load, buffer);
      raw = affine->stride == 1 ? static_cast<Value*>(load) : b_.CreateVectorReverse(load);
    } else if (affine && affine->stride == 0 && (!masked || node.predicate.as<BroadcastNode>() != nullptr)) {
      Value* predicate = nullptr;
      if (masked) predicate = emit(node.predicate.as<BroadcastNode>()->value);
      raw = splat(b_, elements_.load(buffer, affine->base, predicate), lanes);
    } else if (affine && affine->stride == 0 && !gpu_) {
      // One load for all lanes, if any is on.
      Value* mask = emit(node.predicate);
      Value* one = elements_.load(buffer, affine->base, b_.CreateOrReduce(mask));
      raw = b_.CreateSelect(mask, splat(b_, one, lanes), llvm::Constant::getNullValue(vector));
    } else {
      raw = emit_lanes_load(node, affine);
    }
  }
  --index_depth_;
  return conversions_.from_storage(raw, buffer.dtype);
}

void KernelEmitter::emit_prefetch(const PrefetchNode& node) {
  if (gpu_ || reports_.active()) return;
  Value* base = buffers_.address(*node.buffer);
  cache_.clear();
  ++index_depth_;
  Value* index = emit(node.index);
  --index_depth_;
  constexpr uint32_t kData = 1;
  const uint32_t write = node.fetch == Fetch::kWrite ? 1 : 0;
  const uint32_t locality = node.fetch == Fetch::kSecondLevel ? 2 : 3;
  Value* pointer = b_.CreateGEP(storage_type(context_, node.buffer->dtype), base, index);  // may be outside
  b_.CreateIntrinsic(llvm::Intrinsic::prefetch, {b_.getPtrTy()},
                     {pointer, b_.getInt32(write), b_.getInt32(locality), b_.getInt32(kData)});
}

void KernelEmitter::emit_transpose(const TransposeNode& node) {
  cache_.clear();
  const auto side = static_cast<size_t>(node.side);
  llvm::Type* vector = with_lanes(storage_type(context_, node.source->dtype), node.side);
  ++index_depth_;
  Value *index = emit(node.index), *stride = emit(node.stride);
  --index_depth_;
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

void KernelEmitter::emit_store(const StoreNode& node) {
  cache_.clear();
  const BufferNode& buffer = *node.buffer;
  const int lanes = std::max(node.index.type().lanes, node.value.type().lanes);
  internal_check(node.index.type().lanes == lanes, "kernel {}: store of {} lanes to one element of {}",
                 kernel_.name, lanes, buffer.name);
  Value* raw = splat(b_, conversions_.to_storage(emit(node.value), buffer.dtype), lanes);
  ++index_depth_;
  Value* predicate = node.predicate ? emit(node.predicate) : nullptr;
  if (lanes == 1) {
    elements_.store(buffer, emit(node.index), raw, predicate, buffers_.alignment(buffer, node.index));
    --index_depth_;
    return;
  }
  std::optional<Affine> affine = emit_affine(node.index);
  const bool contiguous = affine && affine->stride == 1;
  if (gpu_ && contiguous && predicate && scalar_predicate(node.predicate).get()) {
    elements_.store_where(emit(scalar_predicate(node.predicate)), [&] {
      Value* pointer = buffers_.element(buffer, affine->base);
      buffers_.annotate(b_.CreateAlignedStore(raw, pointer, buffers_.alignment(buffer, node.index)), buffer);
    });
  } else if (contiguous && !(gpu_ && predicate)) {
    reports_.lanes(buffer, true, affine->base, lanes, predicate ? splat(b_, predicate, lanes) : nullptr);
    Value* pointer = buffers_.element(buffer, affine->base);
    llvm::Instruction* store =
        predicate ? static_cast<llvm::Instruction*>(b_.CreateMaskedStore(
                        raw, pointer, buffers_.alignment(buffer), splat(b_, predicate, lanes)))
                  : b_.CreateAlignedStore(raw, pointer, buffers_.alignment(buffer, node.index));
    buffers_.annotate(store, buffer);
  } else {
    for (int lane = 0; lane < lanes; ++lane) {
      Value* index =
          affine ? b_.CreateNSWAdd(affine->base, b_.getInt64(static_cast<uint64_t>(affine->stride * lane)))
                 : emit_lane(node.index, lane);
      Value* active = predicate
                          ? b_.CreateExtractElement(splat(b_, predicate, lanes), static_cast<uint64_t>(lane))
                          : nullptr;
      elements_.store(buffer, index, b_.CreateExtractElement(raw, static_cast<uint64_t>(lane)), active);
    }
  }
  --index_depth_;
}

}  // namespace gantry
