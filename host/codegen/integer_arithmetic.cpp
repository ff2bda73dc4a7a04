#include "host/codegen/integer_arithmetic.h"

#include "host/loops/index_terms.h"
#include "host/support/error.h"
#include "host/tensor/fold.h"

namespace gantry {

using llvm::Value;

bool is_unsigned_kind(DType t) {
  return t == DType::kU8 || t == DType::kU16 || t == DType::kU32 || t == DType::kU64 || t == DType::kBool;
}

namespace {

/// What all lanes are; null where it is not a constant.
const llvm::ConstantInt* one_constant(Value* value) {
  auto* c = llvm::dyn_cast<llvm::Constant>(value);
  if (c && c->getType()->isVectorTy()) c = c->getSplatValue();
  return llvm::dyn_cast_or_null<llvm::ConstantInt>(c);
}

/// Whether the condition is known to hold where `e` is -1: one that chooses another divisor there, as ONNX's
/// Div and Mod do.
bool holds_for_minus_one(const Expr& condition, const Expr& e) {
  auto* node = condition.as<BinaryNode>();
  if (!node) return false;
  if (node->op == BinaryOp::kOr) return holds_for_minus_one(node->a, e) || holds_for_minus_one(node->b, e);
  auto* broadcast = node->b.as<BroadcastNode>();
  return node->op == BinaryOp::kEq && constant_of(broadcast ? broadcast->value : node->b) == -1 &&
         structurally_equal(node->a, e);
}

}  // namespace

IntegerArithmetic::IntegerArithmetic(llvm::IRBuilder<>& builder, const IndexSigns& signs,
                                     const std::string& kernel)
    : b_(builder), signs_(signs), kernel_(kernel) {}

Value* IntegerArithmetic::binary(const BinaryNode& node, Value* a, Value* b, bool in_index) {
  const bool is_unsigned = is_unsigned_kind(node.type.dtype);
  const bool no_wrap = in_index && node.type.dtype == DType::kI64;
  const bool is_bool = node.type.dtype == DType::kBool;
  switch (node.op) {
    case BinaryOp::kAdd:
      return is_bool ? b_.CreateOr(a, b) : b_.CreateAdd(a, b, "", false, no_wrap);
    case BinaryOp::kSub:
      return b_.CreateSub(a, b, "", false, no_wrap);
    case BinaryOp::kMul:
      return is_bool ? b_.CreateAnd(a, b) : b_.CreateMul(a, b, "", false, no_wrap);
    case BinaryOp::kDiv:
      return is_unsigned ? b_.CreateUDiv(a, b) : quotient(node, a, b);
    case BinaryOp::kRem:
      return is_unsigned ? b_.CreateURem(a, b) : remainder(node, a, b);
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
    case BinaryOp::kShr:
      return shift(node, a, b);
    default:
      internal_error("kernel {}: operator {} of integers", kernel_, static_cast<int>(node.op));
  }
}

Value* IntegerArithmetic::shift(const BinaryNode& node, Value* a, Value* b) {
  const unsigned width = b->getType()->getScalarSizeInBits();
  Value* most = llvm::ConstantInt::get(b->getType(), width - 1);
  auto amount = [&] { return b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, b, most); };
  const bool is_left = node.op == BinaryOp::kShl;
  if (!is_left && !is_unsigned_kind(node.type.dtype)) return b_.CreateAShr(a, amount());
  auto shifted = [&](Value* by) { return is_left ? b_.CreateShl(a, by) : b_.CreateLShr(a, by); };
  const llvm::ConstantInt* constant = one_constant(b);
  if (constant && constant->getValue().ult(width)) return shifted(amount());
  // What LLVM does not define there is not chosen.
  return b_.CreateSelect(b_.CreateICmpULE(b, most), shifted(b), llvm::Constant::getNullValue(a->getType()));
}

Value* IntegerArithmetic::floor_division(const BinaryNode& node, Value* a, Value* b) {
  const bool wants_quotient = node.op == BinaryOp::kFloorDiv;
  if (is_unsigned_kind(node.type.dtype) ||
      (signs_.is_non_negative(node.a) && signs_.is_non_negative(node.b))) {
    return wants_quotient ? b_.CreateUDiv(a, b) : b_.CreateURem(a, b);
  }
  const llvm::ConstantInt* divisor = one_constant(b);
  if (divisor && divisor->getValue().isPowerOf2() && divisor->getSExtValue() > 0) {
    if (!wants_quotient) return b_.CreateAnd(a, b_.CreateSub(b, llvm::ConstantInt::get(b->getType(), 1)));
    return b_.CreateAShr(
        a, llvm::ConstantInt::get(a->getType(), static_cast<uint64_t>(divisor->getValue().logBase2())));
  }
  Value* zero = llvm::Constant::getNullValue(a->getType());
  Value* rest = remainder(node, a, b);
  Value* wraps = b_.CreateICmpSLT(rest, zero);
  if (!signs_.is_non_negative(node.b)) {
    Value* differs = b_.CreateICmpSLT(b_.CreateXor(rest, b), zero);
    wraps = b_.CreateAnd(b_.CreateICmpNE(rest, zero), differs);
  }
  if (!wants_quotient) return b_.CreateSelect(wraps, b_.CreateAdd(rest, b), rest);
  return b_.CreateAdd(quotient(node, a, b), b_.CreateSExt(wraps, a->getType()));
}

Value* IntegerArithmetic::quotient(const BinaryNode& node, Value* a, Value* b) {
  Value* negates = divides_by_minus_one(node, a, b);
  if (negates == nullptr) return b_.CreateSDiv(a, b);
  Value* divisor = b_.CreateSelect(negates, llvm::ConstantInt::get(b->getType(), 1), b);
  return b_.CreateSelect(negates, b_.CreateNeg(a), b_.CreateSDiv(a, divisor));
}

Value* IntegerArithmetic::remainder(const BinaryNode& node, Value* a, Value* b) {
  Value* negates = divides_by_minus_one(node, a, b);
  if (negates == nullptr) return b_.CreateSRem(a, b);
  return b_.CreateSRem(a, b_.CreateSelect(negates, llvm::ConstantInt::get(b->getType(), 1), b));
}

Value* IntegerArithmetic::divides_by_minus_one(const BinaryNode& node, Value* a, Value* b) {
  const llvm::ConstantInt *dividend = one_constant(a), *divisor = one_constant(b);
  if ((dividend && !dividend->isMinValue(true)) || (divisor && !divisor->isMinusOne())) return nullptr;
  // Indices that fit in 32 bits have quotients that do: they are divided by what is positive.
  const bool is_narrow = node.type.dtype == DType::kI64 && !a->getType()->getScalarType()->isIntegerTy(64);
  if (is_narrow || !may_be_minus_one(node.b)) return nullptr;
  return b_.CreateICmpEQ(b, llvm::Constant::getAllOnesValue(b->getType()));
}

bool IntegerArithmetic::may_be_minus_one(const Expr& e) const {
  if (auto* imm = e.as<IntImmNode>()) return imm->value == -1;
  if (auto* broadcast = e.as<BroadcastNode>()) return may_be_minus_one(broadcast->value);
  if (auto* choice = e.as<SelectNode>()) {
    if (may_be_minus_one(choice->if_true)) return true;
    return !holds_for_minus_one(choice->condition, choice->if_false) && may_be_minus_one(choice->if_false);
  }
  return !signs_.is_non_negative(e) && !(e.type().dtype == DType::kI64 && is_of_sizes(e));
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
