/// What is known of a product on tile registers before its code is written. Private to host/loops.
#pragma once

#include <algorithm>
#include <vector>

#include "host/loops/nest_builder.h"

namespace gantry {

/// Rows of an operand's tile in memory.
struct TileSource {
  Buffer buffer;
  Expr index, stride;
};

/// One instruction: which accumulator, which operands (numbers of sources).
struct Dot {
  int accumulator, a, b;
};

/// What is known of the nest before code is written.
struct TilePlan {
  explicit TilePlan(TileUnit unit) : tile(geometry_of(unit)) {}

  const TileGeometry& tile;
  int first_tile = 0;                       ///< the leaf of row tiles
  int64_t row_tiles = 1, column_tiles = 1;  ///< of a block
  int64_t height = 1;                       ///< row tiles of it that are computed
  int64_t rows = tile.rows;                 ///< of a tile
  std::vector<int> outer, steps;  ///< reduction leaves: around data loops, and directly around the tiles
  Expr begins;                    ///< true where a sum starts; null: everywhere
  std::vector<TileSource> sources;
  std::vector<Dot> dots;

  /// What instructions read is more than a line of the cache, which cores do not fetch ahead by themselves as
  /// they do the steps of vectors.
  bool wants_hints() const {
    constexpr int64_t kLineBytes = 64;
    return tile.operand_bytes() > kLineBytes;
  }
  int accumulator(int64_t i, int64_t j) const { return static_cast<int>(i * column_tiles + j); }
  int accumulators() const { return static_cast<int>(row_tiles * column_tiles); }
  /// Registers after the accumulators are for left operands, then for weights from here on: half of them, or
  /// as many more as there are weights in a step.
  int first_weight() const {
    const int left = tile.registers - accumulators();
    return accumulators() + std::max(1, std::min(left / 2, left - static_cast<int>(column_tiles)));
  }
};

}  // namespace gantry
