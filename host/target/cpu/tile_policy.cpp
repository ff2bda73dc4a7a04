#include "host/target/cpu/tile_policy.h"

#include <algorithm>

#include "host/codegen/cpu_features.h"
#include "host/ops/tiles.h"
#include "host/support/divide.h"
#include "host/target/cpu/conv_model.h"
#include "host/target/cpu/tile_blocks.h"

namespace gantry::cpu {
namespace {

// Fitted, in cycles, to 560 convolutions of eleven networks (relative error 14 %): an instruction with what
// it loads; a tile of results with its epilogue; splitting 32 elements of the operand, for each part; a byte
// of the weights, which come from the third level; a byte of the operand and the result; a kernel.
constexpr double kCyclesPerDot = 23, kCyclesPerTile = 85, kCyclesPerPart = 11.6, kCyclesPerWeightByte = 0.12,
                 kCyclesPerByte = 0.023, kCyclesPerKernel = 2200;
// What multiply-adds take in networks, by what their models predict (the same convolutions): direct,
// pointwise and Winograd's.
constexpr double kOtherSlack = 1.15;
// Of the peak of multiply-adds, what matrix products reach without tiles.
constexpr double kMultiplyAddShare = 0.75;
// With so many rows a third part of the weights costs little: they are read from memory once for all rows.
// Products of transformers need it sooner: their errors add up more than those of rectified images.
constexpr int64_t kConvRowsForExactWeights = 250, kDenseRowsForExactWeights = 150;

struct TileWork {
  int64_t rows = 1;  ///< results
  int64_t columns = 1;
  int64_t depth_blocks = 1;  ///< of 32, a tap
  int64_t taps = 1;
  int64_t split_rows = 1;  ///< rows of the operand
  int64_t bytes = 0;       ///< of the operand and the result, in f32
};

double tile_cycles(const TileWork& work, int64_t parts) {
  const double tiles = full_tiles(work.rows) * double(ceil_div(work.columns, 16));
  const double dots = tiles * double(work.depth_blocks * work.taps) * double(tile_products(parts).size());
  const double weights = double(ceil_div(work.columns, 16) * 16 * work.depth_blocks * work.taps) * 64;
  return dots * kCyclesPerDot + tiles * kCyclesPerTile +
         double(work.split_rows * work.depth_blocks) * double(tile_row_parts(parts)) * kCyclesPerPart +
         weights * double(parts) * kCyclesPerWeightByte + double(work.bytes) * kCyclesPerByte +
         kCyclesPerKernel;
}

int64_t parts_for_rows(int64_t parts, int64_t rows, int64_t enough) {
  return parts == 2 && rows >= enough ? 3 : parts;
}

int64_t constant_or(const Dim& dim, int64_t otherwise) {
  return dim.constant().value_or(otherwise);
}

/// What the convolution takes in multiply-adds, by the algorithm that is then chosen.
double other_cycles(const ConvAttrs& attrs, const TensorType& data, const TensorType& result,
                    const MachineModel& machine) {
  const ConvAlgorithm other = choose_conv_algorithm(attrs, data, result, machine);
  if (winograd_tile(other) == 0) return predicted_direct_cycles(attrs, data, result, machine);
  return predicted_winograd_cycles(attrs, data, result, machine, other);
}

/// Parts of the weights; 0 if multiply-adds are faster.
int64_t conv_tile_parts(const ConvAttrs& attrs, const TensorType& data, const TensorType& result,
                        int64_t parts, const MachineModel& machine) {
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
  work.depth_blocks = ceil_div(fold ? channels * attrs.kernel[1] : channels, 32);
  work.split_rows = work.rows * (window ? attrs.strides[0] * (fold ? 1 : attrs.strides[1]) : 1);
  work.bytes = 4 * images * (data.shape[2] * data.shape[3]).constant().value_or(1) * channels +
               4 * images * lines * columns * attrs.channels;
  parts = parts_for_rows(parts, images * lines * columns, kConvRowsForExactWeights);
  return tile_cycles(work, parts) < kOtherSlack * other_cycles(attrs, data, result, machine) ? parts : 0;
}

int64_t dense_tile_parts(const TensorType& data, int64_t units, int64_t parts, const MachineModel& machine) {
  if (data.dtype != DType::kF32 || data.shape.empty() || !data.shape.back().is_constant()) return 0;
  TileWork work;
  for (size_t i = 0; i + 1 < data.shape.size(); ++i) work.rows *= constant_or(data.shape[i], 64);
  work.split_rows = work.rows;
  work.columns = units;
  work.depth_blocks = ceil_div(data.shape.back().value(), 32);
  const double products = double(work.rows) * double(units) * double(data.shape.back().value());
  // Few rows are bound by the weights' stream, which bf16 halves.
  if (parts == 1 && work.rows < 16) return products >= double(1 << 18) ? parts : 0;
  work.bytes = 4 * work.rows * (data.shape.back().value() + units);
  parts = parts_for_rows(parts, work.rows, kDenseRowsForExactWeights);
  const double lanes = double(machine.vector_bytes) / 4 * machine.fma_per_cycle * kMultiplyAddShare;
  const double weights = double(units * data.shape.back().value()) * 4 * kCyclesPerWeightByte;
  return tile_cycles(work, parts) < products / lanes + weights ? parts : 0;
}

}  // namespace

int64_t tile_parts(const Target& target) {
  if (target.for_gpu() || !has_feature(target, "amx-bf16")) return 0;
  if (target.precision == Precision::kBf16) return 1;
  if (target.precision == Precision::kFp32Split) return 2;
  return target.precision == Precision::kFp32Split3 ? 3 : 0;
}

void prefer_tiles(LayoutPolicy& policy, const Target& target) {
  const int64_t parts = tile_parts(target);
  if (parts == 0) return;
  const MachineModel machine = target.machine;
  policy.conv_tiles = [machine, parts](const ConvAttrs& attrs, const TensorType& data,
                                       const TensorType& result) {
    return conv_tile_parts(attrs, data, result, parts, machine);
  };
  policy.dense_tiles = [machine, parts](const TensorType& data, int64_t units) {
    return dense_tile_parts(data, units, parts, machine);
  };
}

}  // namespace gantry::cpu
