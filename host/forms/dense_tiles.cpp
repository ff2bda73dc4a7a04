// nn.dense on tile units (host/ops/tiles.h).
#include <optional>

#include "host/costs/tile_policy.h"
#include "host/forms/dense_case.h"
#include "host/forms/exact_weights.h"
#include "host/forms/product.h"
#include "host/forms/ranges.h"
#include "host/machine/cpu_features.h"

namespace gantry::forms {
namespace {

KnobRange parts_range(const FormCase& given) {
  return is_dense_of_integers(given.question) ? KnobRange{1, 1} : tile_parts_range(given);
}

constexpr Knob kKnobs[] = {
    {"parts", 0, "bf16 parts of each weight; of integers 1", parts_range},
    kBlockRows,
    kBlockColumns,
    kOwnRows,
    {"depth_parts", 0, "parts of the depth that are summed by themselves, then together", up_to<2>, true},
};

/// That multiplies what the node has, if the target and its precision have one.
std::optional<TileUnit> unit_for(const FormQuestion& question, const FormContext& context) {
  if (!is_dense_of_integers(question))
    return costs::tile_parts(context.target) > 0 ? tile_unit(context.target) : std::nullopt;
  const DenseCase dense = dense_case(question);
  const std::optional<TileUnit> unit = tile_unit(context.target, dense.weight);
  return unit && geometry_of(*unit).data() == dense.data.dtype ? unit : std::nullopt;
}

/// Exact, and for as long as the unit is there the only ones: other forms would widen every element.
std::vector<Bid> bids_of_integers(const FormQuestion& question, const FormContext& context) {
  const DenseCase dense = dense_case(question);
  const std::optional<TileUnit> unit = unit_for(question, context);
  if (!unit || !dense.known() || !costs::may_have_elements(dense.data)) return {};
  return {{.decision = {"tiles", {{"parts", 1}}},
           .cycles =
               costs::predicted_tile_cycles(dense.data, dense.attrs.units, *unit, 1, context.target.machine),
           .error = error_of(tile_unit_product(*unit, 1), dense.depth()),
           .on_tiles = true,
           .claim = 1}};
}

std::vector<Bid> bids(const FormQuestion& question, const FormContext& context) {
  if (is_dense_of_integers(question)) return bids_of_integers(question, context);
  const DenseCase dense = dense_case(question);
  const int64_t asked = costs::tile_parts(context.target);
  if (asked == 0 || !dense.known() || !costs::may_have_elements(dense.data)) return {};
  const int64_t units = dense.attrs.units;
  const int64_t wanted = costs::dense_tile_parts(dense.data, units, context.target);
  const int64_t parts = parts_in_network(wanted, kind_of(dense.data, units), context);
  std::vector<Bid> bids;
  for (int64_t some = asked; some <= (asked == 2 ? 3 : asked); ++some) {
    Bid bid{.decision = {"tiles", {{"parts", some}}},
            .cycles = costs::predicted_tile_cycles(dense.data, units, *tile_unit(context.target), some,
                                                   context.target.machine),
            .error = error_of(tile_unit_product(*tile_unit(context.target), some), dense.depth()),
            .on_tiles = true,
            .claim = 1};
    if (wanted == 0)
      bid.no = "multiply-adds are estimated to take less";
    else if (some != parts)
      bid.no = why_not_in_network(some);
    else if (!small_in_parts(context, units, dense.depth(), some))
      bid.no = "its weights are larger than the model's";
    bids.push_back(std::move(bid));
  }
  return bids;
}

Misfit misfit(const FormCase& given) {
  const DenseCase dense = dense_case(given.question);
  if (!dense.known()) return "form tiles is for f32 of known depth";
  if (!costs::may_have_elements(dense.data)) return "form tiles is for data that have elements";
  if (!is_dense_of_integers(given.question)) return unfit_tile_unit(given.context);
  return unit_for(given.question, given.context)
             ? Misfit()
             : "form tiles of integers is for targets that multiply these";
}

FormedNode apply(const FormCase& given, WeightPacker& packer) {
  auto attrs = std::make_shared<DenseAttrs>(dense_case(given.question).attrs);
  attrs->form.tile_parts = given.decision.knob("parts");
  attrs->form.tile_unit = *unit_for(given.question, given.context);
  return {.attrs = attrs, .weights = {packer.tiles(given.question.weight, *attrs)}};
}

}  // namespace

extern const Form dense_tiles_form{
    .name = "tiles",
    .devices = Devices::kCpus,
    .knobs = kKnobs,
    .possible =
        [](const FormQuestion& question, const FormContext& context) {
          return is_dense(question, context) || is_dense_of_integers(question);
        },
    .misfit = misfit,
    .asks_rule = Devices::kCpus,
    .bids = bids,
    .apply = apply,
    .made =
        [](const Node& node, const Decision& by) {
          const DenseForm& form = node.attrs_as<DenseAttrs>().form;
          return form.on_tiles() && form.tile_parts == by.knob("parts");
        },
};

}  // namespace gantry::forms
