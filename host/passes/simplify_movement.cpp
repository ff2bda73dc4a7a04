// Data are moved once where they were moved twice.
#include <algorithm>
#include <set>

#include "host/ops/movement.h"
#include "host/passes/canonicalize.h"
#include "host/passes/layout_record.h"
#include "host/passes/passes.h"
#include "host/passes/rewriter.h"

namespace gantry {
namespace {

const Node* reshape_of(const Value* value) {
  const Node* node = value->producer;
  return node != nullptr && op_def(*node).is_view && node->inputs.size() == 1 ? node : nullptr;
}

/// What a node that moves the result of another one like it can be replaced by; null if nothing.
Value* shortcut(const Builder& build, const Node& node, LayoutRecord* record) {
  if (const Node* before = reshape_of(node.result()) ? reshape_of(node.inputs[0]) : nullptr) {
    Value* x = before->inputs[0];
    if (x->type.dtype != node.result()->type.dtype) return nullptr;
    return build.reshape(x, node.result()->type.shape);
  }
  const Node* before = node.is(op::transpose) ? producer_of(node.inputs[0], op::transpose) : nullptr;
  if (before == nullptr) return nullptr;
  const auto &first = before->attrs_as<TransposeAttrs>().axes, &then = node.attrs_as<TransposeAttrs>().axes;
  auto both = std::make_shared<TransposeAttrs>();
  for (int64_t axis : then) both->axes.push_back(first[static_cast<size_t>(axis)]);
  if (std::ranges::is_sorted(both->axes)) return before->inputs[0];
  Value* made = build(op::transpose, {before->inputs[0]}, both);
  if (record != nullptr) record->merge(*before, node, *made->producer);
  return made;
}

}  // namespace

void simplify_movement(Graph& graph, PassContext& context) {
  const Rewriter rewriter(graph.main, context);
  for (Node* node : rewriter.nodes()) {
    if (node->results.size() != 1 || node->inputs.size() != 1 || graph.main.is_output(node->result())) continue;
    if (Value* other = shortcut(rewriter.before(*node), *node, context.layouts))
      rewriter.replace(node->result(), other);
  }
  remove_dead_nodes(graph.main);
}

extern const Pass simplify_movement_pass{
    .name = "simplify_movement",
    .purpose = "neighbouring transpositions and reshapes become one, or nothing",
    .run = simplify_movement,
};

}  // namespace gantry
