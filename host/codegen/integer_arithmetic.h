// Operators of loop IR on integers and bool, scalars and vectors of one type.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <string>

#include "host/loops/index_signs.h"
#include "host/tensor/expr.h"

namespace gantry {

/// bool, and the unsigned integers that fill their bytes.
bool is_unsigned_kind(DType t);

class IntegerArithmetic {
 public:
  /// `kernel`: the name, for errors.
  IntegerArithmetic(llvm::IRBuilder<>& builder, const IndexSigns& signs, const std::string& kernel);

  /// Of an operator that is no comparison. `in_index`: it is part of an index or a bound, whose i64
  /// arithmetic cannot overflow.
  llvm::Value* binary(const BinaryNode& node, llvm::Value* a, llvm::Value* b, bool in_index);
  llvm::Value* compare(const BinaryNode& node, llvm::Value* a, llvm::Value* b);

 private:
  llvm::Value* floor_division(const BinaryNode& node, llvm::Value* a, llvm::Value* b);

  llvm::IRBuilder<>& b_;
  const IndexSigns& signs_;
  const std::string& kernel_;
};

}  // namespace gantry
