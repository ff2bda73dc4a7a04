// Updates of accumulators of which some lanes are off.
//
//   acc[ramp(32, 1, 16) if p] = max(acc[… if p], x[… if p])   =>   acc[ramp(32, 1, 16)] =
//                                                                   max(acc[…], select(p, x[… if p], -inf))
//
// What a lane that is off adds changes nothing. An accumulator all of whose lanes are stored stays in a
// register between its updates; one that is stored in part goes through memory.
#include <optional>

#include "host/loops/lower.h"
#include "host/loops/stmt.h"
#include "host/tensor/fold.h"

namespace gantry {
namespace {

std::optional<ReduceKind> reduction_of(BinaryOp op) {
  switch (op) {
    case BinaryOp::kAdd:
      return ReduceKind::kSum;
    case BinaryOp::kMax:
      return ReduceKind::kMax;
    case BinaryOp::kMin:
      return ReduceKind::kMin;
    default:
      return std::nullopt;
  }
}

/// All lanes lie in the buffer.
bool is_whole(const BufferNode& buffer, const Expr& index) {
  const auto* ramp = index.as<RampNode>();
  if (!ramp || buffer.scope != BufferScope::kLocal || constant_of(ramp->stride) != 1) return false;
  const auto first = constant_of(ramp->base), count = constant_of(buffer.element_count);
  return first && count && *first >= 0 && *first + index.type().lanes <= *count;
}

class UpdateUnmasker : public StmtMutator {
 protected:
  Stmt mutate_launch(const LaunchNode* /*node*/, const Stmt& self) override { return self; }

  Stmt mutate_store(const StoreNode* node, const Stmt& self) override {
    const auto* update = node->value.as<BinaryNode>();
    if (!node->predicate || !update || !is_whole(*node->buffer, node->index)) return self;
    const auto kind = reduction_of(update->op);
    const auto* before = update->a.as<LoadNode>();
    const bool of_itself = before != nullptr && before->buffer == node->buffer &&
                           before->predicate.get() != nullptr &&
                           structurally_equal(before->index, node->index) &&
                           structurally_equal(before->predicate, node->predicate);
    if (!kind || !of_itself) return self;
    const Expr nothing =
        std::make_shared<BroadcastNode>(identity_of(*kind, update->type.dtype), update->type.lanes);
    const Expr added = select(node->predicate, update->b, nothing);
    return store(node->buffer, node->index, binary(update->op, load(node->buffer, node->index), added));
  }
};

}  // namespace

Stmt unmask_updates(const Stmt& s) {
  return UpdateUnmasker().mutate_stmt(s);
}

}  // namespace gantry
