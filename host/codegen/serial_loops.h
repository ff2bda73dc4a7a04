// Loops that run one iteration after the other.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <functional>

#include "host/codegen/function_scope.h"
#include "host/loops/index_signs.h"
#include "host/tensor/expr.h"

namespace gantry {

class SerialLoops {
 public:
  SerialLoops(llvm::IRBuilder<>& builder, FunctionScope& scope, const IndexSigns& signs)
      : b_(builder), scope_(scope), signs_(signs) {}

  /// For var in [low, end), both i64; `body` emits an iteration, in which the variable is bound.
  void emit(llvm::Value* low, llvm::Value* end, const Expr& var, const std::function<void()>& body);

 private:
  llvm::IRBuilder<>& b_;
  FunctionScope& scope_;
  const IndexSigns& signs_;
};

}  // namespace gantry
