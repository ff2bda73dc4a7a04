// BFMMLA: tiles of two rows, in the vector registers.
#include <llvm/IR/IntrinsicsAArch64.h>

#include <array>

#include "host/codegen/target_emitter.h"
#include "host/targets/arm/codegen.h"
#include "host/targets/arm/tile_units.h"

namespace gantry::arm {

using llvm::Value;

void emit_bfmmla(TargetEmitter& emitter, const TileNode& node) {
  llvm::IRBuilder<>& ir = emitter.ir;
  constexpr int kColumns = kBfmmlaGeometry.columns, kLanes = 4;
  llvm::Type *sums = with_lanes(ir.getFloatTy(), kLanes), *row = with_lanes(ir.getFloatTy(), kColumns);
  auto read = [&](int number) { return ir.CreateLoad(sums, emitter.tile_variable(number, kLanes)); };
  auto write = [&](int number, Value* value) {
    ir.CreateStore(value, emitter.tile_variable(number, kLanes));
  };
  if (node.op == TileNode::Op::kConfigure || node.op == TileNode::Op::kRelease) return;
  if (node.op == TileNode::Op::kZero) return write(node.tile, llvm::Constant::getNullValue(sums));
  if (node.op == TileNode::Op::kDot) {
    llvm::Type* operand = with_lanes(ir.getBFloatTy(), 8);
    Value *a = ir.CreateBitCast(read(node.a), operand), *b = ir.CreateBitCast(read(node.b), operand);
    return write(node.tile,
                 ir.CreateIntrinsic(llvm::Intrinsic::aarch64_neon_bfmmla, {}, {read(node.tile), a, b}));
  }
  Value* index = emitter.index(node.index);
  Value* stride = emitter.index(node.stride);
  const BufferNode& buffer = *node.buffer;
  const llvm::Align align(static_cast<uint64_t>(byte_width(buffer.dtype)));
  auto annotated = [&](auto* access) { return emitter.annotated(access, buffer); };
  if (buffer.dtype == DType::kBF16) {  // an operand: its 16 bytes lie together
    Value* address = emitter.element_pointer(buffer, index);
    return write(node.tile, annotated(ir.CreateAlignedLoad(sums, address, align)));
  }
  const std::array addresses{emitter.element_pointer(buffer, index),
                             emitter.element_pointer(buffer, ir.CreateNSWAdd(index, stride))};
  if (node.op == TileNode::Op::kLoad) {
    Value* first = annotated(ir.CreateAlignedLoad(row, addresses[0], align));
    Value* second = annotated(ir.CreateAlignedLoad(row, addresses[1], align));
    return write(node.tile, ir.CreateShuffleVector(first, second, llvm::ArrayRef<int>{0, 1, 2, 3}));
  }
  Value* tile = read(node.tile);
  for (int i = 0; i < 2; ++i) {
    Value* part = ir.CreateShuffleVector(tile, llvm::ArrayRef<int>{i * kColumns, i * kColumns + 1});
    annotated(ir.CreateAlignedStore(part, addresses[static_cast<size_t>(i)], align));
  }
}

}  // namespace gantry::arm
