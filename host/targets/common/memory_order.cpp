#include "host/targets/common/memory_order.h"

#include "host/targets/common/analysis.h"

namespace gantry::analysis {
namespace {

class InlineAll : public ExprMutator {
 protected:
  Expr mutate_read(const ReadNode* node, const Expr& self) override {
    Expr read = ExprMutator::mutate_read(node, self);
    const OperationNode& op = *node->op;
    if (!is_compute(op) || is_reduction(op)) return read;
    std::vector<std::pair<const VarNode*, Expr>> bindings;
    for (size_t i = 0; i < op.axes.size(); ++i)
      bindings.emplace_back(op.axes[i]->var.as<VarNode>(), read.as<ReadNode>()->indices[i]);
    return mutate(substitute(op.body, bindings));
  }
};

}  // namespace

Expr inline_all(const Expr& element) {
  return InlineAll().mutate(element);
}

bool contiguous_along(const Expr& element, const Expr& var) {
  bool contiguous = false;
  walk(element, [&](const Expr& node) {
    auto* read = node.as<ReadNode>();
    if (!read || read->indices.empty() || !mentions(read->indices.back(), var)) return;
    for (size_t i = 0; i + 1 < read->indices.size(); ++i) {
      if (mentions(read->indices[i], var)) return;
    }
    Expr next = substitute(read->indices.back(), {{var.as<VarNode>(), var + 1}});
    contiguous = contiguous || constant_extent(simplify(next - read->indices.back())) == 1;
  });
  return contiguous;
}

}  // namespace gantry::analysis
