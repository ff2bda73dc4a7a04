// The knobs of matrix products on tensor cores, and the model that picks them.
#pragma once

#include <optional>
#include <string>

#include "host/targets/cuda/gemm_model.h"
#include "host/tensor/schedule.h"

namespace gantry::cuda {

/// The knobs.
struct MmaTile {
  MmaShape shape = MmaShape::kM16N8K8Tf32;
  int64_t bm = 64, bn = 64, bk = 32;  ///< of a block, in shared memory
  int64_t warps_m = 2, warps_n = 2;   ///< warps of a block, each with its part of the rows and columns
  int64_t split = 1;                  ///< parts of k, summed by a second launch
  bool double_buffer = false;         ///< the next tile is loaded during the current one's products

  int64_t warp_rows() const { return bm / warps_m; }
  int64_t warp_columns() const { return bn / warps_n; }
  int64_t threads() const { return 32 * warps_m * warps_n; }
  /// Of one instruction along k.
  int64_t depth() const { return geometry_of(shape).depth; }
  /// Of an element in shared memory.
  int64_t operand_bytes() const { return byte_width(geometry_of(shape).operand); }
  /// Elements added to a row of k in shared memory: the eight rows that a warp reads at once begin four banks
  /// apart.
  int64_t row_padding() const { return 16 / operand_bytes(); }
  int64_t shared_bytes() const;
  std::string str() const;
};

/// The instruction for operands of that precision; nothing if the GPU has none.
std::optional<MmaShape> mma_shape(Precision precision, const GpuModel& gpu);
/// The launch, without the second one of a split product.
LaunchWork mma_launch(const GemmWork& work, const MmaTile& tile, const GpuModel& gpu);
/// Seconds of all launches.
double predicted_seconds(const GemmWork& work, const MmaTile& tile, const GpuModel& gpu);
/// The fastest tile by the model, of at most so many results a thread. Nothing where the product has no whole
/// instruction's worth of rows, columns or depth, or the GPU no such instruction.
std::optional<MmaTile> choose_mma_tile(const GemmWork& work, Precision precision, const GpuModel& gpu,
                                       int64_t max_points = 64);

}  // namespace gantry::cuda
