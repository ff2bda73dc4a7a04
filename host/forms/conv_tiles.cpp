// nn.conv on tile units (host/ops/tiles.h, host/targets/cpu/rule_tiles.cpp).
#include "host/costs/tile_costs.h"
#include "host/costs/tile_policy.h"
#include "host/forms/conv_case.h"
#include "host/forms/exact_weights.h"
#include "host/forms/product.h"
#include "host/forms/ranges.h"
#include "host/machine/cpu_features.h"
#include "host/ops/tiles.h"

namespace gantry::forms {
namespace {

constexpr Knob kKnobs[] = {{"parts", 0, "bf16 parts of each weight", tile_parts_range}, kPhases, kBlockRows, kBlockColumns,
                           kOwnRows};

std::vector<Bid> tile_bids(const ConvCase& conv, const FormContext& context) {
  const int64_t asked = costs::tile_parts(context.target);
  if (asked == 0 || !conv.constant_weight || !costs::fits_tile_unit(conv.attrs, conv.data, conv.result))
    return {};
  const int64_t parts = parts_in_network(asked, kind_of(conv.attrs, conv.data, conv.result), context);
  ConvAttrs attrs = conv.attrs;
  attrs.form.tile_unit = *tile_unit(context.target);
  std::vector<Bid> bids;
  for (int64_t some = asked; some <= (asked == 2 ? 3 : asked); ++some) {
    attrs.form.tile_parts = some;
    Bid bid{.decision = {"tiles", {{"parts", some}}},
            .cycles = costs::predicted_tile_cycles(attrs, conv.data, conv.result, context.target.machine),
            .error = error_of(tile_unit_product(attrs.form.tile_unit, some), depth_of(conv)),
            .promise = costs::other_slack(attrs.form.tile_unit),
            .on_tiles = true,
            .claim = costs::asks_for_parts(context.target) ? 1 : 0};
    // A third part for the network's sake is no reason to leave the unit.
    if (some > asked) bid.weighed = bids.front().cycles;
    if (some != parts)
      bid.no = why_not_in_network(some);
    else if (!small_in_parts(context, attrs.channels, depth_of(conv), some))
      bid.no = "its weights are larger than the model's";
    bids.push_back(std::move(bid));
  }
  return bids;
}

Misfit misfit(const FormCase& given) {
  if (Misfit no = unfit_case(given)) return no;
  const ConvCase conv = decided_case(given);
  if (!conv.constant_weight) return "form tiles is for constant weights";
  if (!costs::fits_tile_unit(conv.attrs, conv.data, conv.result))
    return "form tiles is for f32 images of known size that have elements, without groups";
  return unfit_tile_unit(given.context);
}

FormedNode apply(const FormCase& given, WeightPacker& packer) {
  auto attrs = formed_attrs(given, ConvAlgorithm::kTiles);
  attrs->form.tile_fold_width = folds_width(*attrs, decided_case(given).data.shape[1].value());
  return formed_conv(given, attrs, packer.tiles(merged_weight(given, packer), *attrs));
}

}  // namespace

extern const Form conv_tiles_form{
    .name = "tiles",
    .devices = Devices::kCpus,
    .knobs = kKnobs,
    .possible = is_product_conv,
    .misfit = misfit,
    .asks_rule = Devices::kCpus,
    .bids = [](const FormQuestion& question,
               const FormContext& context) { return bids_of_cases(question, context, tile_bids); },
    .orders = [](const FormCase& given) { return conv_orders(given, false); },
    .apply = apply,
    .made = [](const Node& node, const Decision& by) { return is_made_with(node, by, ConvAlgorithm::kTiles); },
};

}  // namespace gantry::forms
