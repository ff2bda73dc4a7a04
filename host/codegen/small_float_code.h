// Floats of 8 bits and less (host/graph/small_float.h) from and to f32, as LLVM IR on scalars and vectors.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include "host/tensor/expr.h"

namespace gantry {

/// f64 to f32 so that rounding the result again is as if it had been rounded once.
llvm::Value* round_to_odd(llvm::IRBuilder<>& ir, llvm::Value* value);
/// f32 to the code of the nearest number of a small float, as a byte.
llvm::Value* float_to_small(llvm::IRBuilder<>& ir, llvm::Value* value, DType dtype);
llvm::Value* small_to_float(llvm::IRBuilder<>& ir, llvm::Value* code, DType dtype);

}  // namespace gantry
