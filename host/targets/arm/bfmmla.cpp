// BFMMLA: tiles of two rows, in the vector registers.
#include <llvm/IR/IntrinsicsAArch64.h>

#include <array>

#include "host/codegen/cpu_features.h"
#include "host/codegen/target_emitter.h"
#include "host/targets/arm/tile_instructions.h"

namespace gantry::arm {

using llvm::Value;

namespace {

/// Cores issue it as often as multiply-adds (llvm-mca's models of Cortex-A510, A710 and X2, Neoverse N2, V1
/// and V2): a tile is stored by two instructions and read again; a block of 16 elements is converted twice,
/// from four vectors into halves of four.
TileCosts costs(const MachineModel& machine) {
  constexpr double kShare = 0.9;  // of the peak, in the inner loop
  return {1 / (kShare * machine.bf16_per_cycle), 3, 16.0 / machine.fma_per_cycle,
          1 / machine.memory_bytes_per_cycle};
}

bool is_there(const std::vector<std::string>& features) {
  return has_feature(features, "bf16");
}

void emit(TargetEmitter& emitter, const TileNode& node) {
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

}  // namespace

const TileInstruction kBfmmla{
    .geometry = &kBfmmlaGeometry, .is_there = is_there, .costs = {.cycles = costs}, .emit = emit};

}  // namespace gantry::arm
