#include "host/targets/cpu/sum_of_parts.h"

#include "host/targets/common/analysis.h"
#include "host/tensor/simplify.h"

namespace gantry::cpu {

Tensor sum_of_parts(const OperationNode& op, int64_t parts) {
  const auto* root = op.body.as<ReduceNode>();
  const IterVarPtr& whole = op.reduce_axes.front();
  const int64_t extent = *analysis::constant_extent(whole->extent) / parts;
  Tensor total;
  for (int64_t p = 0; p < parts; ++p) {
    auto k = reduce_axis(0, extent, "k");
    auto part = [&](const std::vector<Expr>& index) {
      std::vector<std::pair<const VarNode*, Expr>> bindings{{whole->var.as<VarNode>(), k->var + p * extent}};
      for (size_t i = 0; i < index.size(); ++i)
        bindings.emplace_back(op.axes[i]->var.as<VarNode>(), index[i]);
      return sum(substitute(root->value, bindings), {k});
    };
    Tensor product = compute(op.result_shapes[0], part, op.name, op.role);
    const Tensor before = total;
    auto add = [&](const std::vector<Expr>& i) { return before ? before(i) + product(i) : product(i); };
    total =
        compute(op.result_shapes[0], add, op.name + "_sum", p + 1 < parts ? Role::kSumSoFar : Role::kNone);
  }
  return total;
}

Tensor partial_sums(const OperationNode& op, int64_t parts, const std::string& name, Role role) {
  const auto* root = op.body.as<ReduceNode>();
  const IterVarPtr& whole = op.reduce_axes.front();
  const int64_t length = *analysis::constant_extent(simplify(whole->extent)) / parts;
  std::vector<Expr> shape{Expr(parts)};
  shape.insert(shape.end(), op.result_shapes[0].begin(), op.result_shapes[0].end());
  auto part = [&](const std::vector<Expr>& index) {
    std::vector<std::pair<const VarNode*, Expr>> bindings;
    std::vector<IterVarPtr> reduced;
    for (const IterVarPtr& axis : op.reduce_axes) {
      const Expr extent = axis == whole ? Expr(length) : axis->extent;
      reduced.push_back(reduce_axis(0, extent, axis->var.as<VarNode>()->name));
      const Expr& k = reduced.back()->var;
      bindings.emplace_back(axis->var.as<VarNode>(), axis == whole ? index[0] * Expr(length) + k : k);
    }
    for (size_t i = 1; i < index.size(); ++i)
      bindings.emplace_back(op.axes[i - 1]->var.as<VarNode>(), index[i]);
    return sum(substitute(root->value, bindings), reduced);
  };
  return compute(shape, part, name, role);
}

}  // namespace gantry::cpu
