// The LLVM types that values of loop IR have in registers and in memory, and the lanes of values.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include "host/tensor/expr.h"

namespace gantry {

/// A vector of so many lanes; the scalar itself, of one.
llvm::Type* with_lanes(llvm::Type* scalar, int lanes);
/// What an expression's value is: bool is i1, f64 a double, any other float an f32, an integer of less than 8
/// bits a byte.
llvm::Type* register_type(llvm::LLVMContext& context, ExprType type);
/// What an element of a buffer is: f32 and f64 as they are, anything else an integer of its bytes.
llvm::Type* storage_type(llvm::LLVMContext& context, DType dtype);

/// 1, of a scalar.
int lanes_of(const llvm::Value* value);
bool is_float_value(const llvm::Value* value);
/// The value in each of so many lanes; itself, where it has as many.
llvm::Value* splat(llvm::IRBuilder<>& ir, llvm::Value* value, int lanes);

}  // namespace gantry
