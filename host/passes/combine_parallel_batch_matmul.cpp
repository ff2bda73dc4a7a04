#include "host/ops/dense.h"
#include "host/passes/combine_parallel.h"
#include "host/passes/passes.h"

namespace gantry {
namespace {

/// Of the data's product with constant matrices, columns lie side by side; of constant matrices' with the data, rows.
std::optional<ParallelProduct> match_matmul(const Node& node) {
  const auto* attrs = node.match(op::matmul);
  if (attrs == nullptr) return std::nullopt;
  const TensorType &a = node.inputs[0]->type, &b = node.inputs[1]->type;
  const size_t rank = node.result()->type.shape.size();
  if (a.shape.size() < 2 || b.shape.size() < 2 || rank < 3) return std::nullopt;
  const size_t a_rank = a.shape.size(), b_rank = b.shape.size();
  if (!node.inputs[0]->is_constant()) {
    return ParallelProduct{.data = 0,
                           .weight = 1,
                           .weight_axis = attrs->transpose_b ? b_rank - 2 : b_rank - 1,
                           .result_axis = rank - 1};
  }
  return ParallelProduct{.data = 1,
                         .weight = 0,
                         .weight_axis = attrs->transpose_a ? a_rank - 1 : a_rank - 2,
                         .result_axis = rank - 2};
}

std::shared_ptr<const Attrs> same_attrs(const Node& node, int64_t) {
  return node.attrs;
}

}  // namespace

void combine_parallel_batch_matmul(Graph& graph, PassContext& context) {
  combine_parallel(graph, context, {match_matmul, same_attrs});
}

extern const Pass combine_parallel_batch_matmul_pass{
    .name = "combine_parallel_batch_matmul",
    .purpose = "batched products of the same data become one, where asked for",
    .after = {"alter_layout"},
    .when = to_combine_parallel,
    .run = combine_parallel_batch_matmul,
};

}  // namespace gantry
