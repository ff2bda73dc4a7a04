// nn.conv, every window by itself, with weights in blocks of outputs (host/targets/cpu/rule_product.cpp).
#include "host/costs/conv_model.h"
#include "host/forms/conv_case.h"
#include "host/forms/product.h"
#include "host/forms/ranges.h"
#include "host/support/divide.h"

namespace gantry::forms {
namespace {

constexpr Knob kKnobs[] = {
    {"block", 0, "outputs a block of weights: whole vectors",
     [](const FormCase& given) {
       return whole_vectors(given, packed_bytes(given.decision, given.question.node.inputs[0]->type.dtype));
     }},
    {"half", 0, "weights and data are rounded to f16"},
    {"plain_data", 0, "images are read as the model has them, not channels-last"},
    kMergedGroups,
    kPhases,
    kTileRows,
};

Misfit misfit(const FormCase& given) {
  if (Misfit no = unfit_case(given)) return no;
  if (Misfit no = unfit_half(given, given.question.node.inputs[0]->type.dtype)) return no;
  const bool grouped = decided_case(given).attrs.groups != 1;
  if (given.decision.knob("plain_data") != 0 && grouped) return "plain_data is for convolutions without groups";
  if (given.decision.knob("plain_data") != 0 && given.decision.knob("phases") != 0)
    return "plain_data is for convolutions that are not computed as phases, whose images are channels-last";
  return std::nullopt;
}

/// As the rule has it.
costs::ProductWork work_of(const FormCase& given) {
  const ConvCase conv = decided_case(given);
  costs::ProductWork work =
      costs::direct_work(conv.attrs, conv.data, conv.result, given.decision.knob("half") != 0);
  // A group's weights are packed by themselves.
  if (work.whole_blocks) work.channels = round_up(work.channels, given.decision.knob("block"));
  work.given_rows = static_cast<int>(given.decision.knob("rows"));
  return work;
}

Misfit refused(const FormCase& given) {
  const costs::ProductWork work = work_of(given);
  return misfit_of(costs::unfit_rows(
      work.given_rows,
      costs::choose_product_tile(work, given.context.target.machine, given.decision.knob("block"))));
}

Misfit hopeless(const FormCase& given) {
  return hopeless_block(
      costs::has_tile(work_of(given), given.context.target.machine, given.decision.knob("block")));
}

FormedNode apply(const FormCase& given, WeightPacker& packer) {
  auto attrs = formed_attrs(given, ConvAlgorithm::kDirect);
  Value* packed = packer.conv(merged_weight(given, packer), *attrs);
  return formed_conv(given, attrs, product_weight(given.decision, packed, packer));
}

}  // namespace

Bid direct_bid(const ConvCase& conv, const FormContext& context) {
  const MachineModel& machine = context.target.machine;
  ConvAttrs attrs = conv.attrs;
  attrs.form.algorithm = ConvAlgorithm::kDirect;
  const bool half = costs::prefers_half(attrs, conv.data, conv.result, machine);
  const ProductType& type = product_type(half ? "f16" : "f32");
  const int64_t block =
      costs::choose_product_tile(costs::direct_work(attrs, conv.data, conv.result, half), machine)
          .channel_block();
  Bid bid{.decision = {"direct", {}},
          .cycles = costs::predicted_direct_cycles(attrs, conv.data, conv.result, machine),
          .error = error_of(type, depth_of(conv))};
  bid.decision.set("block", fitting_block(context, block, attrs.channels / attrs.groups, depth_of(conv)));
  set_product(bid.decision, type);
  return bid;
}

extern const Form conv_direct_form{
    .name = "direct",
    .devices = Devices::kCpus,
    .knobs = kKnobs,
    .possible = is_product_conv,
    .misfit = misfit,
    .refused = refused,
    .hopeless = hopeless,
    .bids =
        [](const FormQuestion& question, const FormContext& context) {
          return bids_of_cases(question, context, [](const ConvCase& conv, const FormContext& on) {
            std::vector<Bid> bids{direct_bid(conv, on)};
            ConvAttrs attrs = conv.attrs;
            attrs.form.algorithm = ConvAlgorithm::kDirect;
            if (!attrs.form.plain_data || !costs::prefers_plain_data(attrs, conv.data, on.target.machine))
              return bids;
            bids.insert(bids.begin(), bids.front());
            bids.front().decision.set("plain_data", 1);
            return bids;
          });
        },
    .orders =
        [](const FormCase& given) {
          NodeOrders orders = conv_orders(given, false);
          if (given.decision.knob("plain_data") != 0) orders.data = ImageOrder::kModel;
          return orders;
        },
    .apply = apply,
    .made = [](const Node& node, const Decision& by) { return is_made_with(node, by, ConvAlgorithm::kDirect); },
};

}  // namespace gantry::forms
