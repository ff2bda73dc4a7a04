#include "host/target/cpu/tile_policy.h"

#include <algorithm>

#include "host/codegen/cpu_features.h"
#include "host/ops/tiles.h"

namespace gantry::cpu {
namespace {

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// Measured: an instruction takes 17 cycles when all operands are in the first-level cache, and half as much again with
// operands from the second; splitting and storing 32 elements of an operand; storing a tile and reading it again for
// the epilogue.
constexpr double kCyclesPerDot = 26, kCyclesPerSplit = 10, kCyclesPerTile = 90;
// Of the peak of multiply-adds, what convolutions and products reach without tiles.
constexpr double kMultiplyAddShare = 0.7;

struct TileWork {
  int64_t rows = 1;             ///< results
  int64_t columns = 1;
  int64_t depth_blocks = 1;     ///< of 32, a tap
  int64_t taps = 1;
  int64_t split_rows = 1;       ///< rows of the operand
  int64_t products = 0;         ///< multiply-adds that are asked for
};

bool pays(const TileWork& work, int64_t parts, const MachineModel& machine) {
  double tiles = double(ceil_div(work.rows, 16)) * double(ceil_div(work.columns, 16));
  double dots = tiles * double(work.depth_blocks * work.taps) * double(tile_products(parts).size());
  double cycles = dots * kCyclesPerDot + tiles * kCyclesPerTile +
                  double(work.split_rows * work.depth_blocks) * double(1 + tile_row_parts(parts)) / 2 * kCyclesPerSplit;
  double lanes = double(machine.vector_bytes) / 4 * machine.fma_per_cycle * kMultiplyAddShare;
  return cycles < double(work.products) / lanes;
}

int64_t constant_or(const Dim& dim, int64_t otherwise) {
  return dim.constant().value_or(otherwise);
}

bool conv_pays(const ConvAttrs& attrs, const TensorType& data, const TensorType& result, int64_t parts,
               const MachineModel& machine) {
  if (!fits_tiles(attrs, data.dtype) || !data.shape[1].is_constant()) return false;
  bool window = attrs.kernel[0] > 1 || attrs.kernel[1] > 1;
  // Windows need lines of known length.
  bool known = data.shape[2].is_constant() && data.shape[3].is_constant();
  if (!known && (window || attrs.strides != std::vector<int64_t>{1, 1})) return false;
  const int64_t channels = data.shape[1].value();
  const bool fold = folds_width(attrs, channels);
  TileWork work;
  work.columns = attrs.channels;
  int64_t lines = constant_or(result.shape[2], 64), columns = constant_or(result.shape[3], 64);
  int64_t batch = constant_or(result.shape[0], 1);
  work.rows = batch * lines * columns;
  work.taps = attrs.kernel[0] * (fold ? 1 : attrs.kernel[1]);
  work.depth_blocks = ceil_div(fold ? channels * attrs.kernel[1] : channels, 32);
  work.split_rows = work.rows * (window ? attrs.strides[0] * (fold ? 1 : attrs.strides[1]) : 1);
  work.products = work.rows * attrs.channels * channels * attrs.kernel[0] * attrs.kernel[1];
  return pays(work, parts, machine);
}

bool dense_pays(const TensorType& data, int64_t units, int64_t parts, const MachineModel& machine) {
  if (data.dtype != DType::kF32 || data.shape.empty() || !data.shape.back().is_constant()) return false;
  TileWork work;
  for (size_t i = 0; i + 1 < data.shape.size(); ++i) work.rows *= constant_or(data.shape[i], 64);
  work.split_rows = work.rows;
  work.columns = units;
  work.depth_blocks = ceil_div(data.shape.back().value(), 32);
  work.products = work.rows * units * data.shape.back().value();
  // Few rows are bound by the weights' stream, which bf16 halves.
  if (parts == 1 && work.rows < 16) return work.products >= (int64_t{1} << 18);
  return pays(work, parts, machine);
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
  policy.tile_parts = parts;
  policy.conv_algorithm = [machine, parts, otherwise = policy.conv_algorithm](
                              const ConvAttrs& attrs, const TensorType& data, const TensorType& result) {
    if (conv_pays(attrs, data, result, parts, machine)) return ConvAlgorithm::kTiles;
    return otherwise ? otherwise(attrs, data, result) : ConvAlgorithm::kDirect;
  };
  policy.dense_tiles = [machine, parts](const TensorType& data, int64_t units) {
    return dense_pays(data, units, parts, machine);
  };
}

}  // namespace gantry::cpu
