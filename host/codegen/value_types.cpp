#include "host/codegen/value_types.h"

namespace gantry {

namespace {

unsigned storage_bits(DType t) {
  return 8U * static_cast<unsigned>(byte_width(t));
}

}  // namespace

llvm::Type* with_lanes(llvm::Type* scalar, int lanes) {
  return lanes == 1 ? scalar : llvm::FixedVectorType::get(scalar, static_cast<unsigned>(lanes));
}

llvm::Type* register_type(llvm::LLVMContext& context, ExprType type) {
  llvm::Type* scalar = nullptr;
  if (type.dtype == DType::kBool) {
    scalar = llvm::Type::getInt1Ty(context);
  } else if (type.dtype == DType::kF64) {
    scalar = llvm::Type::getDoubleTy(context);
  } else if (is_float(type.dtype)) {
    scalar = llvm::Type::getFloatTy(context);
  } else {
    scalar = llvm::Type::getIntNTy(context, storage_bits(type.dtype));
  }
  return with_lanes(scalar, type.lanes);
}

llvm::Type* storage_type(llvm::LLVMContext& context, DType dtype) {
  if (dtype == DType::kF32) return llvm::Type::getFloatTy(context);
  if (dtype == DType::kF64) return llvm::Type::getDoubleTy(context);
  return llvm::Type::getIntNTy(context, storage_bits(dtype));
}

int lanes_of(const llvm::Value* value) {
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(value->getType());
  return vector ? static_cast<int>(vector->getNumElements()) : 1;
}

bool is_float_value(const llvm::Value* value) {
  return value->getType()->isFPOrFPVectorTy();
}

llvm::Value* splat(llvm::IRBuilder<>& ir, llvm::Value* value, int lanes) {
  return lanes == 1 || lanes_of(value) == lanes ? value
                                                : ir.CreateVectorSplat(static_cast<unsigned>(lanes), value);
}

}  // namespace gantry
