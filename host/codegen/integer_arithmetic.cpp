#include "host/codegen/integer_arithmetic.h"

#include "host/support/error.h"

namespace gantry {

using llvm::Value;

bool is_unsigned_kind(DType t) {
  return t == DType::kU8 || t == DType::kU16 || t == DType::kU32 || t == DType::kU64 || t == DType::kBool;
}

IntegerArithmetic::IntegerArithmetic(llvm::IRBuilder<>& builder, const IndexSigns& signs,
                                     const std::string& kernel)
    : b_(builder), signs_(signs), kernel_(kernel) {}

Value* IntegerArithmetic::binary(const BinaryNode& node, Value* a, Value* b, bool in_index) {
  const bool is_unsigned = is_unsigned_kind(node.type.dtype);
  const bool no_wrap = in_index && node.type.dtype == DType::kI64;
  const bool is_bool = node.type.dtype == DType::kBool;
  auto shift_amount = [&] {
    Value* limit = llvm::ConstantInt::get(b->getType(), b->getType()->getScalarSizeInBits() - 1);
    return b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, b, limit);
  };
  switch (node.op) {
    case BinaryOp::kAdd:
      return is_bool ? b_.CreateOr(a, b) : b_.CreateAdd(a, b, "", false, no_wrap);
    case BinaryOp::kSub:
      return b_.CreateSub(a, b, "", false, no_wrap);
    case BinaryOp::kMul:
      return is_bool ? b_.CreateAnd(a, b) : b_.CreateMul(a, b, "", false, no_wrap);
    case BinaryOp::kDiv:
      return is_unsigned ? b_.CreateUDiv(a, b) : b_.CreateSDiv(a, b);
    case BinaryOp::kRem:
      return is_unsigned ? b_.CreateURem(a, b) : b_.CreateSRem(a, b);
    case BinaryOp::kFloorDiv:
    case BinaryOp::kMod:
      return floor_division(node, a, b);
    case BinaryOp::kMin:
      return b_.CreateBinaryIntrinsic(is_unsigned ? llvm::Intrinsic::umin : llvm::Intrinsic::smin, a, b);
    case BinaryOp::kMax:
      return b_.CreateBinaryIntrinsic(is_unsigned ? llvm::Intrinsic::umax : llvm::Intrinsic::smax, a, b);
    case BinaryOp::kAnd:
      return b_.CreateAnd(a, b);
    case BinaryOp::kOr:
      return b_.CreateOr(a, b);
    case BinaryOp::kXor:
      return b_.CreateXor(a, b);
    case BinaryOp::kShl:
      return b_.CreateShl(a, shift_amount());
    case BinaryOp::kShr:
      return is_unsigned ? b_.CreateLShr(a, shift_amount()) : b_.CreateAShr(a, shift_amount());
    default:
      internal_error("kernel {}: operator {} of integers", kernel_, static_cast<int>(node.op));
  }
}

Value* IntegerArithmetic::floor_division(const BinaryNode& node, Value* a, Value* b) {
  const bool wants_quotient = node.op == BinaryOp::kFloorDiv;
  if (is_unsigned_kind(node.type.dtype) ||
      (signs_.is_non_negative(node.a) && signs_.is_non_negative(node.b))) {
    return wants_quotient ? b_.CreateUDiv(a, b) : b_.CreateURem(a, b);
  }
  auto* c = llvm::dyn_cast<llvm::Constant>(b);
  if (c && c->getType()->isVectorTy()) c = c->getSplatValue();
  auto* divisor = llvm::dyn_cast_or_null<llvm::ConstantInt>(c);
  if (divisor && divisor->getValue().isPowerOf2() && divisor->getSExtValue() > 0) {
    if (!wants_quotient) return b_.CreateAnd(a, b_.CreateSub(b, llvm::ConstantInt::get(b->getType(), 1)));
    return b_.CreateAShr(
        a, llvm::ConstantInt::get(a->getType(), static_cast<uint64_t>(divisor->getValue().logBase2())));
  }
  Value* zero = llvm::Constant::getNullValue(a->getType());
  Value* remainder = b_.CreateSRem(a, b);
  Value* wraps = b_.CreateICmpSLT(remainder, zero);
  if (!signs_.is_non_negative(node.b)) {
    Value* differs = b_.CreateICmpSLT(b_.CreateXor(remainder, b), zero);
    wraps = b_.CreateAnd(b_.CreateICmpNE(remainder, zero), differs);
  }
  if (!wants_quotient) return b_.CreateSelect(wraps, b_.CreateAdd(remainder, b), remainder);
  return b_.CreateAdd(b_.CreateSDiv(a, b), b_.CreateSExt(wraps, a->getType()));
}

Value* IntegerArithmetic::compare(const BinaryNode& node, Value* a, Value* b) {
  using P = llvm::CmpInst::Predicate;
  const bool u = is_unsigned_kind(node.a.type().dtype);
  switch (node.op) {
    case BinaryOp::kEq:
      return b_.CreateICmpEQ(a, b);
    case BinaryOp::kNe:
      return b_.CreateICmpNE(a, b);
    case BinaryOp::kLt:
      return b_.CreateICmp(u ? P::ICMP_ULT : P::ICMP_SLT, a, b);
    case BinaryOp::kLe:
      return b_.CreateICmp(u ? P::ICMP_ULE : P::ICMP_SLE, a, b);
    case BinaryOp::kGt:
      return b_.CreateICmp(u ? P::ICMP_UGT : P::ICMP_SGT, a, b);
    default:
      return b_.CreateICmp(u ? P::ICMP_UGE : P::ICMP_SGE, a, b);
  }
}

}  // namespace gantry
