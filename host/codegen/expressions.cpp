#include "host/codegen/expressions.h"

#include <algorithm>

#include "host/codegen/conversions.h"
#include "host/codegen/float_arithmetic.h"
#include "host/codegen/integer_arithmetic.h"
#include "host/codegen/loads.h"
#include "host/codegen/math_calls.h"
#include "host/codegen/multiply_adds.h"
#include "host/codegen/narrow_indices.h"
#include "host/codegen/value_types.h"
#include "host/codegen/vector_lanes.h"
#include "host/support/error.h"
#include "host/tensor/fold.h"

namespace gantry {

using llvm::Value;

Expressions::Expressions(llvm::IRBuilder<>& builder, FunctionScope& scope, const std::string& kernel,
                         const Kinds& kinds)
    : b_(builder), scope_(scope), kernel_(kernel), kinds_(kinds) {}

Value* Expressions::emit(const Expr& e) {
  auto it = cache_.find(e.get());
  if (it != cache_.end()) return it->second;
  Value* value = emit_uncached(e);
  cache_.emplace(e.get(), value);
  return value;
}

Value* Expressions::emit_index(const Expr& e) {
  const InIndex inside(*this);
  return emit(e);
}

void Expressions::set_value(const VarNode* var, const Expr& value) {
  kinds_.lanes.set_value(var, value);
}

Value* Expressions::emit_uncached(const Expr& e) {
  switch (e->kind) {
    case ExprKind::kIntImm:
      return llvm::ConstantInt::get(register_type(b_.getContext(), e.type()),
                                    static_cast<uint64_t>(e.as<IntImmNode>()->value), true);
    case ExprKind::kFloatImm:
      return llvm::ConstantFP::get(register_type(b_.getContext(), e.type()), e.as<FloatImmNode>()->value);
    case ExprKind::kVar:
      return variable(*e.as<VarNode>());
    case ExprKind::kBinary:
      return binary(*e.as<BinaryNode>(), e);
    case ExprKind::kUnary: {
      auto* node = e.as<UnaryNode>();
      Value* a = emit(node->a);
      if (node->op == UnaryOp::kNot) return b_.CreateNot(a);
      return is_float_value(a) ? b_.CreateFNeg(a) : b_.CreateNeg(a);
    }
    case ExprKind::kCall: {
      auto* node = e.as<CallNode>();
      return node->fn == MathFn::kIfThenElse ? if_then_else(*node) : kinds_.calls.emit(*node);
    }
    case ExprKind::kSelect: {
      auto* node = e.as<SelectNode>();
      return select(node->condition, emit(node->if_true), emit(node->if_false));
    }
    case ExprKind::kCast: {
      auto* node = e.as<CastNode>();
      return splat(b_, kinds_.conversions.cast(emit(node->a), node->a.type().dtype, node->type.dtype),
                   node->type.lanes);
    }
    case ExprKind::kLoad:
      return kinds_.loads.emit(*e.as<LoadNode>());
    case ExprKind::kRamp: {
      auto* node = e.as<RampNode>();
      const int lanes = node->type.lanes;
      Value* steps = b_.CreateStepVector(register_type(b_.getContext(), node->type));
      Value* offsets = b_.CreateMul(steps, splat(b_, emit(node->stride), lanes));
      return b_.CreateAdd(splat(b_, emit(node->base), lanes), offsets);
    }
    case ExprKind::kBroadcast:
      return splat(b_, emit(e.as<BroadcastNode>()->value), e.type().lanes);
    case ExprKind::kLet:
      return let(*e.as<LetNode>());
    case ExprKind::kRead:
    case ExprKind::kReduce:
      break;
  }
  internal_error("kernel {}: an expression reached code generation without being lowered", kernel_);
}

Value* Expressions::variable(const VarNode& node) {
  if (auto it = scope_.vars.find(&node); it != scope_.vars.end()) return it->second;
  if (auto it = scope_.symbols.find(node.name); node.is_symbol && it != scope_.symbols.end())
    return it->second;
  internal_error("kernel {}: variable {} is not bound{}", kernel_, node.name,
                 node.is_symbol ? " (missing in the kernel's symbols)" : "");
}

Value* Expressions::binary(const BinaryNode& node, const Expr& self) {
  const bool is_float = register_type(b_.getContext(), node.a.type())->isFPOrFPVectorTy();
  if (is_float) {
    if (Value* fused = kinds_.multiply_adds.fused(node)) return fused;
  }
  if (is_comparison(node.op) && node.type.lanes > 1 && node.a.type().dtype == DType::kI64) {
    if (Value* mask = kinds_.lanes.compare(node)) return mask;
  }
  const int lanes = std::max(node.a.type().lanes, node.b.type().lanes);
  if (kinds_.narrow != nullptr && lanes == 1 && node.a.type().dtype == DType::kI64) {
    auto operand = [&](const Expr& e) { return emit(e); };
    if (Value* narrow = kinds_.narrow->binary(node, self, operand)) return narrow;
  }
  Value *a = splat(b_, emit(node.a), lanes), *b = splat(b_, emit(node.b), lanes);
  if (is_float)
    return is_comparison(node.op) ? kinds_.floats.compare(node, a, b) : kinds_.floats.binary(node, a, b);
  return is_comparison(node.op) ? kinds_.integers.compare(node, a, b)
                                : kinds_.integers.binary(node, a, b, in_index());
}

Value* Expressions::let(const LetNode& node) {
  const auto* var = node.var.as<VarNode>();
  scope_.vars[var] = emit(node.value);
  set_value(var, node.value);
  if (kinds_.narrow != nullptr) kinds_.narrow->bind_range(var, node.value);
  Value* body = emit(node.body);
  scope_.vars.erase(var);
  return body;
}

Value* Expressions::select(const Expr& condition, Value* if_true, Value* if_false) {
  const int lanes = std::max({condition.type().lanes, lanes_of(if_true), lanes_of(if_false)});
  auto* broadcast = condition.as<BroadcastNode>();
  Value* c = broadcast ? emit(broadcast->value) : emit(condition);
  return b_.CreateSelect(c, splat(b_, if_true, lanes), splat(b_, if_false, lanes));
}

Value* Expressions::if_then_else(const CallNode& node) {
  Expr condition = node.args[0];
  if (auto* broadcast = condition.as<BroadcastNode>()) condition = broadcast->value;
  if (condition.type().lanes > 1) return select(condition, emit(node.args[1]), emit(node.args[2]));
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

}  // namespace gantry
