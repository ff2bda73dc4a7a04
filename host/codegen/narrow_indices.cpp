#include "host/codegen/narrow_indices.h"

#include <optional>

#include "host/tensor/fold.h"

namespace gantry {

using llvm::Value;

NarrowIndices::NarrowIndices(llvm::IRBuilder<>& builder, FunctionScope& scope, IndexRanges& ranges,
                             IndexSigns& signs, IntegerArithmetic& integers)
    : b_(builder), scope_(scope), ranges_(ranges), signs_(signs), integers_(integers) {}

void NarrowIndices::bind_i32(const Expr& var, Value* value, IndexRanges::Range range) {
  const auto* node = var.as<VarNode>();
  ranges_.bind(node, range);
  if (range.low >= 0) signs_.set_non_negative(node);
  scope_.vars[node] = widen(value, range);
}

IndexRanges::Range NarrowIndices::range(const ForNode& loop) {
  const IndexRanges::Range low = ranges_.range(loop.low), extent = ranges_.range(loop.extent);
  return {low.low, low.high + extent.high - 1};
}

void NarrowIndices::bind_loop(const ForNode& loop, Value* value, IndexRanges::Range range) {
  const auto* var = loop.var.as<VarNode>();
  signs_.set_at_least(var, loop.low);
  ranges_.bind(var, range);
  scope_.vars[var] = value;
}

Value* NarrowIndices::widen(Value* value, IndexRanges::Range range) {
  return range.low >= 0 ? b_.CreateZExt(value, b_.getInt64Ty(), "", true)
                        : b_.CreateSExt(value, b_.getInt64Ty());
}

Value* NarrowIndices::narrow(Value* index) {
  if (auto* constant = llvm::dyn_cast<llvm::ConstantInt>(index)) {
    return b_.getInt32(static_cast<uint32_t>(constant->getSExtValue()));
  }
  if (llvm::isa<llvm::ZExtInst, llvm::SExtInst>(index)) {
    Value* inner = llvm::cast<llvm::Instruction>(index)->getOperand(0);
    if (inner->getType()->isIntegerTy(32)) return inner;
  }
  return b_.CreateTrunc(index, b_.getInt32Ty());
}

Value* NarrowIndices::binary(const BinaryNode& node, const Expr& self,
                             const std::function<Value*(const Expr&)>& emit) {
  const IndexRanges::Range a = ranges_.range(node.a), b = ranges_.range(node.b);
  if (!a.fits_int32() || !b.fits_int32()) return nullptr;
  if (is_comparison(node.op)) {
    if (const std::optional<bool> known = ranges_.decide(node)) return b_.getInt1(*known);
  }
  auto operand = [&](const Expr& e) { return narrow(emit(e)); };
  if (is_comparison(node.op)) return integers_.compare(node, operand(node.a), operand(node.b));
  const IndexRanges::Range range = ranges_.range(self);
  if (!range.fits_int32()) return nullptr;
  Value *x = operand(node.a), *y = operand(node.b);
  Value* result = integers_.binary(node, x, y, true);  // no part of it overflows
  auto* instruction = llvm::dyn_cast<llvm::OverflowingBinaryOperator>(result);
  if (instruction && a.low >= 0 && b.low >= 0 && range.low >= 0 && llvm::isa<llvm::Instruction>(result)) {
    llvm::cast<llvm::Instruction>(result)->setHasNoUnsignedWrap(true);
  }
  return widen(result, range);
}

}  // namespace gantry
