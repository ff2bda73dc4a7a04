// Tiles of one row in AVX-512's vector registers, for vdpbf16ps.
#include <llvm/IR/IntrinsicsX86.h>

#include "host/codegen/kernel_emitter.h"
#include "host/targets/x86/tile_units.h"

namespace gantry {

using llvm::Value;

void KernelEmitter::emit_vdpbf16ps_tile(const TileNode& node) {
  constexpr int kLanes = x86::kVdpbf16psGeometry.columns;
  llvm::Type* sums = with_lanes(b_.getFloatTy(), kLanes);
  auto read = [&](int number) { return b_.CreateLoad(sums, tile_variable(number, kLanes)); };
  auto write = [&](int number, Value* value) { b_.CreateStore(value, tile_variable(number, kLanes)); };
  if (node.op == TileNode::Op::kConfigure) scope_.first_weight_tile = node.b_begin;
  if (node.op == TileNode::Op::kConfigure || node.op == TileNode::Op::kRelease) return;
  if (node.op == TileNode::Op::kZero) return write(node.tile, llvm::Constant::getNullValue(sums));
  if (node.op == TileNode::Op::kDot) {
    llvm::Type* pairs = with_lanes(b_.getBFloatTy(), 2 * kLanes);
    Value *a = b_.CreateBitCast(read(node.a), pairs), *b = b_.CreateBitCast(read(node.b), pairs);
    return write(node.tile, b_.CreateIntrinsic(llvm::Intrinsic::x86_avx512bf16_dpbf16ps_512, {},
                                               {read(node.tile), a, b}));
  }
  ++index_depth_;
  Value* address = element_pointer(*node.buffer, emit(node.index));
  --index_depth_;
  const llvm::Align align(static_cast<uint64_t>(byte_width(node.buffer->dtype)));
  auto annotated = [&](auto* access) {
    annotate(access, *node.buffer);
    return access;
  };
  if (node.op == TileNode::Op::kStore) {
    annotated(b_.CreateAlignedStore(read(node.tile), address, align));
    return;
  }
  if (node.buffer->dtype == DType::kBF16 && node.tile < scope_.first_weight_tile) {
    Value* pair = annotated(b_.CreateAlignedLoad(b_.getFloatTy(), address, align));
    return write(node.tile, b_.CreateVectorSplat(kLanes, pair));
  }
  write(node.tile, annotated(b_.CreateAlignedLoad(sums, address, align)));
}

}  // namespace gantry
