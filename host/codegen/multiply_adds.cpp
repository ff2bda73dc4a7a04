#include "host/codegen/multiply_adds.h"

#include "host/codegen/value_types.h"

namespace gantry {

using llvm::Value;

MultiplyAdds::MultiplyAdds(llvm::IRBuilder<>& builder, Expressions& expressions, MathBuilder& math,
                           Conversions& conversions, const CpuInstructions& instructions)
    : b_(builder),
      expressions_(expressions),
      math_(math),
      conversions_(conversions),
      instructions_(instructions) {}

Value* MultiplyAdds::fused(const BinaryNode& node) {
  if (!instructions_.multiply_add || (node.op != BinaryOp::kAdd && node.op != BinaryOp::kSub)) return nullptr;
  auto product = [](const Expr& e) -> const BinaryNode* {
    auto* m = e.as<BinaryNode>();
    return m && m->op == BinaryOp::kMul ? m : nullptr;
  };
  const bool subtract = node.op == BinaryOp::kSub;
  const BinaryNode *right = product(node.b), *left = right ? nullptr : product(node.a);
  const BinaryNode* multiply = right ? right : left;
  if (!multiply) return nullptr;
  const int lanes = node.type.lanes;
  Value *x = splat(b_, expressions_.emit(multiply->a), lanes),
        *y = splat(b_, expressions_.emit(multiply->b), lanes);
  Value* z = splat(b_, expressions_.emit(right ? node.a : node.b), lanes);
  if (subtract && right) x = b_.CreateFNeg(x);
  if (subtract && left) z = b_.CreateFNeg(z);
  return math_.fma(x, y, z);
}

Value* MultiplyAdds::half_operand(const Expr& e, int lanes) {
  if (auto* broadcast = e.as<BroadcastNode>(); broadcast && broadcast->value.type().lanes == 1)
    return splat(b_, half_operand(broadcast->value, 1), lanes);
  Value* bits = conversions_.to_storage(expressions_.emit(e), DType::kF16);
  return splat(b_, b_.CreateBitCast(bits, with_lanes(b_.getHalfTy(), lanes_of(bits))), lanes);
}

bool MultiplyAdds::is_half(const CallNode& node) const {
  return node.fn == MathFn::kFma && node.type.dtype == DType::kF16 && instructions_.half_arithmetic;
}

Value* MultiplyAdds::half(const CallNode& node) {
  const int lanes = node.type.lanes;
  Value *x = half_operand(node.args[0], lanes), *y = half_operand(node.args[1], lanes),
        *z = half_operand(node.args[2], lanes);
  Value* fused = b_.CreateIntrinsic(llvm::Intrinsic::fma, {x->getType()}, {x, y, z});
  return conversions_.from_storage(b_.CreateBitCast(fused, with_lanes(b_.getInt16Ty(), lanes)), DType::kF16);
}

}  // namespace gantry
