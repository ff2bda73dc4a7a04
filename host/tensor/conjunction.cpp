#include "host/tensor/conjunction.h"

namespace gantry {

void collect_conjuncts(const Expr& condition, std::vector<Expr>& conjuncts) {
  const auto* node = condition.as<BinaryNode>();
  if (!node || node->op != BinaryOp::kAnd || node->type.dtype != DType::kBool) {
    conjuncts.push_back(condition);
    return;
  }
  collect_conjuncts(node->a, conjuncts);
  collect_conjuncts(node->b, conjuncts);
}

}  // namespace gantry
