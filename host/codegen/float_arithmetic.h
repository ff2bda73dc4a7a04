// Operators of loop IR on floats, scalars and vectors of one type.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <set>
#include <string>

#include "host/codegen/conversions.h"
#include "host/codegen/cpu_codegen.h"
#include "host/codegen/math.h"
#include "host/loops/stmt.h"

namespace gantry {

class FloatArithmetic {
 public:
  FloatArithmetic(llvm::IRBuilder<>& builder, MathBuilder& math, const Conversions& conversions,
                  const CpuInstructions& instructions, const LoopKernel& kernel);

  /// Of an operator that is no comparison.
  llvm::Value* binary(const BinaryNode& node, llvm::Value* a, llvm::Value* b);
  llvm::Value* compare(const BinaryNode& node, llvm::Value* a, llvm::Value* b);

 private:
  /// The operand of a minimum or maximum that is known never to be NaN; null if none is.
  llvm::Value* number_among(const BinaryNode& node, llvm::Value* a, llvm::Value* b) const;
  MinMaxBy min_max_by(DType dtype, llvm::Value* a, llvm::Value* b) const;

  llvm::IRBuilder<>& b_;
  MathBuilder& math_;
  const Conversions& conversions_;
  const CpuInstructions& instructions_;
  const std::string& kernel_;            ///< its name, for errors
  std::set<const BufferNode*> numbers_;  ///< accumulators of minima and maxima: never NaN
};

}  // namespace gantry
