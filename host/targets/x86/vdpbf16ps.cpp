// VDPBF16PS: tiles of one row, in AVX-512's vector registers.
#include <llvm/IR/IntrinsicsX86.h>

#include "host/codegen/cpu_features.h"
#include "host/targets/x86/tile_instructions.h"
#include "host/targets/x86/vector_tiles.h"

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
  const VectorTiles tiles(emitter, ir.getFloatTy(), kLanes);
  if (node.op == TileNode::Op::kConfigure) emitter.first_weight_tile() = node.b_begin;
  if (node.op == TileNode::Op::kDot) {
    llvm::Type* pairs = with_lanes(ir.getBFloatTy(), 2 * kLanes);
    Value *a = ir.CreateBitCast(tiles.read(node.a), pairs), *b = ir.CreateBitCast(tiles.read(node.b), pairs);
    return tiles.write(node.tile, ir.CreateIntrinsic(llvm::Intrinsic::x86_avx512bf16_dpbf16ps_512, {},
                                                     {tiles.read(node.tile), a, b}));
  }
  tiles.emit(node, node.op == TileNode::Op::kLoad && node.buffer->dtype == DType::kBF16 &&
                       node.tile < emitter.first_weight_tile());
}

}  // namespace

/// Vectors want as much of the weights as tiles, with less to do.
const TileInstruction kVdpbf16ps{
    .geometry = &kVdpbf16psGeometry,
    .is_there = is_there,
    .costs = {.cycles = costs, .other_slack = 0.85, .weights_in_first_level = true},
    .emit = emit};

}  // namespace gantry::x86
