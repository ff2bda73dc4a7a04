// Remainders of divisions that round towards zero, exactly: C's fmod.
#include <llvm/IR/Module.h>

#include <cmath>
#include <cstdint>

#include "host/codegen/math.h"

namespace gantry {

using llvm::Value;

Value* MathBuilder::fmod(Value* x, Value* y) {
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(x->getType());
  if (!vector) return fmod_scalar(x, y);
  Value* result = llvm::PoisonValue::get(vector);
  for (unsigned lane = 0; lane < vector->getNumElements(); ++lane) {
    Value* r = fmod_scalar(b_.CreateExtractElement(x, lane), b_.CreateExtractElement(y, lane));
    result = b_.CreateInsertElement(result, r, lane);
  }
  return result;
}

Value* MathBuilder::fmod_scalar(Value* x, Value* y) {
  if (is_wide(x)) return b_.CreateCall(fmod_function(false), {x, y});
  return narrow(b_.CreateCall(fmod_function(true), {widen(x), widen(y)}));
}

llvm::Function* MathBuilder::fmod_function(bool from_narrow) {
  llvm::Module* module = b_.GetInsertBlock()->getModule();
  const char* name = from_narrow ? "gantry.fmod.f32" : "gantry.fmod.f64";
  if (llvm::Function* known = module->getFunction(name)) return known;
  llvm::IRBuilder<>::InsertPointGuard guard(b_);
  llvm::Type* f64 = b_.getDoubleTy();
  auto* function = llvm::Function::Create(llvm::FunctionType::get(f64, {f64, f64}, false),
                                          llvm::Function::InternalLinkage, name, module);
  auto block = [&](const char* label) { return llvm::BasicBlock::Create(b_.getContext(), label, function); };
  llvm::BasicBlock *entry = block("entry"), *valid = block("valid"), *divide = block("divide"),
                   *done = block("done"), *invalid = block("invalid");
  b_.SetInsertPoint(entry);
  Value *x = function->getArg(0), *y = function->getArg(1);
  Value *a = abs(x), *b = abs(y);
  Value* bad = b_.CreateOr(b_.CreateFCmpUNO(x, y), b_.CreateFCmpOEQ(a, constant(x, INFINITY)));
  bad = b_.CreateOr(bad, b_.CreateFCmpOEQ(b, constant(x, 0)));
  b_.CreateCondBr(bad, invalid, valid);

  b_.SetInsertPoint(valid);
  b_.CreateCondBr(b_.CreateFCmpOGE(a, b), divide, done);
  b_.SetInsertPoint(divide);
  Value* rest = from_narrow ? remainder_in_parts(a, b) : remainder_of_integers(a, b);
  llvm::BasicBlock* divided = b_.GetInsertBlock();
  b_.CreateBr(done);

  b_.SetInsertPoint(done);
  llvm::PHINode* result = b_.CreatePHI(f64, 2);
  result->addIncoming(a, valid);
  result->addIncoming(rest, divided);
  b_.CreateRet(with_sign_of(result, x));
  b_.SetInsertPoint(invalid);
  b_.CreateRet(constant(x, std::nan("")));
  return function;
}

// do { q = the first 24 bits of a / b, of which only whole ones; a -= q * b } while (a >= b).
//
// Exact: a and b have at most 24 bits, so that q * b has 48. What is left is less than 2^24 of the units of
// which both are multiples: a has 24 bits again. A quotient that is less than a q of 24 bits is so by 2^-48
// of it at least, more than the division rounds: q never is too large.
Value* MathBuilder::remainder_in_parts(Value* dividend, Value* divisor) {
  llvm::BasicBlock* before = b_.GetInsertBlock();
  auto block = [&](const char* label) {
    return llvm::BasicBlock::Create(b_.getContext(), label, before->getParent());
  };
  llvm::BasicBlock *loop = block("part"), *after = block("parts_end");
  b_.CreateBr(loop);
  b_.SetInsertPoint(loop);
  llvm::PHINode* a = b_.CreatePHI(dividend->getType(), 2);
  Value* q = b_.CreateFDiv(a, divisor);
  Value* first = b_.CreateBitCast(b_.CreateAnd(bits(q), integer(q, ~((int64_t{1} << 29) - 1))), q->getType());
  Value* whole = b_.CreateUnaryIntrinsic(llvm::Intrinsic::trunc, first);
  Value* next = fma(b_.CreateFNeg(whole), divisor, a);
  a->addIncoming(dividend, before);
  a->addIncoming(next, loop);
  b_.CreateCondBr(b_.CreateFCmpOGE(next, divisor), loop, after);
  b_.SetInsertPoint(after);
  return next;
}

// With a = m 2^i and b = n 2^j, m and n whole numbers of at most 53 bits: (m 2^(i - j) mod n) 2^j. i64 has
// room for 11 bits more than n, so that 2^11 of the power at most is multiplied before each remainder:
//
//   r = m; left = i - j; do { k = min(left, 11); r = r 2^k mod n; left -= k } while (left > 0)
Value* MathBuilder::remainder_of_integers(Value* dividend, Value* divisor) {
  constexpr int kFraction = 52, kRoom = 11, kBias = 1023 + kFraction;
  llvm::BasicBlock* before = b_.GetInsertBlock();
  auto block = [&](const char* label) {
    return llvm::BasicBlock::Create(b_.getContext(), label, before->getParent());
  };
  llvm::BasicBlock *loop = block("shift"), *after = block("shifts_end");
  Value *one = b_.getInt64(1), *implied = b_.getInt64(uint64_t{1} << kFraction), *room = b_.getInt64(kRoom);
  auto is_normal = [&](Value* v) { return b_.CreateICmpUGE(bits(v), implied); };
  auto exponent = [&](Value* v) {
    // Of denormal numbers the same as of the least normal ones.
    return b_.CreateSelect(is_normal(v), b_.CreateLShr(bits(v), b_.getInt64(kFraction)), one);
  };
  auto significand = [&](Value* v) {
    Value* fraction = b_.CreateAnd(bits(v), b_.CreateSub(implied, one));
    return b_.CreateSelect(is_normal(v), b_.CreateOr(fraction, implied), fraction);
  };
  Value *m = significand(dividend), *n = significand(divisor), *unit = exponent(divisor);
  Value* distance = b_.CreateSub(exponent(dividend), unit);
  b_.CreateBr(loop);

  b_.SetInsertPoint(loop);
  llvm::PHINode *r = b_.CreatePHI(b_.getInt64Ty(), 2), *left = b_.CreatePHI(b_.getInt64Ty(), 2);
  Value* k = b_.CreateSelect(b_.CreateICmpULT(left, room), left, room);
  Value *next = b_.CreateURem(b_.CreateShl(r, k), n), *rest = b_.CreateSub(left, k);
  r->addIncoming(m, before);
  r->addIncoming(next, loop);
  left->addIncoming(distance, before);
  left->addIncoming(rest, loop);
  b_.CreateCondBr(b_.CreateICmpEQ(rest, b_.getInt64(0)), after, loop);
  b_.SetInsertPoint(after);
  // Exact, as r is less than n.
  Value* power = b_.CreateSub(unit, b_.getInt64(kBias));
  return scale_by_power(b_.CreateSIToFP(next, dividend->getType()), power);
}

}  // namespace gantry
