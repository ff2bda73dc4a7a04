#include "host/ops/dense.h"
#include "host/passes/combine_parallel.h"
#include "host/passes/passes.h"

namespace gantry {
namespace {

// On tile registers, combine_projections joins those of an attention before their weights are packed.
std::optional<ParallelProduct> match_dense(const Node& node) {
  const auto* attrs = node.match(nn::dense);
  if (attrs == nullptr || attrs->form.on_tiles() || attrs->form.fixed_bits > 0) return std::nullopt;
  const size_t features = node.result()->type.shape.size() - 1;
  if (attrs->form.weight_block == 0) return ParallelProduct{.weight_axis = 1, .result_axis = features};
  if (attrs->units % attrs->form.weight_block != 0) return std::nullopt;
  return ParallelProduct{.weight_axis = 0, .result_axis = features};
}

std::shared_ptr<const Attrs> widened_dense(const Node& node, int64_t units) {
  auto attrs = std::make_shared<DenseAttrs>(node.attrs_as<DenseAttrs>());
  attrs->units = units;
  return attrs;
}

}  // namespace

void combine_parallel_dense(Graph& graph, PassContext& context) {
  combine_parallel(graph, context, {match_dense, widened_dense});
}

extern const Pass combine_parallel_dense_pass{
    .name = "combine_parallel_dense",
    .purpose = "on GPUs dense layers of the same data become one",
    .after = {"alter_layout"},
    .when = for_gpus,
    .run = combine_parallel_dense,
};

}  // namespace gantry
