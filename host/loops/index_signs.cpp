#include "host/loops/index_signs.h"

namespace gantry {

void IndexSigns::set_at_least(const VarNode* var, const Expr& low) {
  if (is_non_negative(low)) {
    set_non_negative(var);
  } else {
    non_negative_.erase(var);
  }
}

bool IndexSigns::is_non_negative(const Expr& e) const {
  if (auto* imm = e.as<IntImmNode>()) return imm->value >= 0;
  if (auto* var = e.as<VarNode>()) return var->is_symbol || non_negative_.contains(var);
  if (auto* ramp = e.as<RampNode>()) return is_non_negative(ramp->base) && is_non_negative(ramp->stride);
  if (auto* broadcast = e.as<BroadcastNode>()) return is_non_negative(broadcast->value);
  auto* binary = e.as<BinaryNode>();
  if (!binary || e.type().dtype != DType::kI64) return false;
  const bool a = is_non_negative(binary->a), b = is_non_negative(binary->b);
  switch (binary->op) {
    case BinaryOp::kAdd:
    case BinaryOp::kMul:
    case BinaryOp::kMin:
    case BinaryOp::kFloorDiv:
    case BinaryOp::kDiv:
      return a && b;
    case BinaryOp::kMax:
      return a || b;
    case BinaryOp::kMod:
      return b;
    default:
      return false;
  }
}

}  // namespace gantry
