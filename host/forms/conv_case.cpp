#include "host/forms/conv_case.h"

#include <fmt/format.h>

#include <algorithm>

#include "host/costs/conv_model.h"
#include "host/forms/choose.h"
#include "host/forms/product.h"
#include "host/graph/shape_guess.h"
#include "host/machine/cpu_features.h"
#include "host/ops/tiles.h"

namespace gantry::forms {
namespace {

constexpr ConvAlgorithm kWinograd[] = {ConvAlgorithm::kWinograd2, ConvAlgorithm::kWinograd4, ConvAlgorithm::kWinograd6};

void merge_groups(ConvAttrs& attrs, int64_t merged) {
  attrs.groups /= merged;
  attrs.form.merged_groups = merged;
}

bool is_constant(const FormQuestion& question) {
  return question.weight->is_constant();
}

/// Narrow groups waste vectors.
int64_t wanted_groups(const ConvCase& conv, const FormContext& context) {
  if (context.target.for_gpu() || context.small_weights || conv.attrs.groups == 1 || !conv.constant_weight ||
      conv.weight != DType::kF32)
    return 1;
  return costs::choose_merged_groups(conv.attrs, conv.data, conv.result, context.target.machine);
}

/// Channels-last, of the question's weight, with groups merged.
ConvCase case_of(const FormQuestion& question, const ConvAttrs& attrs, const TensorType& data, const TensorType& result,
                 int64_t merged) {
  ConvCase conv{.attrs = attrs,
                .data = data,
                .result = result,
                .weight = question.weight->type.dtype,
                .constant_weight = is_constant(question),
                .phases = {},
                .no = {}};
  merge_groups(conv.attrs, merged);
  conv.attrs.channels_last = true;
  return conv;
}

ConvCase whole_case(const FormQuestion& question, int64_t merged) {
  ConvCase conv = case_of(question, question.node.attrs_as<ConvAttrs>(), question.node.inputs[0]->type,
                          question.node.result()->type, merged);
  conv.attrs.form.plain_data = question.plain_data && conv.attrs.groups == 1;
  return conv;
}

/// What a question keeps of a convolution, made by who asks for it first.
struct KnownConv {
  std::optional<std::optional<DilationPhases>> phases;
  std::optional<std::vector<ConvCase>> cases;
};

KnownConv& known_of(const FormQuestion& question) {
  auto* known = std::any_cast<KnownConv>(&question.found);
  return known != nullptr ? *known : question.found.emplace<KnownConv>();
}

/// None of a convolution that has none.
const std::optional<DilationPhases>& phases_of(const FormQuestion& question) {
  std::optional<std::optional<DilationPhases>>& known = known_of(question).phases;
  if (!known)
    known.emplace(dilation_phases(question.node.attrs_as<ConvAttrs>(), question.node.inputs[0]->type,
                                  question.node.result()->type));
  return *known;
}

/// Of a convolution that has phases.
ConvCase phases_case(const FormQuestion& question, int64_t merged) {
  const DilationPhases& phases = phases_of(question).value();
  ConvCase conv = case_of(question, phases.attrs, phases.data, phases.result, merged);
  conv.phases = phases;
  return conv;
}

bool taken_by_tiles(const FormQuestion& question, const FormContext& context) {
  const FormQuestion whole{.node = question.node, .weight = question.weight, .plain_data = false, .may_split = false};
  const std::vector<Bid> bids = all_bids(whole, context);
  const Bid* best = best_of(bids);
  return best != nullptr && best->on_tiles;
}

/// Why the convolution of phases does not take less time than the whole, copies to and from them included; empty: it
/// does.
std::string unwanted_phases(const FormQuestion& question, const ConvCase& phases, const FormContext& context) {
  if (context.target.for_gpu() || context.small_weights || !phases.constant_weight)
    return "phases are for constant weights, on CPUs";
  if (taken_by_tiles(question, context)) return "tile units take the whole";
  std::vector<Bid> bids{direct_bid(phases, context)};
  for (const ConvAlgorithm algorithm : kWinograd) bids.push_back(winograd_bid(phases, algorithm, context));
  const Bid* best = best_of(bids);
  const auto copied = (phases.data.byte_size() + phases.result.byte_size()).constant();
  if (best == &bids.front() || !copied) return "phases are for Winograd's algorithms";
  // An estimate: the copy to the phases mostly is part of the transformation of the data. On Zen 5 copies of
  // pixels as wholes took 18 to 40 GB/s, read and written.
  constexpr double kCopiedBytesPerCycle = 8;
  const double cycles = *best->cycles + double(*copied) / kCopiedBytesPerCycle;
  const Bid direct = direct_bid(whole_case(question, 1), context);
  return cycles < best->promise * *direct.cycles ? "" : "copies to and from the phases take more than they save";
}

}  // namespace

bool is_depthwise(const ConvAttrs& attrs, const TensorType& data) {
  return attrs.groups > 1 && attrs.groups == attrs.channels && data.shape[1] == Dim(attrs.groups);
}

bool is_packable_conv(const FormQuestion& question, const FormContext& context) {
  const ConvAttrs* attrs = question.node.match(nn::conv);
  if (attrs == nullptr || !attrs->as_in_model()) return false;
  return is_constant(question) || (!context.target.for_gpu() && constant_shape(question.weight->type.shape).has_value());
}

bool is_product_conv(const FormQuestion& question, const FormContext& context) {
  return is_packable_conv(question, context) &&
         !is_depthwise(question.node.attrs_as<ConvAttrs>(), question.node.inputs[0]->type);
}

const std::vector<ConvCase>& conv_cases(const FormQuestion& question, const FormContext& context) {
  std::optional<std::vector<ConvCase>>& known = known_of(question).cases;
  if (known) return *known;
  std::vector<ConvCase> cases{whole_case(question, 1)};
  if (const int64_t merged = wanted_groups(cases[0], context); merged > 1) cases[0] = whole_case(question, merged);
  if (question.may_split && phases_of(question)) {
    ConvCase phases = phases_case(question, 1);
    phases.no = unwanted_phases(question, phases, context);
    merge_groups(phases.attrs, wanted_groups(phases, context));
    cases.push_back(std::move(phases));
  }
  return known.emplace(std::move(cases));
}

ConvCase decided_case(const FormCase& given) {
  const int64_t merged = given.decision.knob("merged_groups", 1);
  if (given.decision.knob("phases") == 0) return whole_case(given.question, merged);
  return phases_case(given.question, merged);
}

std::vector<Bid> bids_of_cases(const FormQuestion& question, const FormContext& context,
                               std::vector<Bid> (*of)(const ConvCase&, const FormContext&)) {
  // Before all that is proposed for the whole.
  constexpr int kPhasesClaim = 10;
  std::vector<Bid> bids;
  for (const ConvCase& conv : conv_cases(question, context)) {
    for (Bid& bid : of(conv, context)) {
      bid.decision.set("merged_groups", conv.attrs.form.merged_groups, 1);
      bid.decision.set("phases", conv.phases ? 1 : 0);
      if (conv.phases) bid.claim += kPhasesClaim;
      if (!conv.no.empty()) bid.no = conv.no;
      bids.push_back(std::move(bid));
    }
  }
  return bids;
}

KnobRange merged_groups_range(const FormCase& given) {
  return {1, given.question.node.attrs_as<ConvAttrs>().groups};
}

Misfit unfit_case(const FormCase& given) {
  const int64_t merged = given.decision.knob("merged_groups", 1);
  const int64_t groups = given.question.node.attrs_as<ConvAttrs>().groups;
  if (merged < 1 || groups % merged != 0)
    return fmt::format("merged_groups divides the {} groups, which {} does not", groups, merged);
  if (merged > 1 && (!is_constant(given.question) || given.question.weight->type.dtype != DType::kF32))
    return "merged_groups is for constant weights in f32";
  if (given.decision.knob("phases") == 0) return std::nullopt;
  if (!is_constant(given.question) || !phases_of(given.question))
    return "phases is for constant weights and images of known size, dilated alike along both axes";
  return std::nullopt;
}

std::shared_ptr<ConvAttrs> formed_attrs(const FormCase& given, ConvAlgorithm algorithm) {
  auto attrs = std::make_shared<ConvAttrs>(decided_case(given).attrs);
  ConvForm& form = attrs->form;
  form.algorithm = algorithm;
  form.plain_data = given.decision.knob("plain_data") != 0;
  form.weight_block = given.decision.knob("block");
  form.tile_parts = given.decision.knob("parts");
  if (form.on_tiles()) form.tile_unit = *tile_unit(given.context.target);
  return attrs;
}

namespace {

/// Whether they may be d * d phases of every image for some dilation d. False is certain.
bool may_be_phases(const Dim& images) {
  if (!images.is_constant()) return !images.is_symbol();
  constexpr int64_t kMostLookedAt = 1 << 20;
  const int64_t count = images.value();
  if (count == 0 || count > kMostLookedAt) return true;
  for (int64_t d = 2; d * d <= count; ++d) {
    if (count % (d * d) == 0) return true;
  }
  return false;
}

/// Whether the node may be a convolution of phases, as dilation_phases() has it: of one without dilation
/// there are none.
bool may_be_of_phases(const Node& node) {
  const ConvAttrs& attrs = node.attrs_as<ConvAttrs>();
  const auto is_one = [](int64_t step) { return step == 1; };
  return attrs.spatial_rank() == 2 && std::ranges::all_of(attrs.dilations, is_one) &&
         std::ranges::all_of(attrs.strides, is_one) &&
         std::ranges::all_of(attrs.padding, [](const Dim& padding) { return padding == Dim(0); }) &&
         may_be_phases(node.inputs[0]->type.shape[0]);
}

}  // namespace

bool is_made_with(const Node& node, const Decision& decision, ConvAlgorithm algorithm) {
  const ConvAttrs& attrs = node.attrs_as<ConvAttrs>();
  const ConvForm& form = attrs.form;
  if (decision.knob("phases") != 0 && !may_be_of_phases(node)) return false;
  if (!form.on_tiles() && has_half_weights(node) != (decision.knob("half") != 0)) return false;
  return form.algorithm == algorithm && !form.depthwise_packed && form.plain_data == (decision.knob("plain_data") != 0) &&
         form.weight_block == decision.knob("block") && form.tile_parts == decision.knob("parts") &&
         form.merged_groups == decision.knob("merged_groups", 1);
}

Value* merged_weight(const FormCase& given, WeightPacker& packer) {
  Value* weight = given.question.weight;
  const int64_t merged = given.decision.knob("merged_groups", 1);
  if (merged == 1) return weight;
  const int64_t groups = given.question.node.attrs_as<ConvAttrs>().groups;
  return packer.constant(weight->name, merged_group_weight(*weight->constant, groups, merged));
}

FormedNode formed_conv(const FormCase& given, std::shared_ptr<ConvAttrs> attrs, Value* packed) {
  return {.attrs = attrs,
          .weights = {packed},
          .phases = given.decision.knob("phases") != 0 ? phases_of(given.question) : std::nullopt};
}

int64_t depth_of(const ConvCase& conv) {
  int64_t depth = guess::extent(conv.data.shape[1], guess::Extent::kChannels) / conv.attrs.groups;
  for (int64_t extent : conv.attrs.kernel) depth *= extent;
  return depth;
}

NodeOrders conv_orders(const FormCase& given, bool stages_data) {
  // Of phases the kernel reads what was padded and taken apart.
  return {ImageOrder::kChannelsLast, ImageOrder::kChannelsLast, stages_data && given.decision.knob("phases") == 0};
}

}  // namespace gantry::forms
