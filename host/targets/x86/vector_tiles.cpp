#include "host/targets/x86/vector_tiles.h"

namespace gantry::x86 {

using llvm::Value;

VectorTiles::VectorTiles(TargetEmitter& emitter, llvm::Type* lane, int lanes)
    : emitter_(emitter),
      lanes_(lanes),
      lane_(lane),
      sums_(with_lanes(lane, lanes)),
      variable_(with_lanes(emitter.ir.getFloatTy(), lanes)) {}

Value* VectorTiles::read(int number) const {
  llvm::IRBuilder<>& ir = emitter_.ir;
  return ir.CreateBitCast(ir.CreateLoad(variable_, emitter_.tile_variable(number, lanes_)), sums_);
}

void VectorTiles::write(int number, Value* value) const {
  llvm::IRBuilder<>& ir = emitter_.ir;
  ir.CreateStore(ir.CreateBitCast(value, variable_), emitter_.tile_variable(number, lanes_));
}

void VectorTiles::emit(const TileNode& node, bool spread) const {
  if (node.op == TileNode::Op::kConfigure || node.op == TileNode::Op::kRelease) return;
  if (node.op == TileNode::Op::kZero) return write(node.tile, llvm::Constant::getNullValue(sums_));
  llvm::IRBuilder<>& ir = emitter_.ir;
  Value* address = emitter_.element_pointer(*node.buffer, emitter_.index(node.index));
  const llvm::Align align(static_cast<uint64_t>(byte_width(node.buffer->dtype)));
  const auto annotated = [&](auto* access) { return emitter_.annotated(access, *node.buffer); };
  if (node.op == TileNode::Op::kStore) {
    annotated(ir.CreateAlignedStore(read(node.tile), address, align));
    return;
  }
  Value* loaded = annotated(ir.CreateAlignedLoad(spread ? lane_ : sums_, address, align));
  write(node.tile, spread ? ir.CreateVectorSplat(lanes_, loaded) : loaded);
}

}  // namespace gantry::x86
