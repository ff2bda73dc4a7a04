// Calls of math functions in loop IR, of floats and of integers.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <string>

#include "host/codegen/conversions.h"
#include "host/codegen/cpu_codegen.h"
#include "host/codegen/expressions.h"
#include "host/codegen/math.h"
#include "host/codegen/multiply_adds.h"

namespace gantry {

class MathCalls {
 public:
  /// `kernel`: the name, for errors.
  MathCalls(llvm::IRBuilder<>& builder, Expressions& expressions, MathBuilder& math, Conversions& conversions,
            MultiplyAdds& multiply_adds, const CpuInstructions& instructions, const std::string& kernel);

  /// Of any function but kIfThenElse.
  llvm::Value* emit(const CallNode& node);

 private:
  /// An argument in each of the call's lanes.
  llvm::Value* argument(const CallNode& node, size_t i);
  llvm::Value* power(const CallNode& node, llvm::Value* x);
  llvm::Value* round_to_tf32(llvm::Value* x);
  llvm::Value* of_integer(const CallNode& node, llvm::Value* x);

  llvm::IRBuilder<>& b_;
  Expressions& expressions_;
  MathBuilder& math_;
  Conversions& conversions_;
  MultiplyAdds& multiply_adds_;
  const CpuInstructions& instructions_;
  const std::string& kernel_;
};

}  // namespace gantry
