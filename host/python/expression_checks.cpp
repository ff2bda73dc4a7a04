// What is wrong with a body whatever its schedule is, and would otherwise be found when code is generated, or
// not at all.
#include <set>
#include <utility>

#include "host/python/expressions.h"
#include "host/tensor/fold.h"
#include "host/tensor/simplify.h"

namespace gantry::python {
namespace {

/// A sum of multiples of variables: its bounds are reached.
bool is_linear(const Expr& e) {
  if (e.as<IntImmNode>() || e.as<VarNode>()) return true;
  const auto* node = e.as<BinaryNode>();
  if (!node || !is_linear(node->a) || !is_linear(node->b)) return false;
  if (node->op == BinaryOp::kMul) return constant_of(node->a) || constant_of(node->b);
  return node->op == BinaryOp::kAdd || node->op == BinaryOp::kSub;
}

class Checker {
 public:
  Checker(const std::vector<IterVarPtr>& axes, const std::string& what) : what_(what) {
    for (const IterVarPtr& axis : axes) ranges_[axis->var.as<VarNode>()] = {axis->low, axis->extent};
  }

  /// `guarded`: evaluated under a condition that may keep indices inside.
  void check(const Expr& e, bool guarded) {
    if (!seen_.emplace(e.get(), guarded).second) return;
    if (e.as<VarNode>() && !ranges_.contains(e.as<VarNode>()))
      user_error("{}: {} is no axis of it", what_, to_string(e));
    if (const auto* load = e.as<LoadNode>())
      user_error("{}: {} is a buffer of a loop nest that is written by hand", what_, load->buffer->name);
    if (const auto* read = e.as<ReadNode>()) {
      for (size_t d = 0; d < read->indices.size(); ++d) {
        check(read->indices[d], guarded);
        if (!guarded) check_index(*read, d);
      }
    } else if (const auto* call = e.as<CallNode>(); call && call->fn == MathFn::kIfThenElse) {
      check(call->args[0], guarded);
      check(call->args[1], true);
      check(call->args[2], true);
    } else if (const auto* reduction = e.as<ReduceNode>()) {
      if (reduction->condition) check(reduction->condition, guarded);
      check(reduction->value, guarded || reduction->condition.get() != nullptr);
    } else {
      check_children(e, guarded);
    }
  }

 private:
  void check_children(const Expr& e, bool guarded) {
    if (const auto* binary = e.as<BinaryNode>()) {
      check(binary->a, guarded);
      check(binary->b, guarded);
    } else if (const auto* unary = e.as<UnaryNode>()) {
      check(unary->a, guarded);
    } else if (const auto* cast = e.as<CastNode>()) {
      check(cast->a, guarded);
    } else if (const auto* select = e.as<SelectNode>()) {
      for (const Expr& part : {select->condition, select->if_true, select->if_false}) check(part, guarded);
    } else if (const auto* call = e.as<CallNode>()) {
      for (const Expr& argument : call->args) check(argument, guarded);
    }
  }

  void check_index(const ReadNode& read, size_t dimension) const {
    const Expr index = simplify(read.indices[dimension], ranges_);
    if (!is_linear(index)) return;
    const Interval reached = bounds_of(index, ranges_);
    const int64_t size =
        constant_of(read.op->result_shapes[static_cast<size_t>(read.result)][dimension]).value();
    const bool below = reached.low && *reached.low < 0, above = reached.high && *reached.high >= size;
    if (!below && !above) return;
    user_error(
        "{}: reads {} at {}, which reaches {}, but dimension {} has the indices 0 to {}; te.if_then_else and "
        "a "
        "reduction's where= keep reads inside",
        what_, read.op->name, to_string(read.indices[dimension]), below ? *reached.low : *reached.high,
        dimension, size - 1);
  }

  std::string what_;
  RangeMap ranges_;
  std::set<std::pair<const ExprNode*, bool>> seen_;  ///< expressions share parts
};

}  // namespace

void check_body(const Expr& body, const std::vector<IterVarPtr>& axes, const std::string& what) {
  Checker(axes, what).check(body, false);
}

}  // namespace gantry::python
