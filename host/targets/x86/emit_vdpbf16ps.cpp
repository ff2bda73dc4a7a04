// VDPBF16PS: tiles of one row, in AVX-512's vector registers.
#include <llvm/IR/IntrinsicsX86.h>

#include "host/targets/x86/codegen.h"
#include "host/targets/x86/tile_units.h"
#include "host/targets/x86/vector_tiles.h"

namespace gantry::x86 {

using llvm::Value;

void emit_vdpbf16ps(TargetEmitter& emitter, const TileNode& node) {
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

}  // namespace gantry::x86
