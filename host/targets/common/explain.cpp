#include "host/targets/common/explain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "host/costs/conv_model.h"
#include "host/costs/conversion_cost.h"
#include "host/costs/dense_model.h"
#include "host/costs/gpu_costs.h"
#include "host/costs/tile_policy.h"
#include "host/ops/attention.h"
#include "host/ops/conv.h"
#include "host/ops/dense.h"
#include "host/ops/movement.h"
#include "host/ops/op.h"
#include "host/ops/recurrent.h"
#include "host/passes/layout_behaviour.h"
#include "host/support/words.h"

namespace gantry {
namespace {

using Words = std::vector<std::string>;

/// (N, spatial…, C) as the models take it: (N, C, spatial…).
TensorType channels_first(TensorType type, bool channels_last) {
  if (channels_last) std::rotate(type.shape.begin() + 1, type.shape.end() - 1, type.shape.end());
  return type;
}

void add_tile(Words& words, const costs::ProductTile& tile) {
  words.push_back(fmt::format("{} x {} sums in registers", tile.rows, tile.channel_block()));
}

/// Weights in f16 of data in f32.
bool is_half(const Node& node) {
  return node.inputs[1]->type.dtype == DType::kF16 && node.inputs[0]->type.dtype == DType::kF32;
}

void add_tile_unit(Words& words, TileUnit unit, int64_t parts) {
  const std::string part = fmt::format("{} part", name_of(geometry_of(unit).element));
  words.push_back(fmt::format("{} of {}", name_of(unit), counted(parts, part)));
}

const Decision* decision_of(const Node& node) {
  return node.decision ? &*node.decision : nullptr;
}

int given_rows(const Node& node) {
  return node.decision ? static_cast<int>(node.decision->knob("rows")) : 0;
}

void explain_winograd(const Node& node, const TensorType& data, const TensorType& result, const MachineModel& machine,
                      Explanation& explanation, Words& words) {
  const auto& attrs = node.attrs_as<ConvAttrs>();
  const ConvForm& form = attrs.form;
  const costs::WinogradPlan plan = costs::predicted_winograd_plan(
      attrs, data, result, machine, costs::given_plan(decision_of(node)), form.weight_block);
  if (form.on_tiles()) {
    add_tile_unit(words, form.tile_unit, form.tile_parts);
  } else {
    add_tile(words, plan.product);
  }
  words.push_back(fmt::format("{} tiles at once{}", plan.chunk, plan.within_row ? ", within a row" : ""));
  words.emplace_back(plan.input_at_root ? "input transformed first" : "input transformed by chunk");
  explanation.cycles = plan.cycles;
}

void explain_conv_on_cpu(const Node& node, const MachineModel& machine, Explanation& explanation,
                         Words& words) {
  const auto& attrs = node.attrs_as<ConvAttrs>();
  const ConvForm& form = attrs.form;
  const TensorType data = channels_first(node.inputs[0]->type, attrs.data_channels_last());
  const TensorType result = channels_first(node.result()->type, attrs.channels_last);
  if (winograd_tile(form.algorithm) > 0) {
    explain_winograd(node, data, result, machine, explanation, words);
  } else if (form.algorithm == ConvAlgorithm::kTiles) {
    add_tile_unit(words, form.tile_unit, form.tile_parts);
    if (form.tile_fold_width) words.emplace_back("window's columns in the depth");
    explanation.cycles = costs::predicted_tile_cycles(attrs, data, result, machine);
  } else if (form.weight_block > 0) {
    costs::ProductWork work = costs::direct_work(attrs, data, result, is_half(node));
    work.given_rows = given_rows(node);
    const costs::ProductTile tile = costs::choose_product_tile(work, machine, form.weight_block);
    add_tile(words, tile);
    if (costs::cuts_reduction(work, tile, machine)) words.emplace_back("reduction in parts");
    explanation.cycles =
        costs::decided_direct_cycles(attrs, data, result, is_half(node), given_rows(node), machine);
  }
}

void explain_conv(const Node& node, const Target& target, Explanation& explanation, Words& words) {
  const auto& attrs = node.attrs_as<ConvAttrs>();
  const ConvForm& form = attrs.form;
  if (form.weight_block > 0) words.push_back(fmt::format("block {}", form.weight_block));
  if (!target.for_gpu()) {
    explain_conv_on_cpu(node, target.machine, explanation, words);
  } else if (form.algorithm != ConvAlgorithm::kDirect) {
    const TensorType data = channels_first(node.inputs[0]->type, attrs.data_channels_last());
    const TensorType result = channels_first(node.result()->type, attrs.channels_last);
    explanation.seconds =
        costs::gpu_costs(target).convolution(attrs, data, result, form.algorithm, target.gpu);
  }
  if (is_half(node)) words.emplace_back("products in f16");
  if (form.merged_groups > 1) words.push_back(fmt::format("{} groups as one", form.merged_groups));
  words.emplace_back(!attrs.channels_last ? "channels first"
                     : form.plain_data    ? "channels last, of data with channels first"
                                          : "channels last");
}

/// Rows of all axes but the last; 0: not known.
int64_t rows_of(const TensorType& type) {
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < type.shape.size(); ++i) rows *= type.shape[i].constant().value_or(0);
  return rows;
}

void explain_dense_on_cpu(const Node& node, const MachineModel& machine, Explanation& explanation,
                          Words& words) {
  const auto& attrs = node.attrs_as<DenseAttrs>();
  const DenseForm& form = attrs.form;
  const TensorType& data = node.inputs[0]->type;
  if (form.on_tiles()) {
    add_tile_unit(words, form.tile_unit, form.tile_parts);
    if (data.shape.back().is_constant())
      explanation.cycles =
          costs::predicted_tile_cycles(data, attrs.units, form.tile_unit, form.tile_parts, machine);
    return;
  }
  if (form.weight_block == 0 || !data.shape.back().is_constant()) return;
  costs::DenseWork work;
  work.half = is_half(node);
  work.rows = rows_of(data);
  work.depth = data.shape.back().value();
  work.units = attrs.units;
  work.element_bytes = byte_width(work.half ? DType::kF16 : data.dtype);
  work.fixed_bits = static_cast<int>(form.fixed_bits);
  work.given_rows = given_rows(node);
  const costs::DenseTile tile = costs::choose_dense_tile(work, machine, form.weight_block);
  add_tile(words, tile.tile);
  if (tile.block_rows > tile.tile.rows) words.push_back(fmt::format("{} rows a panel", tile.block_rows));
  explanation.cycles = costs::predicted_dense_cycles(work, tile, machine);
}

void explain_dense(const Node& node, const Target& target, Explanation& explanation, Words& words) {
  const DenseForm& form = node.attrs_as<DenseAttrs>().form;
  if (form.weight_block > 0) words.push_back(fmt::format("block {}", form.weight_block));
  if (form.gemm) words.emplace_back("tiled product");
  if (!target.for_gpu()) explain_dense_on_cpu(node, target.machine, explanation, words);
  if (is_half(node)) words.emplace_back("products in f16");
}

void explain_recurrence(const RecurrenceForm& form, Words& words) {
  if (form.weight_block == 0) return words.emplace_back("weights as in the model"), void();
  words.push_back(fmt::format("strips of {} columns", form.weight_block));
  words.push_back(counted(form.sequences, "sequence") + " at once");
  if (form.directions_in_turn) words.emplace_back("one direction after the other");
}

void explain_transposition(const Node& node, const Target& target, Explanation& explanation) {
  const TensorType& type = node.result()->type;
  if (!type.byte_size().constant()) return;
  const OrderChange change = order_change(node);
  const double cost =
      change == OrderChange::kNone
          ? costs::transposition_cost(type, target)
          : costs::conversion_cost(change == OrderChange::kToPlain ? type : node.inputs[0]->type, target);
  if (target.for_gpu()) {
    explanation.seconds = 1e-3 * cost;
  } else {
    explanation.cycles = cost;
  }
}

}  // namespace

Explanation explain(const Node& node, const Target& target) {
  Explanation explanation;
  Words words;
  if (op_def(node).algorithm) words.push_back(op_def(node).algorithm(node));
  if (node.is(nn::conv)) {
    explain_conv(node, target, explanation, words);
  } else if (node.is(nn::dense)) {
    explain_dense(node, target, explanation, words);
  } else if (const auto* recurrence = node.attrs_if<RecurrenceAttrs>()) {
    explain_recurrence(recurrence->form, words);
  } else if (const auto* matmul = node.match(op::matmul); matmul && matmul->form.gemm) {
    words.emplace_back("tiled product");
  } else if (const auto* attention = node.match(nn::attention)) {
    words.push_back(fmt::format("scores stay in the cache, vectors of {}", attention->form.lanes));
  } else if (node.is(op::transpose)) {
    explain_transposition(node, target, explanation);
  }
  std::erase(words, std::string());
  explanation.decision = fmt::format("{}", fmt::join(words, ", "));
  return explanation;
}

}  // namespace gantry
