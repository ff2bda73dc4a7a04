// The knobs of tiled matrix products, and the model that picks them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "host/machine/target.h"
#include "host/targets/cuda/gpu_model.h"

namespace gantry::cuda {

/// What tiles are to have, GemmTile or MmaTile; 0: whatever takes the least.
struct GivenTile {
  int64_t bm = 0, bn = 0, bk = 0, split = 0;
  bool any() const { return bm != 0 || bn != 0 || bk != 0 || split != 0; }
  template <typename Tile>
  bool allows(const Tile& tile) const {
    const auto fits = [](int64_t wanted, int64_t is) { return wanted == 0 || wanted == is; };
    return fits(bm, tile.bm) && fits(bn, tile.bn) && fits(bk, tile.bk) && fits(split, tile.split);
  }
};

/// `batch` products of m x k by k x n. What is not known when compiling is given as a typical figure.
struct GemmWork {
  int64_t batch = 1, m = 1, n = 1, k = 1;
  bool symbolic = false;  ///< some figure above is a guess
  double a_bytes = 0;     ///< of the tensor behind operand A, at least once from memory
  GivenTile given = {};
};

/// The knobs.
struct GemmTile {
  int64_t bm = 64, bn = 64, bk = 16;  ///< of a block, in shared memory
  int64_t tm = 4, tn = 4;             ///< of a thread, in registers
  int64_t split = 1;                  ///< parts of k, summed by a second launch
  bool double_buffer = false;         ///< the next tile is loaded during the current one's products

  int64_t threads() const { return bm / tm * (bn / tn); }
  /// How the 32 lanes of a warp lie over the tile: columns, so that reads of shared memory do not collide. 0 if
  /// they do not fit it.
  int64_t lane_columns() const;
  int64_t lane_rows() const { return 32 / lane_columns(); }
  int64_t shared_bytes() const;
  std::string str() const;
};

/// Padding of a row of operand A's tile in shared memory, where it is stored transposed.
constexpr int64_t kGemmRowPadding = 4;

/// Every tile that a block can hold: 32 to 256 threads in whole warps, registers and shared memory in bounds.
std::vector<GemmTile> gemm_tile_space(const GemmWork& work, const GpuModel& gpu);
/// The launch, without the second one of a split product.
LaunchWork gemm_launch(const GemmWork& work, const GemmTile& tile, const GpuModel& gpu);
/// Seconds of all launches.
double predicted_seconds(const GemmWork& work, const GemmTile& tile, const GpuModel& gpu);
/// The fastest tile by the model, of at most so many points a thread; one of defaults where none has what is given.
GemmTile choose_gemm_tile(const GemmWork& work, const GpuModel& gpu, int64_t max_points = 64);

/// Knobs of products of few rows, which only read the matrix: every thread sums a column over a part of k for all
/// rows; a second launch sums the parts.
struct GemvTile {
  int64_t split = 1;  ///< parts of k
  int64_t threads = 128;
  std::string str() const;
};
/// Rows up to which the rule for few rows applies.
constexpr int64_t kGemvRows = 8;
double predicted_seconds(const GemmWork& work, const GemvTile& tile, const GpuModel& gpu);
GemvTile choose_gemv_tile(const GemmWork& work, const GpuModel& gpu);

}  // namespace gantry::cuda
