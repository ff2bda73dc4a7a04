// nn.conv with a group for every channel, channels-last: along vectors of channels (host/targets/cpu/rule_windows.cpp).
#include "host/costs/conv_model.h"
#include "host/costs/conversion_cost.h"
#include "host/forms/conv_case.h"

namespace gantry::forms {
namespace {

bool is_depthwise_conv(const FormQuestion& question, const FormContext& context) {
  return is_packable_conv(question, context) &&
         is_depthwise(question.node.attrs_as<ConvAttrs>(), question.node.inputs[0]->type);
}

/// What is known of the plain form is on which side of two conversions it lies
/// (costs::prefers_plain_depthwise()), beyond the time that both take: taken to be in the middle between
/// nothing and both, or as far beyond.
std::vector<Bid> bids(const FormQuestion& question, const FormContext& context) {
  std::vector<Bid> bids{{.decision = {"depthwise", {}}, .weighed = 0}};
  const Target& target = context.target;
  if (target.for_gpu() || !question.plain_data) return bids;
  const TensorType &data = question.node.inputs[0]->type, &result = question.node.result()->type;
  const double both = costs::conversion_cost(data, target) + costs::conversion_cost(result, target);
  const bool pays = costs::prefers_plain_depthwise(question.node.attrs_as<ConvAttrs>(), data, target.machine);
  bids.push_back({.decision = {"plain", {}}, .weighed = (pays ? 0.5 : 1.5) * both});
  return bids;
}

FormedNode apply(const FormCase& given, WeightPacker& packer) {
  auto attrs = std::make_shared<ConvAttrs>(given.question.node.attrs_as<ConvAttrs>());
  attrs->channels_last = true;
  attrs->form.depthwise_packed = true;
  return {.attrs = attrs, .weights = {packer.depthwise(given.question.weight)}};
}

}  // namespace

extern const Form depthwise_form{
    .name = "depthwise",
    .possible = is_depthwise_conv,
    .bids = bids,
    .orders = [](const FormCase& given) { return conv_orders(given, false); },
    .apply = apply,
    .made = [](const Node& node, const Decision&) { return node.attrs_as<ConvAttrs>().form.depthwise_packed; },
};

}  // namespace gantry::forms
