#include "host/ops/conv.h"
#include "host/passes/combine_parallel.h"
#include "host/passes/passes.h"

namespace gantry {
namespace {

/// The axis of the weight that output channels lie along, in whatever form it is (host/ops/conv.h); nothing where
/// weights of several convolutions do not follow each other.
std::optional<size_t> channel_axis_of_weight(const ConvAttrs& attrs) {
  const ConvForm& form = attrs.form;
  if (form.on_tiles()) return std::nullopt;
  if (form.weight_block > 0)
    return attrs.channels % form.weight_block == 0 ? std::optional<size_t>(0) : std::nullopt;
  if (winograd_tile(form.algorithm) > 0) return 2;
  return form.algorithm == ConvAlgorithm::kGemm ? 1 : 0;
}

std::optional<ParallelProduct> match_conv(const Node& node) {
  const auto* attrs = node.match(nn::conv);
  if (attrs == nullptr || attrs->groups != 1 || attrs->form.merged_groups != 1 ||
      attrs->form.depthwise_packed)
    return std::nullopt;
  const auto axis = channel_axis_of_weight(*attrs);
  if (!axis) return std::nullopt;
  const size_t channels = attrs->channels_last ? node.result()->type.shape.size() - 1 : 1;
  return ParallelProduct{.weight_axis = *axis, .result_axis = channels};
}

std::shared_ptr<const Attrs> widened_conv(const Node& node, int64_t channels) {
  auto attrs = std::make_shared<ConvAttrs>(node.attrs_as<ConvAttrs>());
  attrs->channels = channels;
  return attrs;
}

}  // namespace

void combine_parallel_conv2d(Graph& graph, PassContext& context) {
  combine_parallel(graph, context, {match_conv, widened_conv});
}

extern const Pass combine_parallel_conv2d_pass{
    .name = "combine_parallel_conv2d",
    .purpose = "convolutions of the same data become one, where asked for",
    .after = {"alter_layout"},
    .when = to_combine_parallel,
    .run = combine_parallel_conv2d,
};

}  // namespace gantry
