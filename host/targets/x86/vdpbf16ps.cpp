// VDPBF16PS: tiles of one row, in AVX-512's vector registers.
#include <llvm/IR/IntrinsicsX86.h>

#include "host/codegen/cpu_features.h"
#include "host/codegen/target_emitter.h"
#include "host/targets/x86/tile_instructions.h"

namespace gantry::x86 {

using llvm::Value;

namespace {

/// The share leaves room for weights that come from afar: in first-level data it is 0.95 (measured on
/// znver5).
TileCosts costs(const MachineModel& machine) {
  constexpr double kShare = 0.85;  // of the peak, in the inner loop
  return {1 / (kShare * machine.bf16_per_cycle), 3, 8, 1 / machine.memory_bytes_per_cycle};
}

bool is_there(const std::vector<std::string>& features) {
  return has_feature(features, "avx512bf16");
}

void emit(TargetEmitter& emitter, const TileNode& node) {
  llvm::IRBuilder<>& ir = emitter.ir;
  constexpr int kLanes = kVdpbf16psGeometry.columns;
  llvm::Type* sums = emitter.with_lanes(ir.getFloatTy(), kLanes);
  auto read = [&](int number) { return ir.CreateLoad(sums, emitter.tile_variable(number, kLanes)); };
  auto write = [&](int number, Value* value) {
    ir.CreateStore(value, emitter.tile_variable(number, kLanes));
  };
  if (node.op == TileNode::Op::kConfigure) emitter.first_weight_tile() = node.b_begin;
  if (node.op == TileNode::Op::kConfigure || node.op == TileNode::Op::kRelease) return;
  if (node.op == TileNode::Op::kZero) return write(node.tile, llvm::Constant::getNullValue(sums));
  if (node.op == TileNode::Op::kDot) {
    llvm::Type* pairs = emitter.with_lanes(ir.getBFloatTy(), 2 * kLanes);
    Value *a = ir.CreateBitCast(read(node.a), pairs), *b = ir.CreateBitCast(read(node.b), pairs);
    return write(node.tile, ir.CreateIntrinsic(llvm::Intrinsic::x86_avx512bf16_dpbf16ps_512, {},
                                               {read(node.tile), a, b}));
  }
  Value* address = emitter.element_pointer(*node.buffer, emitter.index(node.index));
  const llvm::Align align(static_cast<uint64_t>(byte_width(node.buffer->dtype)));
  auto annotated = [&](auto* access) { return emitter.annotated(access, *node.buffer); };
  if (node.op == TileNode::Op::kStore) {
    annotated(ir.CreateAlignedStore(read(node.tile), address, align));
    return;
  }
  if (node.buffer->dtype == DType::kBF16 && node.tile < emitter.first_weight_tile()) {
    Value* pair = annotated(ir.CreateAlignedLoad(ir.getFloatTy(), address, align));
    return write(node.tile, ir.CreateVectorSplat(kLanes, pair));
  }
  write(node.tile, annotated(ir.CreateAlignedLoad(sums, address, align)));
}

}  // namespace

/// Vectors want as much of the weights as tiles, with less to do.
const TileInstruction kVdpbf16ps{
    .geometry = &kVdpbf16psGeometry,
    .is_there = is_there,
    .costs = {.cycles = costs, .other_slack = 0.85, .weights_in_first_level = true},
    .emit = emit};

}  // namespace gantry::x86
