#include "host/codegen/float_arithmetic.h"

#include "host/codegen/number_buffers.h"
#include "host/support/error.h"

namespace gantry {

using llvm::Value;

FloatArithmetic::FloatArithmetic(llvm::IRBuilder<>& builder, MathBuilder& math,
                                 const Conversions& conversions, const CpuInstructions& instructions,
                                 const LoopKernel& kernel)
    : b_(builder),
      math_(math),
      conversions_(conversions),
      instructions_(instructions),
      kernel_(kernel.name),
      numbers_(accumulators_of_numbers(kernel.body)) {}

MinMaxBy FloatArithmetic::min_max_by(DType dtype, Value* a, Value* b) const {
  if (instructions_.ordered_min_max) return MinMaxBy::kIntrinsic;
  auto was_half = [&](Value* v) { return conversions_.was(v, DType::kF16); };
  // Of halves that were extended, LLVM makes one of halves, and of that a call of the C library where the
  // target has no arithmetic on them.
  const bool narrows = dtype == DType::kF16 || (was_half(a) && was_half(b));
  return narrows && !instructions_.half_arithmetic ? MinMaxBy::kComparisons : MinMaxBy::kFewestInstructions;
}

Value* FloatArithmetic::number_among(const BinaryNode& node, Value* a, Value* b) const {
  auto is_number = [&](const Expr& e) {
    const auto* load = e.as<LoadNode>();
    return load != nullptr && numbers_.contains(load->buffer.get());
  };
  return is_number(node.b) ? b : is_number(node.a) ? a : nullptr;
}

Value* FloatArithmetic::binary(const BinaryNode& node, Value* a, Value* b) {
  switch (node.op) {
    case BinaryOp::kAdd:
      return b_.CreateFAdd(a, b);
    case BinaryOp::kSub:
      return b_.CreateFSub(a, b);
    case BinaryOp::kMul:
      return b_.CreateFMul(a, b);
    case BinaryOp::kDiv:
      return b_.CreateFDiv(a, b);
    case BinaryOp::kFloorDiv:
      return math_.unary(MathFn::kFloor, b_.CreateFDiv(a, b));
    case BinaryOp::kRem:
      return math_.fmod(a, b);
    case BinaryOp::kMod: {
      Value* r = math_.fmod(a, b);
      Value* zero = llvm::Constant::getNullValue(r->getType());
      Value* differs = b_.CreateXor(b_.CreateFCmpOLT(r, zero), b_.CreateFCmpOLT(b, zero));
      Value* wraps = b_.CreateAnd(b_.CreateFCmpONE(r, zero), differs);
      return b_.CreateSelect(wraps, b_.CreateFAdd(r, b), r);
    }
    case BinaryOp::kMin:
    case BinaryOp::kMax:
      return math_.min_max(node.op == BinaryOp::kMax, a, b, min_max_by(node.type.dtype, a, b),
                           number_among(node, a, b));
    default:
      internal_error("kernel {}: operator {} of floats", kernel_, static_cast<int>(node.op));
  }
}

Value* FloatArithmetic::compare(const BinaryNode& node, Value* a, Value* b) {
  switch (node.op) {
    case BinaryOp::kEq:
      return b_.CreateFCmpOEQ(a, b);
    case BinaryOp::kNe:
      return b_.CreateFCmpUNE(a, b);
    case BinaryOp::kLt:
      return b_.CreateFCmpOLT(a, b);
    case BinaryOp::kLe:
      return b_.CreateFCmpOLE(a, b);
    case BinaryOp::kGt:
      return b_.CreateFCmpOGT(a, b);
    default:
      return b_.CreateFCmpOGE(a, b);
  }
}

}  // namespace gantry
