#include "host/target/cpu/tile_policy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "host/codegen/cpu_features.h"
#include "host/ops/dense.h"
#include "host/ops/tiles.h"
#include "host/support/divide.h"
#include "host/target/cpu/conv_model.h"
#include "host/target/cpu/layout_costs.h"
#include "host/target/cpu/network_error.h"
#include "host/target/cpu/tile_blocks.h"
#include "host/target/cpu/tile_costs.h"

namespace gantry::cpu {
namespace {

// Of the peak of multiply-adds, what matrix products reach without tiles.
constexpr double kMultiplyAddShare = 0.75;
// Data that Winograd's algorithms transformed have grown, and their errors with them.
constexpr int64_t kWinogradParts = 3;

struct TileWork {
  int64_t rows = 1;  ///< results
  int64_t columns = 1;
  int64_t depth_blocks = 1;  ///< a tap
  int64_t taps = 1;
  int64_t split_rows = 1;   ///< rows of the operand
  int64_t bytes = 0;        ///< of the operand and the result, in f32
  int64_t data_bytes = 0;   ///< of the operand
  bool rows_first = false;  ///< all rows are split before any product
};

/// How products on tiles are computed.
struct TileChoice {
  TileGeometry tile;
  int64_t parts;
  MachineModel machine;

  TileCosts costs() const { return tile_costs(tile.unit, machine); }
};

double tile_cycles(const TileWork& work, int64_t parts, const TileChoice& choice) {
  const TileGeometry& tile = choice.tile;
  const TileCosts costs = choice.costs();
  const TileProduct product{.unit = tile.unit,
                            .parts = parts,
                            .rows = work.rows,
                            .columns = work.columns,
                            .depth_blocks = work.depth_blocks * work.taps};
  const double weights = double(round_up(work.columns, tile.columns) * product.depth_blocks) *
                         double(2 * tile.block_depth * parts);
  const double splits = double(work.split_rows * work.depth_blocks) * double(tile_row_parts(parts));
  const double split_bytes = splits * double(2 * tile.block_depth);
  const bool far = work.rows_first && split_bytes > double(choice.machine.l2_bytes);
  return product.dots() * costs.dot + product.tiles() * costs.tile + splits * costs.part +
         (far ? split_bytes * costs.far_byte : 0) + weights * costs.weight_byte +
         double(work.bytes) * costs.byte + costs.kernel;
}

/// Parts that are slower than multiply-adds are chosen only by who asks for them: for their arithmetic, not
/// their speed.
bool takes_all(const TileChoice& choice) {
  return !choice.tile.fast_parts && choice.parts > 1;
}

int64_t constant_or(const Dim& dim, int64_t otherwise) {
  return dim.constant().value_or(otherwise);
}

/// What the convolution takes in multiply-adds, by the algorithm that is then chosen; `transposed`: what
/// channels-last data cost first.
double other_cycles(const ConvAttrs& attrs, const TensorType& data, const TensorType& result,
                    const MachineModel& machine, double transposed) {
  const ConvAlgorithm other = choose_conv_algorithm(attrs, data, result, machine);
  if (winograd_tile(other) > 0)
    return transposed + predicted_winograd_cycles(attrs, data, result, machine, other);
  const bool as_it_lies = attrs.plain_data && prefers_plain_data(attrs, data, machine);
  return (as_it_lies ? 0 : transposed) + predicted_direct_cycles(attrs, data, result, machine);
}

TileWork conv_work(const ConvAttrs& given, const TensorType& given_data, const TensorType& given_result,
                   const TileGeometry& tile) {
  const ConvAttrs attrs = as_image(given);
  const TensorType data = as_image(given_data), result = as_image(given_result);
  const bool window = attrs.kernel[0] > 1 || attrs.kernel[1] > 1;
  const int64_t channels = data.shape[1].value();
  const bool fold = folds_width(attrs, channels);
  const int64_t images = constant_or(result.shape[0], 1), lines = result.shape[2].value(),
                columns = result.shape[3].value();
  // Between two lines lie the rows that only windows over the edge meet.
  const int64_t reach = fold ? 0 : (attrs.kernel[1] - 1) * attrs.dilations[1] / attrs.strides[1];
  TileWork work;
  work.columns = attrs.channels;
  work.rows = images * (lines * (columns + reach) - reach);
  work.taps = attrs.kernel[0] * (fold ? 1 : attrs.kernel[1]);
  work.depth_blocks = ceil_div(fold ? channels * attrs.kernel[1] : channels, tile.block_depth);
  work.split_rows = work.rows * (window ? attrs.strides[0] * (fold ? 1 : attrs.strides[1]) : 1);
  work.rows_first =
      reaches_far((attrs.kernel[0] - 1) * attrs.dilations[0] / attrs.strides[0] * (columns + reach));
  work.data_bytes = 4 * images * (data.shape[2] * data.shape[3]).constant().value_or(1) * channels;
  work.bytes = work.data_bytes + 4 * images * lines * columns * attrs.channels;
  return work;
}

/// Winograd's algorithms on tiles: whole blocks only.
bool fits_winograd_tiles(const ConvAttrs& attrs, const TensorType& data, const TileChoice& choice) {
  const TileGeometry& tile = choice.tile;
  return tile.fast_parts && choice.parts > 1 && fits_winograd(attrs) &&
         data.shape[1].value() % tile.block_depth == 0 &&
         attrs.channels % (tile.column_tiles * tile.columns) == 0;
}

/// No parts if multiply-adds are faster.
TiledConv choose_tiled_conv(const ConvAttrs& attrs, const TensorType& data, const TensorType& result,
                            const TileChoice& choice) {
  if (!fits_tiles(attrs, data.dtype) || !data.shape[1].is_constant()) return {};
  // Blocks of rows need lines of known length.
  for (size_t i = 2; i < data.shape.size(); ++i) {
    if (!data.shape[i].is_constant() || !result.shape[i].is_constant()) return {};
  }
  const TiledConv direct{choice.parts, ConvAlgorithm::kTiles};
  if (takes_all(choice)) return direct;
  const double slack = other_slack(choice.tile.unit);
  const TileWork work = conv_work(attrs, data, result, choice.tile);
  const double transposed = attrs.plain_data ? kTransposedByte * double(work.data_bytes) : 0;
  double least = slack * other_cycles(attrs, data, result, choice.machine, transposed);
  TiledConv best;
  const double cycles = transposed + tile_cycles(work, direct.parts, choice);
  if (cycles < least) best = direct, least = cycles;
  if (!fits_winograd_tiles(attrs, data, choice)) return best;
  ConvAttrs on_tiles = attrs;
  on_tiles.tile_unit = choice.tile.unit;
  for (ConvAlgorithm algorithm : {ConvAlgorithm::kWinograd2, ConvAlgorithm::kWinograd4}) {
    const double winograd = transposed + predicted_winograd_cycles(on_tiles, data, result, choice.machine,
                                                                   algorithm, kWinogradParts);
    spdlog::debug("convolution {} -> {}: F({}) on tiles {:.0f} kcycles, others {:.0f}", data.str(),
                  result.str(), winograd_tile(algorithm), winograd / 1e3, least / 1e3);
    if (winograd < least) best = {kWinogradParts, algorithm}, least = winograd;
  }
  return best;
}

/// The work of data (…, K) with K known.
TileWork dense_work(const TensorType& data, int64_t units, const TileGeometry& tile) {
  TileWork work;
  for (size_t i = 0; i + 1 < data.shape.size(); ++i) work.rows *= constant_or(data.shape[i], 64);
  work.split_rows = work.rows;
  work.columns = units;
  work.depth_blocks = ceil_div(data.shape.back().value(), tile.block_depth);
  work.bytes = 4 * work.rows * (data.shape.back().value() + units);
  return work;
}

int64_t dense_tile_parts(const TensorType& data, int64_t units, const TileChoice& choice) {
  if (data.dtype != DType::kF32 || data.shape.empty() || !data.shape.back().is_constant()) return 0;
  const TileWork work = dense_work(data, units, choice.tile);
  const double products = double(work.rows) * double(units) * double(data.shape.back().value());
  // Few rows are bound by the weights' stream, which bf16 halves.
  if (choice.parts == 1 && work.rows < 16) return products >= double(1 << 18) ? 1 : 0;
  if (takes_all(choice)) return choice.parts;
  const MachineModel& machine = choice.machine;
  const double lanes = double(machine.vector_bytes) / 4 * machine.fma_per_cycle * kMultiplyAddShare;
  const double weights = double(units * data.shape.back().value()) * 4 * choice.costs().weight_byte;
  return tile_cycles(work, choice.parts, choice) < products / lanes + weights ? choice.parts : 0;
}

std::string kind_of(const ConvAttrs& attrs, const TensorType& data, const TensorType& result) {
  return fmt::format("{} {} {} {} {}", data.str(), result.str(), fmt::join(attrs.kernel, "x"),
                     fmt::join(attrs.strides, "x"), fmt::join(attrs.dilations, "x"));
}

std::string kind_of(const TensorType& data, int64_t units) {
  return fmt::format("{} {}", data.str(), units);
}

/// "" for a node that is no product with weights.
std::string kind_of(const Node& node) {
  if (const ConvAttrs* conv = node.match(nn::conv))
    return kind_of(*conv, node.inputs[0]->type, node.result()->type);
  const DenseAttrs* dense = node.match(nn::dense);
  return dense == nullptr ? "" : kind_of(node.inputs[0]->type, dense->units);
}

/// Cycles that a third part of the weights takes; none where they do not have two.
std::optional<double> third_part_cycles(const Node& node, const TileChoice& choice) {
  const TensorType &data = node.inputs[0]->type, &result = node.result()->type;
  TileWork work;
  if (const ConvAttrs* conv = node.match(nn::conv)) {
    if (choose_tiled_conv(*conv, data, result, choice).parts != 2) return std::nullopt;
    work = conv_work(*conv, data, result, choice.tile);
  } else {
    const int64_t units = node.attrs_as<DenseAttrs>().units;
    if (dense_tile_parts(data, units, choice) != 2) return std::nullopt;
    work = dense_work(data, units, choice.tile);
  }
  return tile_cycles(work, 3, choice) - tile_cycles(work, 2, choice);
}

std::vector<TwoPartKind> two_part_kinds(const Function& network, const TileChoice& choice) {
  std::map<std::string, std::optional<double>> third_parts;
  std::map<std::string, TwoPartKind> kinds;
  // Those of a kind that read the same value are one product in effect: queries, keys and values.
  std::set<std::pair<std::string, const Value*>> counted;
  for (const Node* node : network.nodes()) {
    const std::string name = kind_of(*node);
    if (name.empty()) continue;
    const auto [third_part, fresh] = third_parts.try_emplace(name);
    if (fresh) third_part->second = third_part_cycles(*node, choice);
    if (!third_part->second) continue;
    TwoPartKind& kind = kinds[name];
    kind.name = name;
    kind.cycles += *third_part->second;
    kind.products += counted.insert({name, node->inputs[0]}).second ? 1 : 0;
  }
  std::vector<TwoPartKind> result;
  for (auto& [name, kind] : kinds) result.push_back(std::move(kind));
  return result;
}

}  // namespace

int64_t tile_parts(const Target& target) {
  if (target.for_gpu() || !tile_unit(target)) return 0;
  if (target.precision == Precision::kBf16) return 1;
  if (target.precision == Precision::kFp32Split) return 2;
  return target.precision == Precision::kFp32Split3 ? 3 : 0;
}

std::optional<double> predicted_tile_cycles(const ConvAttrs& attrs, const TensorType& data,
                                            const TensorType& result, const MachineModel& machine) {
  for (size_t i = 1; i < data.shape.size(); ++i) {
    if (!data.shape[i].is_constant() || !result.shape[i].is_constant()) return std::nullopt;
  }
  const TileChoice choice{geometry_of(attrs.tile_unit), attrs.tile_parts, machine};
  return tile_cycles(conv_work(attrs, data, result, choice.tile), attrs.tile_parts, choice);
}

double predicted_tile_cycles(const TensorType& data, int64_t units, TileUnit unit, int64_t parts,
                             const MachineModel& machine) {
  const TileChoice choice{geometry_of(unit), parts, machine};
  return tile_cycles(dense_work(data, units, choice.tile), parts, choice);
}

void prefer_tiles(LayoutPolicy& policy, const Target& target, const Function* network) {
  const int64_t parts = tile_parts(target);
  if (parts == 0) return;
  const TileChoice choice{geometry_of(*tile_unit(target)), parts, target.machine};
  policy.tile_unit = choice.tile.unit;
  std::set<std::string> exact;
  if (parts == 2 && network != nullptr) exact = kinds_for_exact_weights(two_part_kinds(*network, choice));
  policy.conv_tiles = [choice, exact](const ConvAttrs& attrs, const TensorType& data,
                                      const TensorType& result) {
    TiledConv conv = choose_tiled_conv(attrs, data, result, choice);
    if (conv.parts == 2 && exact.contains(kind_of(attrs, data, result))) conv.parts = 3;
    return conv;
  };
  policy.dense_tiles = [choice, exact](const TensorType& data, int64_t units) -> int64_t {
    const int64_t dense = dense_tile_parts(data, units, choice);
    return dense == 2 && exact.contains(kind_of(data, units)) ? 3 : dense;
  };
}

}  // namespace gantry::cpu
