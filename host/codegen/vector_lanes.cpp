#include "host/codegen/vector_lanes.h"

#include <utility>

#include "host/codegen/value_types.h"
#include "host/tensor/fold.h"

namespace gantry {

using llvm::Value;

namespace {

/// Indices and sizes are less, and so are sums of a few of them: no memory has so many elements.
constexpr int64_t kFar = int64_t{1} << 48;

/// The one value of all lanes; null if they may differ.
Expr one_value(const Expr& e) {
  if (e.type().lanes == 1) return e;
  auto* broadcast = e.as<BroadcastNode>();
  return broadcast && broadcast->value.type().lanes == 1 ? broadcast->value : Expr();
}

}  // namespace

Expr scalar_predicate(const Expr& predicate) {
  return one_value(predicate);
}

VectorLanes::VectorLanes(llvm::IRBuilder<>& builder, Expressions& expressions, IntegerArithmetic& integers,
                         Conversions& conversions, BufferElements& elements)
    : b_(builder),
      expressions_(expressions),
      integers_(integers),
      conversions_(conversions),
      elements_(elements) {}

std::optional<Affine> VectorLanes::affine(const Expr& e) {
  if (e.type().lanes == 1) return Affine{expressions_.emit(e), 0};
  if (auto* ramp = e.as<RampNode>()) {
    auto* stride = ramp->stride.as<IntImmNode>();
    if (!stride || ramp->base.type().lanes != 1) return std::nullopt;
    return Affine{expressions_.emit(ramp->base), stride->value};
  }
  if (auto* broadcast = e.as<BroadcastNode>()) {
    if (broadcast->value.type().lanes != 1) return std::nullopt;
    return Affine{expressions_.emit(broadcast->value), 0};
  }
  auto* binary = e.as<BinaryNode>();
  if (!binary) return std::nullopt;
  if (binary->op == BinaryOp::kAdd || binary->op == BinaryOp::kSub) {
    std::optional<Affine> a = affine(binary->a), b = a ? affine(binary->b) : std::nullopt;
    if (!b) return std::nullopt;
    if (binary->op == BinaryOp::kAdd) return Affine{b_.CreateNSWAdd(a->base, b->base), a->stride + b->stride};
    return Affine{b_.CreateNSWSub(a->base, b->base), a->stride - b->stride};
  }
  if (binary->op == BinaryOp::kMul) {
    std::optional<Affine> a = affine(binary->a), b = a ? affine(binary->b) : std::nullopt;
    if (!b) return std::nullopt;
    if (a->stride != 0) std::swap(a, b);
    if (b->stride == 0) return Affine{b_.CreateNSWMul(a->base, b->base), 0};
    auto* factor = llvm::dyn_cast<llvm::ConstantInt>(a->base);
    if (a->stride != 0 || !factor) return std::nullopt;
    return Affine{b_.CreateNSWMul(a->base, b->base), b->stride * factor->getSExtValue()};
  }
  return std::nullopt;
}

void VectorLanes::set_value(const VarNode* var, const Expr& value) {
  if (may_be_far(value)) {
    far_.insert(var);
  } else {
    far_.erase(var);
  }
}

/// Whether it is, or is computed of, data or a number that no index is.
bool VectorLanes::may_be_far(const Expr& e) const {
  bool found = false;
  walk(e, [&](const Expr& part) {
    if (part.as<LoadNode>()) found = true;
    if (auto* var = part.as<VarNode>()) found = found || far_.contains(var);
    if (auto* known = part.as<IntImmNode>()) found = found || known->value > kFar || known->value < -kFar;
  });
  return found;
}

/// An operand of a comparison. Arithmetic of far numbers wraps around, lane by lane: only one value of all
/// lanes has this form then.
std::optional<Affine> VectorLanes::compared(const Expr& e, bool is_far) {
  if (!is_far) {
    const Expressions::InIndex inside(expressions_);
    return affine(e);
  }
  const Expr value = one_value(e);
  return value ? std::optional(Affine{expressions_.emit(value), 0}) : std::nullopt;
}

Value* VectorLanes::compare(const BinaryNode& node) {
  if (node.op == BinaryOp::kEq || node.op == BinaryOp::kNe) return nullptr;
  const bool swapped = node.op == BinaryOp::kGt || node.op == BinaryOp::kGe;
  const bool or_equal = node.op == BinaryOp::kLe || node.op == BinaryOp::kGe;
  const Expr &lower = swapped ? node.b : node.a, &upper = swapped ? node.a : node.b;
  const bool a_is_far = may_be_far(lower), b_is_far = may_be_far(upper), is_far = a_is_far || b_is_far;
  const std::optional<Affine> a = compared(lower, a_is_far);
  const std::optional<Affine> b = a ? compared(upper, b_is_far) : std::nullopt;
  if (!b) return nullptr;
  const int lanes = node.type.lanes;
  const int64_t stride = a->stride - b->stride;
  if (is_far && stride == 0) {
    Value* all = or_equal ? b_.CreateICmpSLE(a->base, b->base) : b_.CreateICmpSLT(a->base, b->base);
    return splat(b_, all, lanes);
  }
  // What would wrap around becomes a distance that is more lanes than there are.
  const auto sum = [&](Value* x, Value* y) {
    return is_far ? b_.CreateBinaryIntrinsic(llvm::Intrinsic::sadd_sat, x, y) : b_.CreateAdd(x, y);
  };
  const auto difference = [&](Value* x, Value* y) {
    return is_far ? b_.CreateBinaryIntrinsic(llvm::Intrinsic::ssub_sat, x, y) : b_.CreateSub(x, y);
  };
  // a + stride * lane < b (or <=)  <=>  stride * lane < distance.
  Value* distance = difference(b->base, a->base);
  if (or_equal) distance = sum(distance, b_.getInt64(1));
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
  return b_.CreateICmpSGT(lane, clamped(difference(zero, distance)));
}

Value* VectorLanes::lane(const Expr& e, int i) {
  if (e.type().lanes == 1) return expressions_.emit(e);
  if (auto* broadcast = e.as<BroadcastNode>()) {
    const int inner = broadcast->value.type().lanes;
    return lane(broadcast->value, inner == 1 ? 0 : i % inner);
  }
  if (auto* ramp = e.as<RampNode>(); ramp && ramp->base.type().lanes == 1) {
    Value* offset = b_.CreateNSWMul(expressions_.emit(ramp->stride), b_.getInt64(static_cast<uint64_t>(i)));
    return b_.CreateNSWAdd(expressions_.emit(ramp->base), offset);
  }
  if (auto* binary = e.as<BinaryNode>();
      binary && !register_type(b_.getContext(), binary->a.type())->isFPOrFPVectorTy()) {
    Value *a = lane(binary->a, i), *b = lane(binary->b, i);
    return is_comparison(binary->op) ? integers_.compare(*binary, a, b)
                                     : integers_.binary(*binary, a, b, expressions_.in_index());
  }
  if (auto* select = e.as<SelectNode>()) {
    return b_.CreateSelect(lane(select->condition, i), lane(select->if_true, i), lane(select->if_false, i));
  }
  if (auto* cast = e.as<CastNode>()) {
    return conversions_.cast(lane(cast->a, i), cast->a.type().dtype, cast->type.dtype);
  }
  if (auto* load = e.as<LoadNode>()) {
    Value* active = load->predicate ? lane(load->predicate, i) : nullptr;
    return conversions_.from_storage(elements_.load(*load->buffer, lane(load->index, i), active),
                                     load->buffer->dtype);
  }
  return b_.CreateExtractElement(expressions_.emit(e), static_cast<uint64_t>(i));
}

}  // namespace gantry
