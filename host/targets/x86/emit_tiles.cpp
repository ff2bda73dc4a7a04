// The instructions of x86-64's tile units: AMX's tile registers, and tiles of one row in AVX-512's vector
// registers.
#include <fmt/format.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <array>

#include "host/codegen/target_emitter.h"
#include "host/support/error.h"
#include "host/targets/x86/tile_units.h"
#include "host/targets/x86/x86.h"

namespace gantry::x86 {

using llvm::Value;

namespace {

/// What LDTILECFG reads (Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 18):
/// palette 1, registers of rows of 64 bytes: `rows` up to `b_begin`, then 16.
std::array<uint8_t, 64> tile_shapes(int rows, int b_begin) {
  constexpr size_t kColumnBytes = 16, kRowCounts = 48, kRegisters = 8;
  constexpr uint8_t kDepthPairs = 16;
  std::array<uint8_t, 64> config{};
  config[0] = 1;
  for (size_t t = 0; t < kRegisters; ++t) {
    config[kColumnBytes + 2 * t] = 64;
    config[kRowCounts + t] = t < static_cast<size_t>(b_begin) ? static_cast<uint8_t>(rows) : kDepthPairs;
  }
  return config;
}

void emit_amx(TargetEmitter& emitter, const TileNode& node) {
  llvm::IRBuilder<>& ir = emitter.ir;
  llvm::Module& module = emitter.module;
  auto reg = [&](int number) { return ir.getInt8(static_cast<uint8_t>(number)); };
  if (node.op == TileNode::Op::kConfigure) {
    const std::string name = fmt::format("tile.config.{}.{}", node.rows, node.b_begin);
    llvm::GlobalVariable* config = module.getNamedGlobal(name);
    if (!config) {
      auto bytes = tile_shapes(node.rows, node.b_begin);
      llvm::Constant* value =
          llvm::ConstantDataArray::get(module.getContext(), llvm::ArrayRef<uint8_t>(bytes));
      config = new llvm::GlobalVariable(module, value->getType(), true, llvm::GlobalValue::PrivateLinkage,
                                        value, name);
      config->setAlignment(llvm::Align(64));
    }
    ir.CreateIntrinsic(llvm::Intrinsic::x86_ldtilecfg, {}, {config});
    return;
  }
  if (node.op == TileNode::Op::kRelease) {
    ir.CreateIntrinsic(llvm::Intrinsic::x86_tilerelease, {}, {});
    return;
  }
  if (node.op == TileNode::Op::kZero) {
    ir.CreateIntrinsic(llvm::Intrinsic::x86_tilezero, {}, {reg(node.tile)});
    return;
  }
  if (node.op == TileNode::Op::kDot) {
    ir.CreateIntrinsic(llvm::Intrinsic::x86_tdpbf16ps, {}, {reg(node.tile), reg(node.a), reg(node.b)});
    return;
  }
  Value *index = emitter.index(node.index), *stride = emitter.index(node.stride);
  Value* bytes = ir.CreateNSWMul(stride, ir.getInt64(static_cast<uint64_t>(byte_width(node.buffer->dtype))));
  Value* address = emitter.element_pointer(*node.buffer, index);
  const auto id =
      node.op == TileNode::Op::kLoad ? llvm::Intrinsic::x86_tileloadd64 : llvm::Intrinsic::x86_tilestored64;
  ir.CreateIntrinsic(id, {}, {reg(node.tile), address, bytes});
}

void emit_vdpbf16ps(TargetEmitter& emitter, const TileNode& node) {
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

void emit_tile(TargetEmitter& emitter, TileUnit unit, const TileNode& node) {
  internal_check(unit == kAmx || unit == kVdpbf16ps, "tiles of {} are none of x86-64's", name_of(unit));
  return unit == kAmx ? emit_amx(emitter, node) : emit_vdpbf16ps(emitter, node);
}

}  // namespace gantry::x86
