#include "host/codegen/math_calls.h"

#include <optional>

#include "host/codegen/integer_arithmetic.h"
#include "host/codegen/value_types.h"
#include "host/support/error.h"

namespace gantry {

using llvm::Value;

namespace {

/// The value if the float expression is one number in every lane.
std::optional<double> constant_float(const Expr& e) {
  if (auto* imm = e.as<FloatImmNode>()) return imm->value;
  if (auto* broadcast = e.as<BroadcastNode>()) return constant_float(broadcast->value);
  return std::nullopt;
}

}  // namespace

MathCalls::MathCalls(llvm::IRBuilder<>& builder, Expressions& expressions, MathBuilder& math,
                     Conversions& conversions, MultiplyAdds& multiply_adds,
                     const CpuInstructions& instructions, const std::string& kernel)
    : b_(builder),
      expressions_(expressions),
      math_(math),
      conversions_(conversions),
      multiply_adds_(multiply_adds),
      instructions_(instructions),
      kernel_(kernel) {}

Value* MathCalls::argument(const CallNode& node, size_t i) {
  return splat(b_, expressions_.emit(node.args[i]), node.type.lanes);
}

Value* MathCalls::emit(const CallNode& node) {
  if (multiply_adds_.is_half(node)) return multiply_adds_.half(node);
  Value* x = argument(node, 0);
  switch (node.fn) {
    case MathFn::kPow:
      return power(node, x);
    case MathFn::kFma:
      return math_.fma(x, argument(node, 1), argument(node, 2));
    case MathFn::kTruncBf16:
      return conversions_.truncate_to_bf16(x);
    case MathFn::kRoundTf32:
      return round_to_tf32(x);
    case MathFn::kIsNan:
      return is_float_value(x) ? b_.CreateFCmpUNO(x, x)
                               : llvm::Constant::getNullValue(register_type(b_.getContext(), node.type));
    case MathFn::kIsInf: {
      if (!is_float_value(x)) return llvm::Constant::getNullValue(register_type(b_.getContext(), node.type));
      Value* magnitude = b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x);
      return b_.CreateFCmpOEQ(magnitude, llvm::ConstantFP::getInfinity(x->getType()));
    }
    default:
      return is_float_value(x) ? math_.unary(node.fn, x) : of_integer(node, x);
  }
}

Value* MathCalls::power(const CallNode& node, Value* x) {
  if (!is_float_value(x)) return math_.integer_pow(x, argument(node, 1), !is_unsigned_kind(node.type.dtype));
  if (auto y = constant_float(node.args[1])) return math_.pow_constant(x, *y);
  return math_.pow(x, argument(node, 1));
}

Value* MathCalls::round_to_tf32(Value* x) {
  const int lanes = lanes_of(x);
  if (instructions_.round_tf32 != nullptr && lanes == 1) return instructions_.round_tf32(b_, x);
  Value* bits = b_.CreateBitCast(x, with_lanes(b_.getInt32Ty(), lanes));
  Value* rounded = b_.CreateAnd(b_.CreateAdd(bits, llvm::ConstantInt::get(bits->getType(), 0x1000)),
                                llvm::ConstantInt::get(bits->getType(), ~uint32_t{0x1fff}));
  return b_.CreateSelect(b_.CreateFCmpUNO(x, x), x, b_.CreateBitCast(rounded, x->getType()));
}

Value* MathCalls::of_integer(const CallNode& node, Value* x) {
  switch (node.fn) {
    case MathFn::kAbs:
      if (is_unsigned_kind(node.type.dtype)) return x;
      return b_.CreateBinaryIntrinsic(llvm::Intrinsic::abs, x, b_.getFalse());
    case MathFn::kFloor:
    case MathFn::kCeil:
    case MathFn::kRound:
    case MathFn::kTrunc:
      return x;
    default:
      internal_error("kernel {}: {} of integers", kernel_, name_of(node.fn));
  }
}

}  // namespace gantry
