// A concatenation of many parts becomes one of concatenations, where one kernel cannot well be made of it:
//  - where not all extents are known. It compares each index with where every part begins, which are sums of
//  all
//    extents before it: code that grows by the square of the parts, and the time of compiling it by more;
//  - on a GPU, of more parts than a kernel there has parameters for (host/passes/place_devices.h), but not of
//  strings,
//    which the CPU beside it moves.
//
//   concatenate(%a, …, %p, %q)  =>  concatenate(concatenate(%a, …, %h), concatenate(%i, …, %p), %q)
#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include "host/ops/movement.h"
#include "host/ops/op.h"
#include "host/passes/passes.h"
#include "host/passes/rewriter.h"

namespace gantry {
namespace {

/// Of one kernel. Each level of a tree reads and writes all elements again. On a GPU what is fused with it has
/// parameters of its own.
constexpr size_t kMostOpenParts = 16, kMostPartsOnGpu = 256;

size_t most_parts(const Node& concatenation, const PassContext& context) {
  const auto axis = static_cast<size_t>(concatenation.attrs_as<AxisAttrs>().axis);
  const auto is_open = [&](const Value* part) { return !part->type.shape[axis].constant(); };
  if (std::ranges::any_of(concatenation.inputs, is_open)) return kMostOpenParts;
  const bool on_gpu = context.for_gpu && concatenation.result()->type.dtype != DType::kString;
  return on_gpu ? kMostPartsOnGpu : std::numeric_limits<size_t>::max();
}

/// Each `most` of the parts as one.
std::vector<Value*> joined(const Rewriter& rewriter, const Node& node, const std::vector<Value*>& parts,
                           size_t most) {
  std::vector<Value*> groups;
  for (size_t begin = 0; begin < parts.size(); begin += most) {
    const size_t end = std::min(begin + most, parts.size());
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
    if (!node->is(op::concatenate)) continue;
    const size_t most = most_parts(*node, context);
    std::vector<Value*> parts = node->inputs;
    if (parts.size() <= most) continue;
    while (parts.size() > 1) parts = joined(rewriter, *node, parts, most);
    rewriter.replace(node->result(), parts[0]);
  }
  remove_dead_nodes(graph.main);  // no dead_code follows before kernels are made
}

}  // namespace

extern const Pass split_wide_concatenations_pass{
    .name = "split_wide_concatenations",
    .purpose = "concatenations of many parts become concatenations of concatenations",
    .run = split_wide_concatenations,
};

}  // namespace gantry
