#include "host/ops/dense.h"
#include "host/ops/movement.h"
#include "host/ops/op.h"
#include "host/passes/canonicalize.h"
#include "host/passes/passes.h"

namespace gantry {
namespace {

/// What `value` is the matrix transposition of; null where it is none, or one of other axes.
Value* transposed_matrix(const Value* value) {
  const Node* node = producer_of(value, "transpose");
  if (node == nullptr) return nullptr;
  const std::vector<int64_t>& axes = node->attrs_as<TransposeAttrs>().axes;
  const size_t rank = axes.size();
  if (rank < 2) return nullptr;
  for (size_t i = 0; i < rank; ++i) {
    const size_t from = i + 2 < rank ? i : 2 * rank - 3 - i;
    if (axes[i] != static_cast<int64_t>(from)) return nullptr;
  }
  return node->inputs[0];
}

}  // namespace

void fold_transposed_operands(Graph& graph) {
  Function& main = graph.main;
  const std::vector<Node*> nodes = main.nodes();
  for (Node* node : nodes) {
    const auto* given = dynamic_cast<const MatmulAttrs*>(node->attrs.get());
    if (given == nullptr || given->gemm) continue;
    Value* matrix = transposed_matrix(node->inputs[1]);
    if (matrix == nullptr) continue;
    auto attrs = std::make_shared<MatmulAttrs>(*given);
    attrs->transpose_b = !given->transpose_b;
    std::vector<Value*> inputs = node->inputs;
    inputs[1] = matrix;
    main.replace_uses(node->result(),
                      infer_and_add(main, node->op->name, attrs, inputs, node->origin, node)->result());
  }
  dead_code(graph);
}

}  // namespace gantry
