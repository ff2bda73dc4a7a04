// The graph passes. Each has a file of its own; the driver lists them in order.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "host/graph/graph.h"

namespace gantry {

/// Inference forms: batch_norm -> multiply and add of constants; dropout and identity -> nothing.
///   %1 = nn.batch_norm(%0, @s, @b, @m, @v)   =>   %1 = multiply(%0, @a); %2 = add(%1, @c)
void simplify_inference(Graph& graph);

/// Nodes whose inputs are all constant (or that have none) are evaluated; results larger than `max_growth` times
/// their inputs plus 64 MiB stay unless something needs them constant.
void fold_constant(Graph& graph);

/// Same op, attributes and inputs: one node.
void eliminate_common_subexpr(Graph& graph);

/// Drops nodes and constants whose results nothing uses.
void dead_code(Graph& graph);

/// Groups nodes into fused ops by their fusion classes. A group has one anchor at most:
///  - elementwise, broadcast and injective nodes join any such neighbour;
///  - elementwise and broadcast nodes join the out_elementwise_fusable node that feeds them
///        (convolution + bias + activation + residual addition);
///  - elementwise, broadcast and injective producers join the reduction that they feed;
///  - opaque nodes and views stay alone.
/// A node joins only if every path from it to its post-dominator stays in the group and nothing outside reads an
/// inner value. After it, every node of main is a `fused` op with one body, an opaque op, or a view.
/// (Without `enable`, every node gets a group of its own.)
void fuse_ops(Graph& graph, bool enable = true);

/// Memory plan of a function in which every node is a kernel or a view.
struct MemoryPlan {
  struct Slot {
    Dim offset;  ///< bytes in the workspace, 64-byte aligned
    Dim bytes;
  };
  /// Values that live in the workspace (not parameters, constants or outputs). Views share their input's slot.
  std::map<const Value*, Slot> slots;
  /// Scratch of each node, in the order asked for.
  std::map<const Node*, std::vector<Slot>> scratch;
  Dim workspace_bytes;
};
/// Places values so that those alive at once do not overlap. `scratch_bytes` gives each node's scratch buffers,
/// alive while it runs. Static sizes: best fit by decreasing size over lifetimes; symbolic ones share slots whose
/// size is the maximum of their users'.
MemoryPlan plan_memory(const Function& function,
                       const std::function<std::vector<Dim>(const Node&)>& scratch_bytes);

}  // namespace gantry
