// Products and sums that are one instruction.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include "host/codegen/conversions.h"
#include "host/codegen/cpu_codegen.h"
#include "host/codegen/expressions.h"
#include "host/codegen/math.h"

namespace gantry {

class MultiplyAdds {
 public:
  MultiplyAdds(llvm::IRBuilder<>& builder, Expressions& expressions, MathBuilder& math,
               Conversions& conversions, const CpuInstructions& instructions);

  /// x * y + z and its variants with minus as one llvm.fma, which takes a broadcast from memory as its
  /// operand. Null where the expression is none of them or the target has no such instruction.
  llvm::Value* fused(const BinaryNode& node);
  /// True if the call is one of f16 that half() computes.
  bool is_half(const CallNode& node) const;
  /// x * y + z of f16, rounded once. Registers hold f16 as f32; LLVM drops what is converted there and back.
  llvm::Value* half(const CallNode& node);

 private:
  /// An f16 expression in f16's own form.
  llvm::Value* half_operand(const Expr& e, int lanes);

  llvm::IRBuilder<>& b_;
  Expressions& expressions_;
  MathBuilder& math_;
  Conversions& conversions_;
  const CpuInstructions& instructions_;
};

}  // namespace gantry
