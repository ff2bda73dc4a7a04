// VPDPBUSD: tiles of one row of u8 by i8, in AVX-512's vector registers.
#include <llvm/IR/IntrinsicsX86.h>

#include "host/codegen/cpu_features.h"
#include "host/codegen/target_emitter.h"
#include "host/targets/x86/tile_instructions.h"

namespace gantry::x86 {

using llvm::Value;

namespace {

/// Issued as often as multiply-adds by the cores that have it twice. The share is that of VDPBF16PS, which
/// reads operands alike; a row's block of 64 bytes is copied by a load and a store.
TileCosts costs(const MachineModel& machine) {
  constexpr double kShare = 0.85;  // of the peak, in the inner loop
  return {1 / (kShare * machine.fma_per_cycle), 3, 2, 1 / machine.memory_bytes_per_cycle};
}

bool is_there(const std::vector<std::string>& features) {
  return has_feature(features, "avx512vnni") && has_feature(features, "avx512bw");
}

void emit(TargetEmitter& emitter, const TileNode& node) {
  llvm::IRBuilder<>& ir = emitter.ir;
  constexpr int kLanes = kVpdpbusdGeometry.columns;
  llvm::Type *bits = emitter.with_lanes(ir.getFloatTy(), kLanes),
             *sums = emitter.with_lanes(ir.getInt32Ty(), kLanes);
  auto read = [&](int number) {
    return ir.CreateBitCast(ir.CreateLoad(bits, emitter.tile_variable(number, kLanes)), sums);
  };
  auto write = [&](int number, Value* value) {
    ir.CreateStore(ir.CreateBitCast(value, bits), emitter.tile_variable(number, kLanes));
  };
  if (node.op == TileNode::Op::kConfigure || node.op == TileNode::Op::kRelease) return;
  if (node.op == TileNode::Op::kZero) return write(node.tile, llvm::Constant::getNullValue(sums));
  if (node.op == TileNode::Op::kDot) {
    return write(node.tile, ir.CreateIntrinsic(llvm::Intrinsic::x86_avx512_vpdpbusd_512, {},
                                               {read(node.tile), read(node.a), read(node.b)}));
  }
  Value* address = emitter.element_pointer(*node.buffer, emitter.index(node.index));
  const llvm::Align align(static_cast<uint64_t>(byte_width(node.buffer->dtype)));
  auto annotated = [&](auto* access) { return emitter.annotated(access, *node.buffer); };
  if (node.op == TileNode::Op::kStore) {
    annotated(ir.CreateAlignedStore(read(node.tile), address, align));
    return;
  }
  if (node.buffer->dtype == kVpdpbusdGeometry.row_element) {
    Value* four = annotated(ir.CreateAlignedLoad(ir.getInt32Ty(), address, align));
    return write(node.tile, ir.CreateVectorSplat(kLanes, four));
  }
  write(node.tile, annotated(ir.CreateAlignedLoad(sums, address, align)));
}

}  // namespace

const TileInstruction kVpdpbusd{
    .geometry = &kVpdpbusdGeometry,
    .is_there = is_there,
    .costs = {.cycles = costs, .other_slack = 0.85, .weights_in_first_level = true},
    .emit = emit};

}  // namespace gantry::x86
