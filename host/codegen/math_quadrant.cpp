// The reduction of the circular functions' arguments: x = n pi/2 + r, |r| <= pi/4, for x of any size.
#include <llvm/IR/Module.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <string>

#include "host/codegen/math.h"

namespace gantry {

using llvm::Value;

namespace {

/// Beyond it the three parts of pi/2 do not do.
constexpr double kLarge = 0x1p20;
/// Products are looked at down to these weights: of the quadrant's fraction no more than the result's digits
/// remain.
constexpr int kLeastBits = 70;
/// Exponents of what comes as f32, and of f64; and the bits by which f64 are scaled, so that no product with
/// a late piece is denormal.
constexpr int kNarrowExponents = 128, kWideExponents = 1024, kScale = 200;
/// Bits of x's parts, and of the pieces of 2/pi, whose products f64 holds exactly: f32 are one part of 24
/// bits, f64 two of 26 and 27.
constexpr int kLowBits = 27, kNarrowPiece = 53 - 24, kWidePiece = 53 - kLowBits;

/// 2/pi in binary, from the point on; computed from Machin's formula for pi in integers.
constexpr std::array<uint64_t, 19> kTwoOverPi = {
    0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561, 0xb7246e3a424dd2e0,
    0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4,
    0x9c845f8bbdf9283b, 0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d,
    0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab};

/// The bits [first, first + count) of 2/pi behind the point, with their weight, times 2^scale: by itself a
/// late piece is denormal, and loses bits.
double piece_of_two_over_pi(int first, int count, int scale) {
  uint64_t value = 0;
  for (int bit = first; bit < first + count; ++bit)
    value = value << 1 | (kTwoOverPi[static_cast<size_t>(bit / 64)] >> (63 - bit % 64) & 1);
  return std::ldexp(static_cast<double>(value), scale - first - count);
}

std::string name_of_lanes(llvm::Type* type) {
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
  return vector ? ".v" + std::to_string(vector->getNumElements()) : "";
}

}  // namespace

// Cody and Waite's: pi/2 in three parts, n times each of which is exact or nearly so.
MathBuilder::Quadrant MathBuilder::near_quadrant(Value* x) {
  Value* magic = constant(x, 0x1.8p52);
  Value* shifted = b_.CreateFAdd(b_.CreateFMul(x, constant(x, 0.6366197723675813430755)), magic);
  Value* n = b_.CreateFSub(shifted, magic);
  Value* r = fma(n, constant(x, -1.57079632673412561416626), x);
  r = fma(n, constant(x, -6.077100506303965976595549e-11), r);
  r = fma(n, constant(x, -2.022266248795950732399685e-21), r);
  return {n, r};
}

// After Payne and Hanek: x times 2/pi, piece by piece, each product without its multiples of 4, which are
// whole turns.
MathBuilder::Quadrant MathBuilder::far_quadrant(Value* x, bool from_narrow) {
  std::array<Value*, 2> parts{x, nullptr};
  const int scale = from_narrow ? 0 : kScale;
  if (!from_narrow) {
    Value* scaled = b_.CreateFMul(x, constant(x, std::ldexp(1.0, -scale)));
    Value* high = b_.CreateBitCast(b_.CreateAnd(bits(scaled), integer(x, ~((int64_t{1} << kLowBits) - 1))),
                                   x->getType());
    parts = {high, b_.CreateFSub(scaled, high)};
  }
  const int width = from_narrow ? kNarrowPiece : kWidePiece;
  const int last = (from_narrow ? kNarrowExponents : kWideExponents) + kLeastBits;
  Value *sum = constant(x, 0), *error = constant(x, 0);
  for (int first = 0; first < last; first += width) {
    const double piece = piece_of_two_over_pi(first, width, scale);
    for (Value* part : parts) {
      if (part == nullptr) continue;
      Value* product = b_.CreateFMul(part, constant(x, piece));
      Value* turns =
          b_.CreateUnaryIntrinsic(llvm::Intrinsic::roundeven, b_.CreateFMul(product, constant(x, 0.25)));
      Value* rest = fma(turns, constant(x, -4), product);
      // Knuth's sum of two numbers and its error.
      Value* total = b_.CreateFAdd(sum, rest);
      Value* taken = b_.CreateFSub(total, sum);
      Value* lost =
          b_.CreateFAdd(b_.CreateFSub(sum, b_.CreateFSub(total, taken)), b_.CreateFSub(rest, taken));
      error = b_.CreateFAdd(error, lost);
      sum = total;
    }
  }
  Value* n = b_.CreateUnaryIntrinsic(llvm::Intrinsic::roundeven, sum);
  Value* fraction = b_.CreateFAdd(b_.CreateFSub(sum, n), error);
  return {n, b_.CreateFMul(fraction, constant(x, M_PI_2))};
}

// {n, r} of x; what is large is rare, so that only vectors with something large in them take the long way.
llvm::Function* MathBuilder::quadrant_function(llvm::Type* type, bool from_narrow) {
  llvm::Module* module = b_.GetInsertBlock()->getModule();
  const std::string name =
      std::string("gantry.quadrant") + (from_narrow ? ".f32" : ".f64") + name_of_lanes(type);
  if (llvm::Function* known = module->getFunction(name)) return known;
  llvm::IRBuilder<>::InsertPointGuard guard(b_);
  llvm::Type* result = llvm::StructType::get(b_.getContext(), {type, type});
  auto* function = llvm::Function::Create(llvm::FunctionType::get(result, {type}, false),
                                          llvm::Function::InternalLinkage, name, module);
  auto block = [&](const char* of) { return llvm::BasicBlock::Create(b_.getContext(), of, function); };
  llvm::BasicBlock *entry = block("entry"), *large = block("large"), *done = block("done");
  b_.SetInsertPoint(entry);
  Value* x = function->getArg(0);
  const Quadrant near = near_quadrant(x);
  Value* is_large = b_.CreateFCmpOGE(abs(x), constant(x, kLarge));
  Value* any = type->isVectorTy() ? b_.CreateOrReduce(is_large) : is_large;
  b_.CreateCondBr(any, large, done);

  b_.SetInsertPoint(large);
  const Quadrant far = far_quadrant(x, from_narrow);
  Value* chosen_n = b_.CreateSelect(is_large, far.n, near.n);
  Value* chosen_r = b_.CreateSelect(is_large, far.r, near.r);
  b_.CreateBr(done);

  b_.SetInsertPoint(done);
  const auto either = [&](Value* of_near, Value* of_far) {
    llvm::PHINode* phi = b_.CreatePHI(type, 2);
    phi->addIncoming(of_near, entry);
    phi->addIncoming(of_far, large);
    return phi;
  };
  Value *n = either(near.n, chosen_n), *r = either(near.r, chosen_r);
  b_.CreateRet(b_.CreateInsertValue(b_.CreateInsertValue(llvm::PoisonValue::get(result), n, 0), r, 1));
  return function;
}

MathBuilder::Quadrant MathBuilder::quadrant(Value* x, bool from_narrow) {
  Value* both = b_.CreateCall(quadrant_function(x->getType(), from_narrow), {x});
  return {b_.CreateExtractValue(both, 0), b_.CreateExtractValue(both, 1)};
}

}  // namespace gantry
