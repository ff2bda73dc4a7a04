// Expressions.

#include <cmath>

#include "host/codegen/kernel_emitter.h"
#include "host/support/error.h"
#include "host/tensor/fold.h"

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

Value* KernelEmitter::emit(const Expr& e) {
  auto it = cache_.find(e.get());
  if (it != cache_.end()) return it->second;
  Value* value = emit_uncached(e);
  cache_.emplace(e.get(), value);
  return value;
}

Value* KernelEmitter::emit_uncached(const Expr& e) {
  switch (e->kind) {
    case ExprKind::kIntImm:
      return llvm::ConstantInt::get(register_type(context_, e.type()),
                                    static_cast<uint64_t>(e.as<IntImmNode>()->value), true);
    case ExprKind::kFloatImm:
      return llvm::ConstantFP::get(register_type(context_, e.type()), e.as<FloatImmNode>()->value);
    case ExprKind::kVar:
      return emit_var(*e.as<VarNode>());
    case ExprKind::kBinary:
      return emit_binary(*e.as<BinaryNode>(), e);
    case ExprKind::kUnary: {
      auto* node = e.as<UnaryNode>();
      Value* a = emit(node->a);
      if (node->op == UnaryOp::kNot) return b_.CreateNot(a);
      return is_float_value(a) ? b_.CreateFNeg(a) : b_.CreateNeg(a);
    }
    case ExprKind::kCall:
      return emit_call(*e.as<CallNode>());
    case ExprKind::kSelect: {
      auto* node = e.as<SelectNode>();
      return emit_select(node->condition, emit(node->if_true), emit(node->if_false));
    }
    case ExprKind::kCast: {
      auto* node = e.as<CastNode>();
      return splat(b_, conversions_.cast(emit(node->a), node->a.type().dtype, node->type.dtype),
                   node->type.lanes);
    }
    case ExprKind::kLoad:
      return emit_load(*e.as<LoadNode>());
    case ExprKind::kRamp: {
      auto* node = e.as<RampNode>();
      const int lanes = node->type.lanes;
      Value* steps = b_.CreateStepVector(register_type(context_, node->type));
      Value* offsets = b_.CreateMul(steps, splat(b_, emit(node->stride), lanes));
      return b_.CreateAdd(splat(b_, emit(node->base), lanes), offsets);
    }
    case ExprKind::kBroadcast:
      return splat(b_, emit(e.as<BroadcastNode>()->value), e.type().lanes);
    case ExprKind::kLet: {
      auto* node = e.as<LetNode>();
      scope_.vars[node->var.as<VarNode>()] = emit(node->value);
      if (gpu_) ranges_.bind(node->var.as<VarNode>(), ranges_.range(node->value));
      Value* body = emit(node->body);
      scope_.vars.erase(node->var.as<VarNode>());
      return body;
    }
    case ExprKind::kRead:
    case ExprKind::kReduce:
      break;
  }
  internal_error("kernel {}: an expression reached code generation without being lowered", kernel_.name);
}

Value* KernelEmitter::emit_var(const VarNode& node) {
  if (auto it = scope_.vars.find(&node); it != scope_.vars.end()) return it->second;
  if (auto it = scope_.symbols.find(node.name); node.is_symbol && it != scope_.symbols.end())
    return it->second;
  internal_error("kernel {}: variable {} is not bound{}", kernel_.name, node.name,
                 node.is_symbol ? " (missing in the kernel's symbols)" : "");
}

