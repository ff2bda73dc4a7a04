#include "host/costs/tile_policy.h"

#include <algorithm>
#include <optional>

#include "host/costs/tile_blocks.h"
#include "host/costs/tile_costs.h"
#include "host/graph/shape_guess.h"
#include "host/machine/cpu_features.h"
#include "host/ops/dense.h"
#include "host/ops/tiles.h"
#include "host/support/divide.h"

namespace gantry::costs {
namespace {

// Of the peak of multiply-adds, what matrix products reach without tiles.
constexpr double kMultiplyAddShare = 0.75;

struct TileWork {
  int64_t rows = 1;  ///< results
  int64_t columns = 1;
  int64_t depth_blocks = 1;  ///< a tap
  int64_t taps = 1;
  int64_t split_rows = 1;   ///< rows of the operand
  int64_t bytes = 0;        ///< of the operand and the result, in f32
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
                         double(byte_width(tile.element) * tile.block_depth * parts);
  const double splits = double(work.split_rows * work.depth_blocks) * double(tile_row_parts(parts));
  const double split_bytes = splits * double(byte_width(tile.row_element) * tile.block_depth);
  const bool far = work.rows_first && split_bytes > double(choice.machine.l2_bytes);
  return product.dots() * costs.dot + product.tiles() * costs.tile + splits * costs.part +
         (far ? split_bytes * costs.far_byte : 0) + weights * costs.weight_byte +
         double(work.bytes) * costs.byte + costs.kernel;
}

TileWork conv_work(const ConvAttrs& given, const TensorType& given_data, const TensorType& given_result,
                   const TileGeometry& tile) {
  const ConvAttrs attrs = as_image(given);
  const TensorType data = as_image(given_data), result = as_image(given_result);
  const bool window = attrs.kernel[0] > 1 || attrs.kernel[1] > 1;
  const int64_t channels = data.shape[1].value();
  const bool fold = folds_width(attrs, channels);
  const int64_t images = guess::extent(result.shape[0], guess::Extent::kBatch), lines = result.shape[2].value(),
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
  const int64_t data_bytes = 4 * images * (data.shape[2] * data.shape[3]).constant().value_or(1) * channels;
  work.bytes = data_bytes + 4 * images * lines * columns * attrs.channels;
  return work;
}

/// The work of data (…, K) with K known.
TileWork dense_work(const TensorType& data, int64_t units, const TileGeometry& tile) {
  TileWork work;
  work.rows = guess::rows(data.shape);
  work.split_rows = work.rows;
  work.columns = units;
  work.depth_blocks = ceil_div(data.shape.back().value(), tile.block_depth);
  work.bytes = 4 * work.rows * (data.shape.back().value() + units);
  return work;
}

}  // namespace

bool may_have_elements(const TensorType& type) {
  return std::ranges::none_of(type.shape, [](const Dim& extent) { return extent == Dim(0); });
}

int64_t tile_parts(const Target& target) {
  if (target.for_gpu() || !tile_unit(target)) return 0;
  if (target.precision == Precision::kBf16 || target.precision == Precision::kFp16) return 1;
  if (target.precision == Precision::kFp32Split) return 2;
  return target.precision == Precision::kFp32Split3 ? 3 : 0;
}

std::optional<double> predicted_tile_cycles(const ConvAttrs& attrs, const TensorType& data,
                                            const TensorType& result, const MachineModel& machine) {
  for (size_t i = 1; i < data.shape.size(); ++i) {
    if (!data.shape[i].is_constant() || !result.shape[i].is_constant()) return std::nullopt;
  }
  const TileChoice choice{geometry_of(attrs.form.tile_unit), attrs.form.tile_parts, machine};
  return tile_cycles(conv_work(attrs, data, result, choice.tile), attrs.form.tile_parts, choice);
}

double predicted_tile_cycles(const TensorType& data, int64_t units, TileUnit unit, int64_t parts,
                             const MachineModel& machine) {
  const TileChoice choice{geometry_of(unit), parts, machine};
  return tile_cycles(dense_work(data, units, choice.tile), parts, choice);
}

bool asks_for_parts(const Target& target) {
  return tile_parts(target) > 1 && !geometry_of(*tile_unit(target)).fast_parts;
}

bool fits_tile_unit(const ConvAttrs& attrs, const TensorType& data, const TensorType& result) {
  if (!fits_tiles(attrs, data.dtype) || !data.shape[1].is_constant()) return false;
  if (!may_have_elements(data) || !may_have_elements(result)) return false;
  // Blocks of rows need lines of known length.
  for (size_t i = 2; i < data.shape.size(); ++i) {
    if (!data.shape[i].is_constant() || !result.shape[i].is_constant()) return false;
  }
  return true;
}

int64_t dense_tile_parts(const TensorType& data, int64_t units, const Target& target) {
  const int64_t parts = tile_parts(target);
  if (parts == 0 || !may_have_elements(data)) return 0;
  const TileChoice choice{geometry_of(*tile_unit(target)), parts, target.machine};
  if (data.dtype != DType::kF32 || data.shape.empty() || !data.shape.back().is_constant()) return 0;
  const TileWork work = dense_work(data, units, choice.tile);
  const double products = double(work.rows) * double(units) * double(data.shape.back().value());
  // Few rows are bound by the weights' stream, which bf16 halves.
  if (choice.parts == 1 && work.rows < 16) return products >= double(1 << 18) ? 1 : 0;
  if (asks_for_parts(target)) return choice.parts;
  const MachineModel& machine = choice.machine;
  const double lanes = double(machine.vector_bytes) / 4 * machine.fma_per_cycle * kMultiplyAddShare;
  const double weights = double(units * data.shape.back().value()) * 4 * choice.costs().weight_byte;
  return tile_cycles(work, choice.parts, choice) < products / lanes + weights ? choice.parts : 0;
}

}  // namespace gantry::costs
