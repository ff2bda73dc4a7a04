#include "host/forms/exact_weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <optional>
#include <utility>

#include "host/costs/tile_policy.h"
#include "host/forms/choose.h"
#include "host/forms/network_error.h"
#include "host/forms/product.h"
#include "host/machine/cpu_features.h"
#include "host/ops/dense.h"

namespace gantry::forms {
namespace {

/// "" for a node that is no product with weights.
std::string kind_of_node(const Node& node) {
  if (const ConvAttrs* conv = node.match(nn::conv)) return kind_of(*conv, node.inputs[0]->type, node.result()->type);
  const DenseAttrs* dense = node.match(nn::dense);
  return dense == nullptr ? "" : kind_of(node.inputs[0]->type, dense->units);
}

std::optional<double> third_part_of_conv(const Node& node, const FormContext& context) {
  ConvAttrs attrs = node.attrs_as<ConvAttrs>();
  if (attrs.groups > 1) return std::nullopt;
  const FormQuestion question{.node = node, .weight = node.inputs[1], .plain_data = false, .may_split = false};
  const std::vector<Bid> bids = all_bids(question, context);
  const Bid* best = best_of(bids);
  if (best == nullptr || !best->on_tiles || best->decision.knob("parts") != 2) return std::nullopt;
  attrs.form.tile_unit = *tile_unit(context.target);
  const auto cycles = [&](int64_t parts) {
    attrs.form.tile_parts = parts;
    return *costs::predicted_tile_cycles(attrs, node.inputs[0]->type, node.result()->type,
                                         context.target.machine);
  };
  return cycles(3) - cycles(2);
}

std::optional<double> third_part_of_dense(const Node& node, const FormContext& context) {
  const TensorType& data = node.inputs[0]->type;
  const int64_t units = node.attrs_as<DenseAttrs>().units;
  if (costs::dense_tile_parts(data, units, context.target) != 2) return std::nullopt;
  const auto cycles = [&](int64_t parts) {
    return costs::predicted_tile_cycles(data, units, *tile_unit(context.target), parts,
                                        context.target.machine);
  };
  return cycles(3) - cycles(2);
}

std::vector<TwoPartKind> two_part_kinds(const Function& network, const FormContext& context) {
  std::map<std::string, std::optional<double>> third_parts;
  std::map<std::string, TwoPartKind> kinds;
  // Those of a kind that read the same value are one product in effect: queries, keys and values.
  std::set<std::pair<std::string, const Value*>> counted;
  for (const Node* node : network.nodes()) {
    const std::string name = kind_of_node(*node);
    if (name.empty()) continue;
    const auto [third_part, fresh] = third_parts.try_emplace(name);
    if (fresh)
      third_part->second =
          node->is(nn::conv) ? third_part_of_conv(*node, context) : third_part_of_dense(*node, context);
    if (!third_part->second) continue;
    TwoPartKind& kind = kinds[name];
    kind.name = name;
    kind.error = tile_unit_product(*tile_unit(context.target), 2).in_network;
    kind.cycles += *third_part->second;
    kind.products += counted.insert({name, node->inputs[0]}).second ? 1 : 0;
  }
  std::vector<TwoPartKind> result;
  for (auto& [name, kind] : kinds) result.push_back(std::move(kind));
  return result;
}

}  // namespace

std::string kind_of(const ConvAttrs& attrs, const TensorType& data, const TensorType& result) {
  return fmt::format("{} {} {} {} {}", data.str(), result.str(), fmt::join(attrs.kernel, "x"),
                     fmt::join(attrs.strides, "x"), fmt::join(attrs.dilations, "x"));
}

std::string kind_of(const TensorType& data, int64_t units) {
  return fmt::format("{} {}", data.str(), units);
}

std::set<std::string> kinds_for_exact_weights(const Function& network, const FormContext& context) {
  if (costs::tile_parts(context.target) != 2) return {};
  return kinds_for_exact_weights(two_part_kinds(network, context));
}

int64_t parts_in_network(int64_t parts, const std::string& kind, const FormContext& context) {
  return parts == 2 && context.exact_kinds.contains(kind) ? 3 : parts;
}

std::string why_not_in_network(int64_t parts) {
  return parts == 2 ? "errors of so many products of two parts would add up in this network"
                    : "two parts are exact enough";
}

}  // namespace gantry::forms
