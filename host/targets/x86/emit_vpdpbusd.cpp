// VPDPBUSD: tiles of one row of u8 by i8, in AVX-512's vector registers.
#include <llvm/IR/IntrinsicsX86.h>

#include "host/targets/x86/codegen.h"
#include "host/targets/x86/tile_units.h"
#include "host/targets/x86/vector_tiles.h"

namespace gantry::x86 {

void emit_vpdpbusd(TargetEmitter& emitter, const TileNode& node) {
  const VectorTiles tiles(emitter, emitter.ir.getInt32Ty(), kVpdpbusdGeometry.columns);
  if (node.op == TileNode::Op::kDot) {
    return tiles.write(node.tile, emitter.ir.CreateIntrinsic(
                                      llvm::Intrinsic::x86_avx512_vpdpbusd_512, {},
                                      {tiles.read(node.tile), tiles.read(node.a), tiles.read(node.b)}));
  }
  tiles.emit(node, node.op == TileNode::Op::kLoad && node.buffer->dtype == kVpdpbusdGeometry.row_element);
}

}  // namespace gantry::x86
