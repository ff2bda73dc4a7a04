#include "host/ops/op.h"
#include "host/passes/canonicalize.h"
#include "host/passes/passes.h"

namespace gantry {

const Node* producer_of(const Value* value, std::string_view op) {
  const Node* node = value != nullptr ? value->producer : nullptr;
  return node != nullptr && node->op->name == op ? node : nullptr;
}

void canonicalize_ops(Graph& graph) {
  expand_conv_transpose(graph.main);
  trim_windows(graph.main);
  split_max_windows(graph.main);
  make_whole_convolutions_dense(graph.main);
  merge_covered_axes(graph.main);
  drop_unit_windows(graph.main);
  recognize_layer_norm(graph.main);
  recognize_gelu(graph.main);
  dead_code(graph);
  move_elementwise_before_views(graph.main);
  merge_split_norm(graph.main);
  simplify_movement(graph);
}

}  // namespace gantry
