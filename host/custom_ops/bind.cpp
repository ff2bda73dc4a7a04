#include <algorithm>

#include "host/custom_ops/custom_ops.h"
#include "host/ops/custom.h"
#include "host/ops/support.h"
#include "host/support/error.h"

namespace gantry {
namespace {

std::shared_ptr<const CustomKernel> kernel_of(const Node& node, const CustomAttrs& attrs,
                                              const CustomOps* ops) {
  const std::string who = ops::origin_of(node);
  bool known = false;
  for (const CustomOp& op : ops == nullptr ? std::vector<CustomOp>() : ops->all()) {
    if (op.kernel == nullptr || op.full_name() != attrs.op) continue;
    if (short_digest(*op.kernel) == attrs.kernel) return op.kernel;
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