Value* KernelEmitter::emit_binary(const BinaryNode& node, const Expr& self) {
  const bool is_float = register_type(context_, node.a.type())->isFPOrFPVectorTy();
  if (is_float && instructions_.multiply_add && (node.op == BinaryOp::kAdd || node.op == BinaryOp::kSub)) {
    if (Value* fused = emit_fused_multiply_add(node)) return fused;
  }
  if (is_comparison(node.op) && node.type.lanes > 1 && node.a.type().dtype == DType::kI64) {
    if (Value* mask = emit_lane_compare(node)) return mask;
  }
  const int lanes = std::max(node.a.type().lanes, node.b.type().lanes);
  if (gpu_ && lanes == 1 && node.a.type().dtype == DType::kI64) {
    if (Value* narrow = emit_narrowed(node, self)) return narrow;
  }
  Value *a = splat(b_, emit(node.a), lanes), *b = splat(b_, emit(node.b), lanes);
  if (is_float) return is_comparison(node.op) ? floats_.compare(node, a, b) : floats_.binary(node, a, b);
  return is_comparison(node.op) ? integers_.compare(node, a, b)
                                : integers_.binary(node, a, b, index_depth_ > 0);
}

/// x * y + z and its variants with minus as one llvm.fma, which takes a broadcast from memory as its operand.
Value* KernelEmitter::emit_fused_multiply_add(const BinaryNode& node) {
  auto product = [](const Expr& e) -> const BinaryNode* {
    auto* m = e.as<BinaryNode>();
    return m && m->op == BinaryOp::kMul ? m : nullptr;
  };
  const bool subtract = node.op == BinaryOp::kSub;
  const BinaryNode *right = product(node.b), *left = right ? nullptr : product(node.a);
  const BinaryNode* multiply = right ? right : left;
  if (!multiply) return nullptr;
  const int lanes = node.type.lanes;
  Value *x = splat(b_, emit(multiply->a), lanes), *y = splat(b_, emit(multiply->b), lanes);
  Value* z = splat(b_, emit(right ? node.a : node.b), lanes);
  if (subtract && right) x = b_.CreateFNeg(x);
  if (subtract && left) z = b_.CreateFNeg(z);
  return math_.fma(x, y, z);
}

/// An f16 expression in f16's own form.
Value* KernelEmitter::emit_half(const Expr& e, int lanes) {
  if (auto* broadcast = e.as<BroadcastNode>(); broadcast && broadcast->value.type().lanes == 1)
    return splat(b_, emit_half(broadcast->value, 1), lanes);
  Value* bits = conversions_.to_storage(emit(e), DType::kF16);
  return splat(b_, b_.CreateBitCast(bits, with_lanes(b_.getHalfTy(), lanes_of(bits))), lanes);
}

/// x * y + z of f16, rounded once. Registers hold f16 as f32; LLVM drops what is converted there and back.
Value* KernelEmitter::emit_half_multiply_add(const CallNode& node) {
  const int lanes = node.type.lanes;
  Value *x = emit_half(node.args[0], lanes), *y = emit_half(node.args[1], lanes),
        *z = emit_half(node.args[2], lanes);
  Value* fused = b_.CreateIntrinsic(llvm::Intrinsic::fma, {x->getType()}, {x, y, z});
  return conversions_.from_storage(b_.CreateBitCast(fused, with_lanes(b_.getInt16Ty(), lanes)), DType::kF16);
}

