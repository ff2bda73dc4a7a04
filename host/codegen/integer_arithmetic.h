// Operators of loop IR on integers and bool, scalars and vectors of one type. The smallest integer divided by
// -1 wraps, as it does where constants are folded, with the remainder 0: a CPU's instruction may end the
// process.
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
  /// By the width or more, or less than nothing: 0; to the right of signed integers, copies of the sign.
  llvm::Value* shift(const BinaryNode& node, llvm::Value* a, llvm::Value* b);
  llvm::Value* floor_division(const BinaryNode& node, llvm::Value* a, llvm::Value* b);
  /// Towards zero, of signed integers.
  llvm::Value* quotient(const BinaryNode& node, llvm::Value* a, llvm::Value* b);
  llvm::Value* remainder(const BinaryNode& node, llvm::Value* a, llvm::Value* b);
  /// Where the divisor is -1; null: nowhere, or the dividend is not the smallest integer.
  llvm::Value* divides_by_minus_one(const BinaryNode& node, llvm::Value* a, llvm::Value* b);
  bool may_be_minus_one(const Expr& e) const;

  llvm::IRBuilder<>& b_;
  const IndexSigns& signs_;
  const std::string& kernel_;
};

}  // namespace gantry
