// Conversions of loop IR's values: between dtypes, and between the forms that they have in registers and in
// memory (host/codegen/value_types.h).
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <unordered_map>
#include <utility>

#include "host/codegen/cpu_codegen.h"
#include "host/tensor/expr.h"

namespace gantry {

class Conversions {
 public:
  /// `gpu`: the code is a GPU's, which has instructions on scalars for what CPUs have on vectors.
  Conversions(llvm::IRBuilder<>& builder, const CpuInstructions& instructions, bool gpu);

  /// Between forms in registers; `value` has any number of lanes.
  llvm::Value* cast(llvm::Value* value, DType from, DType to);
  llvm::Value* to_storage(llvm::Value* value, DType dtype);
  llvm::Value* from_storage(llvm::Value* raw, DType dtype);
  /// f32 to the bf16 that is next to it towards 0, as f32.
  llvm::Value* truncate_to_bf16(llvm::Value* value);
  /// True if the value is an f32 that was made here of that narrower float.
  bool was(llvm::Value* value, DType dtype) const;

 private:
  llvm::Value* to_integer(llvm::Value* value, DType from, DType to);
  llvm::Value* half_to_float(llvm::Value* bits);
  llvm::Value* float_to_half(llvm::Value* value);
  llvm::Value* float_to_bf16(llvm::Value* value);

  llvm::IRBuilder<>& b_;
  const CpuInstructions& instructions_;
  bool gpu_;
  /// f32 values that are a narrower float: which, and its bits.
  std::unordered_map<llvm::Value*, std::pair<DType, llvm::Value*>> rounded_;
};

}  // namespace gantry