/// Comparisons of ramps, as guards make them: `first + lane < bound` needs no vector of 64-bit indices, only
/// the number of lanes before the bound. Null where the operands have another form.
Value* KernelEmitter::emit_lane_compare(const BinaryNode& node) {
  if (node.op == BinaryOp::kEq || node.op == BinaryOp::kNe) return nullptr;
  const bool swapped = node.op == BinaryOp::kGt || node.op == BinaryOp::kGe;
  const bool or_equal = node.op == BinaryOp::kLe || node.op == BinaryOp::kGe;
  ++index_depth_;
  std::optional<Affine> a = emit_affine(swapped ? node.b : node.a);
  std::optional<Affine> b = a ? emit_affine(swapped ? node.a : node.b) : std::nullopt;
  --index_depth_;
  if (!b) return nullptr;
  const int lanes = node.type.lanes;
  const int64_t stride = a->stride - b->stride;
  // a + stride * lane < b (or <=)  <=>  stride * lane < distance.
  Value* distance = b_.CreateSub(b->base, a->base);
  if (or_equal) distance = b_.CreateAdd(distance, b_.getInt64(1));
  Value* zero = b_.getInt64(0);
  if (stride == 0) return splat(b_, b_.CreateICmpSGT(distance, zero), lanes);
  if (stride != 1 && stride != -1) return nullptr;
  auto clamped = [&](Value* v) {
    v = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, v, b_.getInt64(static_cast<uint64_t>(-1)));
    v = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, v, b_.getInt64(static_cast<uint64_t>(lanes)));
    return splat(b_, b_.CreateTrunc(v, b_.getInt32Ty()), lanes);
  };
  Value* lane = b_.CreateStepVector(with_lanes(b_.getInt32Ty(), lanes));
  if (stride == 1) return b_.CreateICmpSLT(lane, clamped(distance));
  return b_.CreateICmpSGT(lane, clamped(b_.CreateNeg(distance)));
}

Value* KernelEmitter::emit_select(const Expr& condition, Value* if_true, Value* if_false) {
  const int lanes = std::max({condition.type().lanes, lanes_of(if_true), lanes_of(if_false)});
  auto* broadcast = condition.as<BroadcastNode>();
  Value* c = broadcast ? emit(broadcast->value) : emit(condition);
  return b_.CreateSelect(c, splat(b_, if_true, lanes), splat(b_, if_false, lanes));
}

Value* KernelEmitter::emit_if_then_else(const CallNode& node) {
  Expr condition = node.args[0];
  if (auto* broadcast = condition.as<BroadcastNode>()) condition = broadcast->value;
  if (condition.type().lanes > 1) return emit_select(condition, emit(node.args[1]), emit(node.args[2]));
  Value* chosen = emit(condition);
  if (auto* known = llvm::dyn_cast<llvm::ConstantInt>(chosen)) {
    return splat(b_, emit(node.args[known->isZero() ? 2 : 1]), node.type.lanes);
  }
  auto* then = scope_.new_block("then");
  auto* otherwise = scope_.new_block("else");
  auto* after = scope_.new_block("join");
  b_.CreateCondBr(chosen, then, otherwise);
  // What a branch computes is not known outside of it.
  const auto known = cache_;
  auto branch = [&](llvm::BasicBlock* block, const Expr& e) {
    b_.SetInsertPoint(block);
    Value* value = splat(b_, emit(e), node.type.lanes);
    cache_ = known;
    llvm::BasicBlock* end = b_.GetInsertBlock();
    b_.CreateBr(after);
    return std::pair(value, end);
  };
  auto [if_true, true_end] = branch(then, node.args[1]);
  auto [if_false, false_end] = branch(otherwise, node.args[2]);
  b_.SetInsertPoint(after);
  llvm::PHINode* phi = b_.CreatePHI(if_true->getType(), 2);
  phi->addIncoming(if_true, true_end);
  phi->addIncoming(if_false, false_end);
  return phi;
}

