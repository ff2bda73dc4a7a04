// nn.conv with a group for every channel, channels-last: along vectors of channels (host/targets/cpu/rule_windows.cpp).
#include "host/forms/conv_case.h"
#include "host/targets/cpu/conv_model.h"

namespace gantry::forms {
namespace {

bool is_depthwise_conv(const FormQuestion& question, const FormContext& context) {
  return is_packable_conv(question, context) &&
         is_depthwise(question.node.attrs_as<ConvAttrs>(), question.node.inputs[0]->type);
}

std::vector<Bid> bids(const FormQuestion& question, const FormContext& context) {
  Bid bid{.decision = {"depthwise", {}}};
  const bool plain_pays =
      !context.target.for_gpu() && cpu::prefers_plain_depthwise(question.node.attrs_as<ConvAttrs>(),
                                                                question.node.inputs[0]->type, context.target.machine);
  if (plain_pays && question.plain_data) bid.no = "images that lie as the model has them are estimated to take less so";
  return {bid};
}

FormedNode apply(const FormCase& given, WeightPacker& packer) {
  auto attrs = std::make_shared<ConvAttrs>(given.question.node.attrs_as<ConvAttrs>());
  attrs->channels_last = true;
  attrs->depthwise_packed = true;
  return {.attrs = attrs, .weights = {packer.depthwise(given.question.weight)}, .data_last = true, .result_last = true};
}

}  // namespace

extern const Form depthwise_form{
    .name = "depthwise",
    .possible = is_depthwise_conv,
    .bids = bids,
    .apply = apply,
};

}  // namespace gantry::forms
