// Tile registers: which; AMX's.
#include <fmt/format.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <array>

#include "host/codegen/cpu_features.h"
#include "host/codegen/kernel_emitter.h"
#include "host/support/error.h"
#include "host/targets/arm/tile_units.h"
#include "host/targets/x86/tile_units.h"

namespace gantry {

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

}  // namespace

void KernelEmitter::emit_tile(const TileNode& node) {
  const std::optional<TileUnit> unit = tile_unit(target_);
  internal_check(unit.has_value(), "kernel {}: tile registers in code for {}", kernel_.name, target_.name);
  cache_.clear();
  if (*unit == x86::kAmx) return emit_amx_tile(node);
  if (*unit == x86::kVdpbf16ps) return emit_vdpbf16ps_tile(node);
  internal_check(*unit == arm::kBfmmla, "kernel {}: no code for tiles of {}", kernel_.name, name_of(*unit));
  emit_bfmmla_tile(node);
}

/// A tile that is a vector register. Numbers stand for variables: LLVM allocates the registers and orders the
/// loads between the products.
Value* KernelEmitter::tile_variable(int number, int lanes) {
  Value*& variable = scope_.tile_registers[number];
  if (!variable) {
    llvm::IRBuilder<> entry(scope_.entry, scope_.entry->begin());
    variable = entry.CreateAlloca(with_lanes(b_.getFloatTy(), lanes), nullptr, "tile");
  }
  return variable;
}

void KernelEmitter::emit_amx_tile(const TileNode& node) {
  auto reg = [&](int number) { return b_.getInt8(static_cast<uint8_t>(number)); };
  if (node.op == TileNode::Op::kConfigure) {
    const std::string name = fmt::format("tile.config.{}.{}", node.rows, node.b_begin);
    llvm::GlobalVariable* config = module_.getNamedGlobal(name);
    if (!config) {
      auto bytes = tile_shapes(node.rows, node.b_begin);
      llvm::Constant* value = llvm::ConstantDataArray::get(context_, llvm::ArrayRef<uint8_t>(bytes));
      config = new llvm::GlobalVariable(module_, value->getType(), true, llvm::GlobalValue::PrivateLinkage,
                                        value, name);
      config->setAlignment(llvm::Align(64));
    }
    b_.CreateIntrinsic(llvm::Intrinsic::x86_ldtilecfg, {}, {config});
    return;
  }
  if (node.op == TileNode::Op::kRelease) {
    b_.CreateIntrinsic(llvm::Intrinsic::x86_tilerelease, {}, {});
    return;
  }
  if (node.op == TileNode::Op::kZero) {
    b_.CreateIntrinsic(llvm::Intrinsic::x86_tilezero, {}, {reg(node.tile)});
    return;
  }
  if (node.op == TileNode::Op::kDot) {
    b_.CreateIntrinsic(llvm::Intrinsic::x86_tdpbf16ps, {}, {reg(node.tile), reg(node.a), reg(node.b)});
    return;
  }
  ++index_depth_;
  Value *index = emit(node.index), *stride = emit(node.stride);
  --index_depth_;
  Value* bytes = b_.CreateNSWMul(stride, b_.getInt64(static_cast<uint64_t>(byte_width(node.buffer->dtype))));
  Value* address = element_pointer(*node.buffer, index);
  const auto id =
      node.op == TileNode::Op::kLoad ? llvm::Intrinsic::x86_tileloadd64 : llvm::Intrinsic::x86_tilestored64;
  b_.CreateIntrinsic(id, {}, {reg(node.tile), address, bytes});
}

}  // namespace gantry
