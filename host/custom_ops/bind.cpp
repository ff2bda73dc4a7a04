#include <span>

#include "host/custom_ops/custom_ops.h"
#include "host/ops/custom.h"
#include "host/ops/support.h"
#include "host/support/error.h"

namespace gantry {
namespace {

/// Of a text that was written by hand: the kernel takes what is listed to be there.
void expect_counts(const Node& node, const std::string& who, const CustomOp& op) {
  const size_t inputs = op.signature.inputs.size(), outputs = op.signature.outputs.size();
  if (node.inputs.size() == inputs && node.results.size() == outputs) return;
  user_error("node {} calls the custom op {} with {} inputs for {} results, and {} lists {} and {}", who, op.full_name(),
             node.inputs.size(), node.results.size(), op.source, inputs, outputs);
}

std::shared_ptr<const CustomKernel> kernel_of(const Node& node, const CustomAttrs& attrs,
                                              const CustomOps* ops) {
  const std::string who = ops::origin_of(node);
  bool known = false;
  for (const CustomOp& op : ops == nullptr ? std::span<const CustomOp>() : std::span(ops->all())) {
    if (op.kernel == nullptr || op.full_name() != attrs.op) continue;
    if (short_digest(*op.kernel) == attrs.kernel) {
      expect_counts(node, who, op);
      return op.kernel;
    }
    known = true;
  }
  if (!known)
    user_error(
        "node {} calls the custom op {}: give the folder or library that has its kernel with --custom-ops",
        who, attrs.op);
  user_error(
      "node {} calls the custom op {} with the code {}, and what --custom-ops gives is other code: write the "
      "text "
      "anew, or give the code that it was written with",
      who, attrs.op, attrs.kernel);
}

void bind_function(Function& function, const CustomOps* ops) {
  for (Node* node : function.nodes()) {
    for (const auto& body : node->bodies) bind_function(*body, ops);
    const CustomAttrs* attrs = node->match(op::custom);
    if (attrs == nullptr || attrs->code != nullptr) continue;
    auto bound = std::make_shared<CustomAttrs>(*attrs);
    bound->code = kernel_of(*node, *attrs, ops);
    node->attrs = std::move(bound);
  }
}

}  // namespace

void bind_custom_ops(Graph& graph, const CustomOps* ops) {
  bind_function(graph.main, ops);
}

}  // namespace gantry
