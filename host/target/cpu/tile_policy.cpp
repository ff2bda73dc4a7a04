#include "host/target/cpu/tile_policy.h"

#include <algorithm>

#include "host/codegen/cpu_features.h"
#include "host/ops/tiles.h"
#include "host/support/divide.h"
#include "host/target/cpu/conv_model.h"
#include "host/target/cpu/tile_blocks.h"

namespace gantry::cpu {
namespace {

/// In cycles: an instruction with what it loads; a tile of results with its epilogue; splitting a block of a
/// row of the operand, for each part; a byte of the weights; a byte of the operand and the result; a kernel;
/// a byte of split rows that go through the third-level cache.
struct TileCosts {
  double dot, tile, part, weight_byte, byte = 0, kernel = 0, far_byte = 0;
};
// Fitted to 560 convolutions of eleven networks (relative error 14 %); weights come from the third level.
constexpr TileCosts kAmxCosts{23, 85, 11.6, 0.12, 0.023, 2200, 0.1};
// What multiply-adds take in the same networks, by what their models predict.
constexpr double kAmxOtherSlack = 1.15;
// In cycles a byte: transposing an image of few channels to channels-last, which tiles need and direct
// convolutions may do without.
constexpr double kTransposedByte = 0.5;

/// Of bfmmla, which cores issue as often as multiply-adds (llvm-mca's models of Cortex-A510, A710 and X2,
/// Neoverse N2, V1 and V2): a tile is stored by two instructions and read again; a block of 16 elements is
/// converted twice, from four vectors into halves of four.
TileCosts bfmmla_costs(const MachineModel& machine) {
  constexpr double kShare = 0.9;  // of the peak, in the inner loop
  return {1 / (kShare * machine.fma_per_cycle), 3, 16.0 / machine.fma_per_cycle,
          1 / machine.memory_bytes_per_cycle};
}

// Of the peak of multiply-adds, what matrix products reach without tiles.
constexpr double kMultiplyAddShare = 0.75;
// With so many rows a third part of the weights costs little: they are read from memory once for all rows.
// Products of transformers need it sooner: their errors add up more than those of rectified images.
constexpr int64_t kConvRowsForExactWeights = 250, kDenseRowsForExactWeights = 150;

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

