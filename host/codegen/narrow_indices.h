// Index arithmetic that provably fits in 32 bits, which GPUs have units for.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <functional>

#include "host/codegen/function_scope.h"
#include "host/codegen/index_range.h"
#include "host/codegen/integer_arithmetic.h"
#include "host/loops/index_signs.h"
#include "host/loops/stmt.h"

namespace gantry {

class NarrowIndices {
 public:
  NarrowIndices(llvm::IRBuilder<>& builder, FunctionScope& scope, IndexRanges& ranges, IndexSigns& signs,
                IntegerArithmetic& integers);

  /// i64 arithmetic of scalars in 32 bits, if operands and result provably fit; else null. `emit` gives an
  /// operand, as i64.
  llvm::Value* binary(const BinaryNode& node, const Expr& self,
                      const std::function<llvm::Value*(const Expr&)>& emit);
  /// The low 32 bits of an i64.
  llvm::Value* narrow(llvm::Value* index);
  /// A variable that is an i32 within the range.
  void bind_i32(const Expr& var, llvm::Value* value, IndexRanges::Range range);
  /// The values of a loop's variable.
  IndexRanges::Range range(const ForNode& loop);
  /// A loop's variable that is an i64, within the range.
  void bind_loop(const ForNode& loop, llvm::Value* value, IndexRanges::Range range);
  /// A variable that is a value of loop IR, for as long as the scope has it.
  void bind_range(const VarNode* var, const Expr& value) { ranges_.bind(var, ranges_.range(value)); }

 private:
  llvm::Value* widen(llvm::Value* value, IndexRanges::Range range);

  llvm::IRBuilder<>& b_;
  FunctionScope& scope_;
  IndexRanges& ranges_;
  IndexSigns& signs_;
  IntegerArithmetic& integers_;
};

}  // namespace gantry