Value* KernelEmitter::emit_call(const CallNode& node) {
  if (node.fn == MathFn::kIfThenElse) return emit_if_then_else(node);
  if (node.fn == MathFn::kFma && node.type.dtype == DType::kF16 && instructions_.half_arithmetic)
    return emit_half_multiply_add(node);
  const int lanes = node.type.lanes;
  Value* x = splat(b_, emit(node.args[0]), lanes);
  switch (node.fn) {
    case MathFn::kPow: {
      if (!is_float_value(x)) {
        return math_.integer_pow(x, splat(b_, emit(node.args[1]), lanes), !is_unsigned_kind(node.type.dtype));
      }
      if (auto y = constant_float(node.args[1])) return math_.pow_constant(x, *y);
      return math_.pow(x, splat(b_, emit(node.args[1]), lanes));
    }
    case MathFn::kFma:
      return math_.fma(x, splat(b_, emit(node.args[1]), lanes), splat(b_, emit(node.args[2]), lanes));
    case MathFn::kTruncBf16:
      return conversions_.truncate_to_bf16(x);
    case MathFn::kRoundTf32: {
      if (instructions_.round_tf32 != nullptr && lanes == 1) return instructions_.round_tf32(b_, x);
      Value* bits = b_.CreateBitCast(x, with_lanes(b_.getInt32Ty(), lanes));
      Value* rounded = b_.CreateAnd(b_.CreateAdd(bits, llvm::ConstantInt::get(bits->getType(), 0x1000)),
                                    llvm::ConstantInt::get(bits->getType(), ~uint32_t{0x1fff}));
      return b_.CreateSelect(b_.CreateFCmpUNO(x, x), x, b_.CreateBitCast(rounded, x->getType()));
    }
    case MathFn::kIsNan:
      return is_float_value(x) ? b_.CreateFCmpUNO(x, x)
                               : llvm::Constant::getNullValue(register_type(context_, node.type));
    case MathFn::kIsInf: {
      if (!is_float_value(x)) return llvm::Constant::getNullValue(register_type(context_, node.type));
      Value* magnitude = b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x);
      return b_.CreateFCmpOEQ(magnitude, llvm::ConstantFP::getInfinity(x->getType()));
    }
    default:
      break;
  }
  if (is_float_value(x)) return math_.unary(node.fn, x);
  switch (node.fn) {
    case MathFn::kAbs: {
      if (is_unsigned_kind(node.type.dtype)) return x;
      return b_.CreateBinaryIntrinsic(llvm::Intrinsic::abs, x, b_.getFalse());
    }
    case MathFn::kFloor:
    case MathFn::kCeil:
    case MathFn::kRound:
    case MathFn::kTrunc:
      return x;
    default:
      internal_error("kernel {}: {} of integers", kernel_.name, name_of(node.fn));
  }
}

Value* KernelEmitter::emit_lane(const Expr& e, int lane) {
  if (e.type().lanes == 1) return emit(e);
  if (auto* broadcast = e.as<BroadcastNode>()) {
    const int inner = broadcast->value.type().lanes;
    return emit_lane(broadcast->value, inner == 1 ? 0 : lane % inner);
  }
  if (auto* ramp = e.as<RampNode>(); ramp && ramp->base.type().lanes == 1) {
    Value* offset = b_.CreateNSWMul(emit(ramp->stride), b_.getInt64(static_cast<uint64_t>(lane)));
    return b_.CreateNSWAdd(emit(ramp->base), offset);
  }
  if (auto* binary = e.as<BinaryNode>();
      binary && !register_type(context_, binary->a.type())->isFPOrFPVectorTy()) {
    Value *a = emit_lane(binary->a, lane), *b = emit_lane(binary->b, lane);
    return is_comparison(binary->op) ? integers_.compare(*binary, a, b)
                                     : integers_.binary(*binary, a, b, index_depth_ > 0);
  }
  if (auto* select = e.as<SelectNode>()) {
    return b_.CreateSelect(emit_lane(select->condition, lane), emit_lane(select->if_true, lane),
                           emit_lane(select->if_false, lane));
  }
  if (auto* cast = e.as<CastNode>()) {
    return conversions_.cast(emit_lane(cast->a, lane), cast->a.type().dtype, cast->type.dtype);
  }
  if (auto* load = e.as<LoadNode>()) {
    Value* active = load->predicate ? emit_lane(load->predicate, lane) : nullptr;
    return conversions_.from_storage(elements_.load(*load->buffer, emit_lane(load->index, lane), active),
                                     load->buffer->dtype);
  }
  return b_.CreateExtractElement(emit(e), static_cast<uint64_t>(lane));
}

}  // namespace gantry
