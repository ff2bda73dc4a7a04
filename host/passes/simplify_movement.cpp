// Data are moved once where they were moved twice.
#include <algorithm>
#include <set>

#include "host/passes/canonicalize.h"
#include "host/passes/passes.h"
#include "host/passes/reshaper.h"

namespace gantry {
namespace {

const Node* reshape_of(const Value* value) {
  const Node* node = value->producer;
  return node != nullptr && node->op->is_view && node->inputs.size() == 1 ? node : nullptr;
}

/// What a node that moves the result of another one like it can be replaced by; null if nothing.
Value* shortcut(Function& function, const Node& node) {
  if (const Node* before = reshape_of(node.result()) ? reshape_of(node.inputs[0]) : nullptr) {
    Value* x = before->inputs[0];
    if (x->type.dtype != node.result()->type.dtype) return nullptr;
    return Reshaper(function, node).reshape(x, node.result()->type.shape);
  }
  const Node* before = node.op->name == "transpose" ? producer_of(node.inputs[0], "transpose") : nullptr;
  if (before == nullptr) return nullptr;
  const auto &first = before->attrs_as<TransposeAttrs>().axes, &then = node.attrs_as<TransposeAttrs>().axes;
  auto both = std::make_shared<TransposeAttrs>();
  for (int64_t axis : then) both->axes.push_back(first[static_cast<size_t>(axis)]);
  if (std::ranges::is_sorted(both->axes)) return before->inputs[0];
  return Reshaper(function, node).add("transpose", both, {before->inputs[0]});
}

}  // namespace

void simplify_movement(Graph& graph) {
  Function& main = graph.main;
  const std::set<const Value*> outputs(main.outputs.begin(), main.outputs.end());
  const std::vector<Node*> nodes = main.nodes();
  for (Node* node : nodes) {
    if (node->results.size() != 1 || node->inputs.size() != 1 || outputs.count(node->result()) != 0) continue;
    if (Value* other = shortcut(main, *node)) main.replace_uses(node->result(), other);
  }
  dead_code(graph);
}

}  // namespace gantry
