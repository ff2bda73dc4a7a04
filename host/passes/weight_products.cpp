// Matrix products with weights that only folding made constant: dequantised, unpacked from few bits, tied and
// turned.
#include "host/ops/dense.h"
#include "host/ops/movement.h"
#include "host/passes/canonicalize.h"
#include "host/passes/rewriter.h"

namespace gantry {
namespace {

void make_dense(const Rewriter& rewriter, Node& node, bool transposed) {
  const Builder build = rewriter.before(node);
  Value* weight = node.inputs[1];
  if (transposed) {
    auto swap = std::make_shared<TransposeAttrs>();
    swap->axes = {1, 0};
    weight = build(op::transpose, {weight}, swap);
  }
  auto attrs = std::make_shared<DenseAttrs>();
  attrs->units = weight->type.shape[1].value();
  rewriter.replace(node.result(), build(nn::dense, {node.inputs[0], weight}, attrs));
}

}  // namespace

void make_weight_products_dense(Graph& graph, PassContext& context) {
  const Rewriter rewriter(graph.main, context);
  for (Node* node : rewriter.nodes()) {
    const auto* attrs = node->match(op::matmul);
    if (attrs == nullptr || attrs->form.gemm || attrs->transpose_a || node->inputs[0]->is_constant())
      continue;
    if (attrs->transpose_b && context.small) continue;  // the turned weight may be one more
    if (is_dense_weight(*node->inputs[1], attrs->transpose_b))
      make_dense(rewriter, *node, attrs->transpose_b);
  }
}

extern const Pass make_weight_products_dense_pass{
    .name = "make_weight_products_dense",
    .purpose = "matrix products with constant weights have one form",
    .run = make_weight_products_dense,
};

}  // namespace gantry
