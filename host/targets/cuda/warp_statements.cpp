#include "host/codegen/warp_statements.h"

#include <llvm/IR/IntrinsicsNVPTX.h>

#include <vector>

#include "host/codegen/value_types.h"
#include "host/support/error.h"

namespace gantry {

using llvm::Value;

namespace {

constexpr int kAllLanes = -1, kWarpClamp = 0x1f;

llvm::Intrinsic::ID intrinsic_of(MmaShape shape) {
  switch (shape) {
    case MmaShape::kM16N8K8Tf32:
      return llvm::Intrinsic::nvvm_mma_m16n8k8_row_col_tf32;
    case MmaShape::kM16N8K16Bf16:
      return llvm::Intrinsic::nvvm_mma_m16n8k16_row_col_bf16;
    case MmaShape::kM16N8K16F16:
      return llvm::Intrinsic::nvvm_mma_m16n8k16_row_col_f32_f32;
    case MmaShape::kM16N8K8F16:
      return llvm::Intrinsic::nvvm_mma_m16n8k8_row_col_f32_f32;
  }
  internal_error("unknown matrix instruction");
}

}  // namespace

WarpStatements::WarpStatements(llvm::IRBuilder<>& builder, Expressions& expressions, Conversions& conversions,
                               const Buffers& buffers, BufferElements& elements, const std::string& kernel)
    : b_(builder),
      expressions_(expressions),
      conversions_(conversions),
      buffers_(buffers),
      elements_(elements),
      kernel_(kernel) {}

Value* WarpStatements::shuffle_bits(Value* value, int lane_mask) {
  return b_.CreateIntrinsic(llvm::Intrinsic::nvvm_shfl_sync_bfly_i32, {},
                            {b_.getInt32(static_cast<uint32_t>(kAllLanes)), value,
                             b_.getInt32(static_cast<uint32_t>(lane_mask)), b_.getInt32(kWarpClamp)});
}

void WarpStatements::shuffle(const ShuffleNode& node) {
  expressions_.forget();
  const DType dtype = node.target->dtype;
  internal_check(node.value.type().lanes == 1, "kernel {}: a shuffle of vectors", kernel_);
  Value* raw = conversions_.to_storage(expressions_.emit(node.value), dtype);
  llvm::Type* type = raw->getType();
  const unsigned bits = type->getPrimitiveSizeInBits();
  Value* integer = b_.CreateBitCast(raw, b_.getIntNTy(bits));
  Value* result = nullptr;
  if (bits == 64) {
    Value* low = shuffle_bits(b_.CreateTrunc(integer, b_.getInt32Ty()), node.lane_mask);
    Value* high = shuffle_bits(b_.CreateTrunc(b_.CreateLShr(integer, 32), b_.getInt32Ty()), node.lane_mask);
    result = b_.CreateOr(b_.CreateZExt(low, b_.getInt64Ty()),
                         b_.CreateShl(b_.CreateZExt(high, b_.getInt64Ty()), 32));
  } else {
    Value* received = shuffle_bits(b_.CreateZExt(integer, b_.getInt32Ty()), node.lane_mask);
    result = b_.CreateTrunc(received, b_.getIntNTy(bits));
  }
  elements_.store(*node.target, expressions_.emit_index(node.index), b_.CreateBitCast(result, type), nullptr);
}

Value* WarpStatements::load_fragment(const Buffer& buffer, Value* index, int64_t offset, llvm::Type* type) {
  Value* first = b_.CreateNSWAdd(index, b_.getInt64(static_cast<uint64_t>(offset)));
  return b_.CreateAlignedLoad(type, buffers_.element(*buffer, first), buffers_.alignment(*buffer));
}

void WarpStatements::mma(const MmaNode& node) {
  expressions_.forget();
  const MmaGeometry& geometry = geometry_of(node.shape);
  const bool is_half = geometry.operand == DType::kF16;
  // f16 operands are pairs of halves, the others the bits of a register.
  llvm::Type* type = is_half ? with_lanes(b_.getHalfTy(), 2) : static_cast<llvm::Type*>(b_.getInt32Ty());
  std::vector<Value*> operands;
  auto add = [&](const Buffer& buffer, const Expr& index, int64_t elements) {
    Value* first = expressions_.emit_index(index);
    for (int64_t i = 0; i < elements; i += geometry.elements_of_register()) {
      operands.push_back(load_fragment(buffer, first, i, type));
    }
  };
  add(node.a, node.a_index, geometry.a_elements());
  add(node.b, node.b_index, geometry.b_elements());
  Value* first = expressions_.emit_index(node.d_index);
  for (int64_t i = 0; i < kMmaResults; ++i)
    operands.push_back(load_fragment(node.d, first, i, b_.getFloatTy()));
  Value* result = b_.CreateIntrinsic(intrinsic_of(node.shape), {}, operands);
  for (unsigned i = 0; i < kMmaResults; ++i) {
    Value* index = b_.CreateNSWAdd(first, b_.getInt64(i));
    b_.CreateAlignedStore(b_.CreateExtractValue(result, i), buffers_.element(*node.d, index),
                          buffers_.alignment(*node.d));
  }
}

}  // namespace gantry
