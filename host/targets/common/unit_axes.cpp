#include "host/targets/common/unit_axes.h"

#include <algorithm>
#include <map>

#include "host/targets/common/analysis.h"
#include "host/tensor/simplify.h"

namespace gantry {
namespace {

using analysis::constant_extent;
using Bindings = std::vector<std::pair<const VarNode*, Expr>>;

/// Dimension by dimension, false for those that are left out.
std::vector<bool> kept_dimensions(const std::vector<Expr>& shape) {
  std::vector<bool> kept;
  bool longer = false;
  for (const Expr& extent : shape) {
    const bool unit = constant_extent(extent) == 1;
    longer = longer || !unit;
    kept.push_back(!unit || !longer);
  }
  return kept;
}

template <typename T>
std::vector<T> filtered(const std::vector<T>& all, const std::vector<bool>& kept) {
  std::vector<T> result;
  for (size_t i = 0; i < all.size(); ++i) {
    if (kept[i]) result.push_back(all[i]);
  }
  return result;
}

/// Reduction axes of more than one element; one of them where there is none.
std::vector<IterVarPtr> kept_reduce_axes(const std::vector<IterVarPtr>& axes) {
  std::vector<IterVarPtr> kept;
  for (const IterVarPtr& axis : axes) {
    if (constant_extent(axis->extent) != 1) kept.push_back(axis);
  }
  if (kept.empty() && !axes.empty()) kept.push_back(axes.front());
  return kept;
}

/// Binds the axes that are not among `kept` to their only value.
void bind_others(const std::vector<IterVarPtr>& axes, const std::vector<IterVarPtr>& kept,
                 Bindings& bindings) {
  for (const IterVarPtr& axis : axes) {
    if (std::ranges::find(kept, axis) == kept.end())
      bindings.emplace_back(axis->var.as<VarNode>(), axis->low);
  }
}

/// Rewrites bodies: reads go to the operations that stand for those they read, without the indices left out.
class BodyRewriter : public ExprMutator {
 public:
  explicit BodyRewriter(const std::map<const OperationNode*, Operation>& renamed) : renamed_(renamed) {}

 protected:
  Expr mutate_read(const ReadNode* node, const Expr& self) override {
    const Expr read = ExprMutator::mutate_read(node, self);
    const auto found = renamed_.find(node->op.get());
    if (found == renamed_.end()) return read;
    const auto& shape = node->op->result_shapes[static_cast<size_t>(node->result)];
    return Tensor(found->second,
                  node->result)(filtered(read.as<ReadNode>()->indices, kept_dimensions(shape)));
  }
  Expr mutate_reduce(const ReduceNode* node, const Expr& self) override {
    const Expr reduction = ExprMutator::mutate_reduce(node, self);
    const auto* mutated = reduction.as<ReduceNode>();
    if (kept_reduce_axes(mutated->axes).size() == mutated->axes.size()) return reduction;
    return std::make_shared<ReduceNode>(mutated->reduce, mutated->value, kept_reduce_axes(mutated->axes),
                                        mutated->condition);
  }

 private:
  const std::map<const OperationNode*, Operation>& renamed_;
};

// Nests written by hand, and forms whose rules know axes by their place.
bool finds_axes_by_place(const OperationNode& op) {
  return op.kind == OperationNode::Kind::kExtern || is_of_product(op.role);
}

class UnitAxes {
 public:
  KernelTensors run(const KernelTensors& kernel) {
    const std::vector<Operation> order = topological_order(kernel.outputs);
    if (std::ranges::any_of(order, [](const Operation& op) { return finds_axes_by_place(*op); }))
      return kernel;
    for (const Tensor& input : kernel.inputs) rewrite(input.op());
    for (const Operation& op : order) rewrite(op);
    return {now(kernel.outputs), now(kernel.inputs)};
  }

 private:
  std::vector<Tensor> now(const std::vector<Tensor>& tensors) const {
    std::vector<Tensor> result;
    for (const Tensor& t : tensors) {
      const auto found = renamed_.find(t.op().get());
      result.push_back(found == renamed_.end() ? t : Tensor(found->second, t.result()));
    }
    return result;
  }

  void rewrite(const Operation& op) {
    if (renamed_.count(op.get())) return;
    auto copy = std::make_shared<OperationNode>(*op);
    for (auto& shape : copy->result_shapes) shape = filtered(shape, kept_dimensions(shape));
    if (op->kind == OperationNode::Kind::kCompute) rewrite_body(*op, *copy);
    const bool changed = copy->result_shapes[0].size() != op->result_shapes[0].size() ||
                         copy->reduce_axes.size() != op->reduce_axes.size() || !copy->body.same_as(op->body);
    if (changed) renamed_[op.get()] = copy;
  }

  void rewrite_body(const OperationNode& op, OperationNode& copy) {
    copy.axes = filtered(op.axes, kept_dimensions(op.result_shapes[0]));
    copy.reduce_axes = kept_reduce_axes(op.reduce_axes);
    Bindings bindings;
    bind_others(op.axes, copy.axes, bindings);
    bind_others(op.reduce_axes, copy.reduce_axes, bindings);
    Expr body = BodyRewriter(renamed_).mutate(substitute(op.body, bindings));
    if (bindings.empty()) {
      copy.body = body;
      return;
    }
    // Places that are constants now prove conditions of padding, which rules ask for.
    RangeMap ranges;
    for (const auto* axes : {&copy.axes, &copy.reduce_axes}) {
      for (const IterVarPtr& axis : *axes) ranges[axis->var.as<VarNode>()] = {axis->low, axis->extent};
    }
    copy.body = simplify(body, ranges);
  }

  std::map<const OperationNode*, Operation> renamed_;
};

}  // namespace

KernelTensors without_unit_axes(const KernelTensors& kernel) {
  return UnitAxes().run(kernel);
}

}  // namespace gantry