  bool amx() const { return tile.unit == TileUnit::kAmx; }
  TileCosts costs() const { return amx() ? kAmxCosts : bfmmla_costs(machine); }
};

double tile_cycles(const TileWork& work, int64_t parts, const TileChoice& choice) {
  const TileGeometry& tile = choice.tile;
  const TileCosts costs = choice.costs();
  const int64_t column_tiles = ceil_div(work.columns, tile.columns);
  const double tiles = full_tiles(work.rows, tile.unit) * double(column_tiles);
  const double blocks = double(work.depth_blocks * work.taps);
  const double dots =
      tiles * blocks * double(tile.block_depth / tile.depth) * double(tile_products(parts).size());
  const double weights = double(column_tiles * tile.columns) * blocks * double(2 * tile.block_depth * parts);
  const double splits = double(work.split_rows * work.depth_blocks) * double(tile_row_parts(parts));
  const double split_bytes = splits * double(2 * tile.block_depth);
  const bool far = work.rows_first && split_bytes > double(choice.machine.l2_bytes);
  return dots * costs.dot + tiles * costs.tile + splits * costs.part +
         (far ? split_bytes * costs.far_byte : 0) + weights * costs.weight_byte +
         double(work.bytes) * costs.byte + costs.kernel;
}

/// With bfmmla the splits are slower than multiply-adds and chosen only by who asks for them: for their
/// arithmetic, not their speed.
bool takes_all(const TileChoice& choice) {
  return choice.tile.unit == TileUnit::kBfmmla && choice.parts > 1;
}

int64_t parts_for_rows(int64_t parts, int64_t rows, int64_t enough) {
  return parts == 2 && rows >= enough ? 3 : parts;
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

/// Parts of the weights; 0 if multiply-adds are faster.
int64_t conv_tile_parts(const ConvAttrs& attrs, const TensorType& data, const TensorType& result,
                        const TileChoice& choice) {
  if (!fits_tiles(attrs, data.dtype) || !data.shape[1].is_constant()) return 0;
  const bool window = attrs.kernel[0] > 1 || attrs.kernel[1] > 1;
  // Blocks of rows need lines of known length.
  for (size_t i : {2, 3})
    if (!data.shape[i].is_constant() || !result.shape[i].is_constant()) return 0;
  const int64_t channels = data.shape[1].value();
  const bool fold = folds_width(attrs, channels);
  TileWork work;
  work.columns = attrs.channels;
  const int64_t images = constant_or(result.shape[0], 1), lines = result.shape[2].value(),
                columns = result.shape[3].value();
  // Between two lines lie the rows that only windows over the edge meet.
  const int64_t reach = fold ? 0 : (attrs.kernel[1] - 1) * attrs.dilations[1] / attrs.strides[1];
  work.rows = images * (lines * (columns + reach) - reach);
  work.taps = attrs.kernel[0] * (fold ? 1 : attrs.kernel[1]);
  work.depth_blocks = ceil_div(fold ? channels * attrs.kernel[1] : channels, choice.tile.block_depth);
  work.split_rows = work.rows * (window ? attrs.strides[0] * (fold ? 1 : attrs.strides[1]) : 1);
  work.rows_first =
      reaches_far((attrs.kernel[0] - 1) * attrs.dilations[0] / attrs.strides[0] * (columns + reach));
  const int64_t data_bytes = 4 * images * (data.shape[2] * data.shape[3]).constant().value_or(1) * channels;
  work.bytes = data_bytes + 4 * images * lines * columns * attrs.channels;
  const int64_t parts = parts_for_rows(choice.parts, images * lines * columns, kConvRowsForExactWeights);
  if (takes_all(choice)) return parts;
  const double slack = choice.amx() ? kAmxOtherSlack : 1;
  const double transposed = attrs.plain_data ? kTransposedByte * double(data_bytes) : 0;
  const double other = slack * other_cycles(attrs, data, result, choice.machine, transposed);
  return transposed + tile_cycles(work, parts, choice) < other ? parts : 0;
}

int64_t dense_tile_parts(const TensorType& data, int64_t units, const TileChoice& choice) {
  if (data.dtype != DType::kF32 || data.shape.empty() || !data.shape.back().is_constant()) return 0;
  TileWork work;
  for (size_t i = 0; i + 1 < data.shape.size(); ++i) work.rows *= constant_or(data.shape[i], 64);
  work.split_rows = work.rows;
  work.columns = units;
  work.depth_blocks = ceil_div(data.shape.back().value(), choice.tile.block_depth);
  const double products = double(work.rows) * double(units) * double(data.shape.back().value());
  // Few rows are bound by the weights' stream, which bf16 halves.
  if (choice.parts == 1 && work.rows < 16) return products >= double(1 << 18) ? 1 : 0;
  work.bytes = 4 * work.rows * (data.shape.back().value() + units);
  const int64_t parts = parts_for_rows(choice.parts, work.rows, kDenseRowsForExactWeights);
  if (takes_all(choice)) return parts;
  const MachineModel& machine = choice.machine;
  const double lanes = double(machine.vector_bytes) / 4 * machine.fma_per_cycle * kMultiplyAddShare;
  const double weights = double(units * data.shape.back().value()) * 4 * choice.costs().weight_byte;
  return tile_cycles(work, parts, choice) < products / lanes + weights ? parts : 0;
}

}  // namespace

int64_t tile_parts(const Target& target) {
  if (target.for_gpu() || !tile_unit(target)) return 0;
  if (target.precision == Precision::kBf16) return 1;
  if (target.precision == Precision::kFp32Split) return 2;
  return target.precision == Precision::kFp32Split3 ? 3 : 0;
}

void prefer_tiles(LayoutPolicy& policy, const Target& target) {
  const int64_t parts = tile_parts(target);
  if (parts == 0) return;
  const TileChoice choice{geometry_of(*tile_unit(target)), parts, target.machine};
  policy.tile_unit = choice.tile.unit;
  policy.conv_tiles = [choice](const ConvAttrs& attrs, const TensorType& data, const TensorType& result) {
    return conv_tile_parts(attrs, data, result, choice);
  };
  policy.dense_tiles = [choice](const TensorType& data, int64_t units) {
    return dense_tile_parts(data, units, choice);
  };
}

}  // namespace gantry::cpu
