#include "host/target/cpu/sum_of_parts.h"

#include "host/target/analysis.h"

namespace gantry::cpu {

Tensor sum_of_parts(const OperationNode& op, int64_t parts, const std::string& partial) {
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
    Tensor product = compute(op.result_shapes[0], part, op.name, op.tag);
    const Tensor before = total;
    auto add = [&](const std::vector<Expr>& i) { return before ? before(i) + product(i) : product(i); };
    total = compute(op.result_shapes[0], add, op.name + "_sum", p + 1 < parts ? partial : "");
  }
  return total;
}

}  // namespace gantry::cpu
