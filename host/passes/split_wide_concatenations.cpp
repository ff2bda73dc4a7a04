// A concatenation of many parts of which not all extents are known becomes one of concatenations. Its kernel
// compares each index with where every part begins, which are sums of all extents before it: code that grows
// by the square of the parts, and the time of compiling it by more.
//
//   concatenate(%a, …, %p, %q)  =>  concatenate(concatenate(%a, …, %h), concatenate(%i, …, %p), %q)
#include <algorithm>
#include <memory>
#include <vector>

#include "host/ops/movement.h"
#include "host/ops/op.h"
#include "host/passes/passes.h"
#include "host/passes/rewriter.h"

namespace gantry {
namespace {

/// Of one kernel. Each level of a tree reads and writes all elements again.
constexpr size_t kMostParts = 16;

bool is_wide(const Node& node) {
  const auto* attrs = node.match(op::concatenate);
  if (attrs == nullptr || node.inputs.size() <= kMostParts) return false;
  const auto axis = static_cast<size_t>(attrs->axis);
  return std::ranges::any_of(node.inputs,
                             [&](const Value* part) { return !part->type.shape[axis].constant(); });
}

std::vector<Value*> joined(const Rewriter& rewriter, const Node& node, const std::vector<Value*>& parts) {
  std::vector<Value*> groups;
  for (size_t begin = 0; begin < parts.size(); begin += kMostParts) {
    const size_t end = std::min(begin + kMostParts, parts.size());
    const std::vector<Value*> group(parts.begin() + static_cast<ptrdiff_t>(begin),
                                    parts.begin() + static_cast<ptrdiff_t>(end));
    const auto attrs = std::make_shared<AxisAttrs>(node.attrs_as<AxisAttrs>());
    groups.push_back(group.size() == 1 ? group[0] : rewriter.before(node)(op::concatenate, group, attrs));
  }
  return groups;
}

void split_wide_concatenations(Graph& graph, PassContext& context) {
  const Rewriter rewriter(graph.main, context);
  for (Node* node : rewriter.nodes()) {
    if (!is_wide(*node)) continue;
    std::vector<Value*> parts = node->inputs;
    while (parts.size() > 1) parts = joined(rewriter, *node, parts);
    rewriter.replace(node->result(), parts[0]);
  }
  remove_dead_nodes(graph.main);  // no dead_code follows before kernels are made
}

}  // namespace

extern const Pass split_wide_concatenations_pass{
    .name = "split_wide_concatenations",
    .purpose = "concatenations of many parts of unknown extents become concatenations of concatenations",
    .run = split_wide_concatenations,
};

}  // namespace gantry
