// Functions of vectors of 64 bytes: AVX-512's permutations look up tables held in registers.
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/IntrinsicsX86.h>

#include "host/targets/x86/codegen.h"

namespace gantry::x86 {

using llvm::Value;

namespace {

constexpr uint16_t kAllLanes = 0xffff;

Value* look_up(llvm::IRBuilderBase& ir, Value* table, Value* places) {
  const bool is_float = table->getType()->getScalarType()->isFloatTy();
  const auto id =
      is_float ? llvm::Intrinsic::x86_avx512_permvar_sf_512 : llvm::Intrinsic::x86_avx512_permvar_si_512;
  return ir.CreateIntrinsic(id, {}, {table, places});
}

Value* reciprocal(llvm::IRBuilderBase& ir, Value* x) {
  return ir.CreateIntrinsic(llvm::Intrinsic::x86_avx512_rcp14_ps_512, {}, {x, x, ir.getInt16(kAllLanes)});
}

Value* scale(llvm::IRBuilderBase& ir, Value* x, Value* n) {
  constexpr uint32_t kRoundingOfControlRegister = 4;
  return ir.CreateIntrinsic(llvm::Intrinsic::x86_avx512_mask_scalef_ps_512, {},
                            {x, n, x, ir.getInt16(kAllLanes), ir.getInt32(kRoundingOfControlRegister)});
}

}  // namespace

const VectorMath& vector_math() {
  static const VectorMath known{.look_up = look_up, .reciprocal = reciprocal, .scale = scale};
  return known;
}

}  // namespace gantry::x86
