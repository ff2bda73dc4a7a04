// Tiles of two rows in AArch64's vector registers, for bfmmla.
#include <llvm/IR/IntrinsicsAArch64.h>

#include <array>

#include "host/codegen/kernel_emitter.h"
#include "host/support/error.h"
#include "host/targets/arm/tile_units.h"

namespace gantry {

using llvm::Value;

void KernelEmitter::emit_bfmmla_tile(const TileNode& node) {
  constexpr int kColumns = arm::kBfmmlaGeometry.columns, kLanes = 4;
  llvm::Type *sums = with_lanes(b_.getFloatTy(), kLanes), *row = with_lanes(b_.getFloatTy(), kColumns);
  auto read = [&](int number) { return b_.CreateLoad(sums, tile_variable(number, kLanes)); };
  auto write = [&](int number, Value* value) { b_.CreateStore(value, tile_variable(number, kLanes)); };
  if (node.op == TileNode::Op::kConfigure || node.op == TileNode::Op::kRelease) return;
  if (node.op == TileNode::Op::kZero) return write(node.tile, llvm::Constant::getNullValue(sums));
  if (node.op == TileNode::Op::kDot) {
    llvm::Type* operand = with_lanes(b_.getBFloatTy(), 8);
    Value *a = b_.CreateBitCast(read(node.a), operand), *b = b_.CreateBitCast(read(node.b), operand);
    return write(node.tile,
                 b_.CreateIntrinsic(llvm::Intrinsic::aarch64_neon_bfmmla, {}, {read(node.tile), a, b}));
  }
  ++index_depth_;
  Value* index = emit(node.index);
  Value* stride = emit(node.stride);
  --index_depth_;
  const BufferNode& buffer = *node.buffer;
  const llvm::Align align(static_cast<uint64_t>(byte_width(buffer.dtype)));
  auto annotated = [&](auto* access) {
    annotate(access, buffer);
    return access;
  };
  if (buffer.dtype == DType::kBF16) {  // an operand: its 16 bytes lie together
    Value* address = element_pointer(buffer, index);
    return write(node.tile, annotated(b_.CreateAlignedLoad(sums, address, align)));
  }
  const std::array addresses{element_pointer(buffer, index),
                             element_pointer(buffer, b_.CreateNSWAdd(index, stride))};
  if (node.op == TileNode::Op::kLoad) {
    Value* first = annotated(b_.CreateAlignedLoad(row, addresses[0], align));
    Value* second = annotated(b_.CreateAlignedLoad(row, addresses[1], align));
    return write(node.tile, b_.CreateShuffleVector(first, second, llvm::ArrayRef<int>{0, 1, 2, 3}));
  }
  Value* tile = read(node.tile);
  for (int i = 0; i < 2; ++i) {
    Value* part = b_.CreateShuffleVector(tile, llvm::ArrayRef<int>{i * kColumns, i * kColumns + 1});
    annotated(b_.CreateAlignedStore(part, addresses[static_cast<size_t>(i)], align));
  }
}

}  // namespace gantry
