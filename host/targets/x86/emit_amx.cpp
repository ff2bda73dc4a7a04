// TDPBF16PS: products in AMX's tile registers.
#include <fmt/format.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <array>

#include "host/codegen/target_emitter.h"
#include "host/targets/x86/codegen.h"
#include "host/targets/x86/tile_units.h"

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

}  // namespace

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

}  // namespace gantry::x86
