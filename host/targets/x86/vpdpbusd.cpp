// VPDPBUSD: tiles of one row of u8 by i8, in AVX-512's vector registers.
#include <llvm/IR/IntrinsicsX86.h>

#include "host/codegen/cpu_features.h"
#include "host/targets/x86/tile_instructions.h"
#include "host/targets/x86/vector_tiles.h"

namespace gantry::x86 {

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
  const VectorTiles tiles(emitter, emitter.ir.getInt32Ty(), kVpdpbusdGeometry.columns);
  if (node.op == TileNode::Op::kDot) {
    return tiles.write(node.tile, emitter.ir.CreateIntrinsic(
                                      llvm::Intrinsic::x86_avx512_vpdpbusd_512, {},
                                      {tiles.read(node.tile), tiles.read(node.a), tiles.read(node.b)}));
  }
  tiles.emit(node, node.op == TileNode::Op::kLoad && node.buffer->dtype == kVpdpbusdGeometry.row_element);
}

}  // namespace

const TileInstruction kVpdpbusd{
    .geometry = &kVpdpbusdGeometry,
    .is_there = is_there,
    .costs = {.cycles = costs, .other_slack = 0.85, .weights_in_first_level = true},
    .emit = emit};

}  // namespace gantry::x86
