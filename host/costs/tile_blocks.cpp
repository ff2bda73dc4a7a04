#include "host/costs/tile_blocks.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "host/costs/dense_model.h"
#include "host/costs/tile_model.h"
#include "host/graph/shape_guess.h"
#include "host/support/divide.h"

namespace gantry::costs {
namespace {

constexpr int64_t kPair = 32;  // rows of two tiles, which registers accumulate at once
// Of the product: leaves room in the second-level cache for the operands.
constexpr int64_t kBlockBytes = 64 << 10;
constexpr int64_t kMaxBlockRows = 448, kMaxBlockColumns = 128;
constexpr int64_t kOpenBlockRows = 128;  // at most, where their number is not known
// Of the product where the operand does not stay in that cache: each block of columns reads it again, which
// costs as much as this many columns.
constexpr int64_t kLargeBlockBytes = 192 << 10;
constexpr double kRereadColumns = 36;
// Blocks of rows that each make their part of the operand: at least so many. Where products are
// fast (TileGeometry::fast_parts), two are best on two threads: fewer blocks read the weights, and none reads
// rows that the other core made.
constexpr int64_t kOwnRowBlocks = 4, kFastOwnRowBlocks = 2;
// Rows that windows reach beyond a block are made again for the next one; as a share of the block.
constexpr double kMaxReach = 0.6;
// What a block costs by itself, in rows, and a block of columns, in columns.
constexpr double kRowOverhead = 8, kColumnOverhead = 4;
// What the tiles accumulated at once cost by themselves, in row tiles: weights are loaded for all of them.
constexpr int64_t kUnitTiles = 1;
// What it costs to write the whole operand to memory first and read it again, as that many columns.
constexpr double kOperandColumns = 60;

// Measured: what a tile of so many rows takes, as rows of full tiles. At 16 rows the instructions' throughput
// counts, below 13 their latency.
double tile_cost(int64_t rows) {
  constexpr std::array<double, 9> kCosts{10.5, 10.9, 11.2, 12.2, 12.6,
                                         14.8, 15.2, 15.6, 16.0};  // 8 to 16 rows
  return kCosts[static_cast<size_t>(std::clamp<int64_t>(rows, 8, 16) - 8)];
}

}  // namespace

RowBlocks in_tiles(int64_t size, int64_t count, int64_t rows, TileUnit unit) {
  const TileGeometry& tile = geometry_of(unit);
  RowBlocks blocks;
  blocks.size = size;
  blocks.count = count;
  if (tile.fewer_rows) {
    const int64_t tiles = rows <= kPair / 2 ? 1 : ceil_div(rows, kPair) * 2;
    blocks.tile_rows = ceil_div(rows, tiles);
    blocks.rows = tiles * blocks.tile_rows;
    blocks.unit_rows = std::min(blocks.rows, 2 * blocks.tile_rows);
    return blocks;
  }
  blocks.tile_rows = tile.rows;
  int64_t least = 0;
  for (int64_t tiles = tile.row_tiles; tiles >= 1; --tiles) {
    const int64_t units = ceil_div(rows, tiles * tile.rows);
    const int64_t cost = units * (tiles + kUnitTiles);
    if (least > 0 && cost >= least) continue;
    least = cost;
    blocks.unit_rows = tiles * tile.rows;
    blocks.rows = units * blocks.unit_rows;
  }
  return blocks;
}

bool reaches_far(int64_t reach, int64_t block_rows) {
  return double(reach) > kMaxReach * double(block_rows);
}

bool reaches_far(int64_t reach) {
  return reaches_far(reach, kMaxBlockRows);
}

double full_tiles(int64_t rows, TileUnit unit) {
  const RowBlocks blocks = in_tiles(rows, 1, rows, unit);
  const double tiles = double(blocks.rows / blocks.tile_rows);
  return geometry_of(unit).fewer_rows ? tiles * tile_cost(blocks.tile_rows) / 16 : tiles;
}

std::vector<RowBlocks> row_blocks(int64_t extent, TileUnit unit) {
  std::vector<RowBlocks> choices;
  for (int64_t count = 1; count <= extent; ++count) {
    const int64_t size = ceil_div(extent, count);
    if (size > kMaxBlockRows) continue;
    if (!choices.empty() && choices.back().size == size) continue;
    choices.push_back(in_tiles(size, ceil_div(extent, size), size, unit));
    if (size <= kPair) break;
  }
  if (choices.empty()) choices.push_back(in_tiles(extent, 1, extent, unit));
  return choices;
}

RowBlocks open_row_blocks(int64_t known, TileUnit unit) {
  const TileGeometry& tile = geometry_of(unit);
  const int64_t together = tile.row_tiles * tile.rows;
  RowBlocks blocks;
  blocks.tile_rows = tile.rows;
  blocks.unit_rows = together;
  blocks.size = blocks.rows = blocks.count = kOpenBlockRows / together * together;
  if (tile.rows > 1 || known >= kOpenBlockRows) return blocks;
  // Of a lower block fewer rows are made and stored in vain.
  blocks.size = blocks.rows = together;
  blocks.count = ceil_div(guess::value(guess::Extent::kRows), together);
  blocks.few = true;
  return blocks;
}

std::vector<RowBlocks> line_blocks(int64_t images, int64_t lines, int64_t results, int64_t pitch,
                                   TileUnit unit) {
  std::vector<RowBlocks> choices;
  for (int64_t n = 1; n <= lines; ++n) {
    const RowBlocks block = in_tiles(n, images * ceil_div(lines, n), (n - 1) * pitch + results, unit);
    if (block.rows > kMaxBlockRows && n > 1) break;
    choices.push_back(block);
  }
  return choices;
}

std::optional<TileBlocks> choose_tile_blocks(const TileProductWork& work) {
  std::optional<TileBlocks> best;
  double best_cost = INFINITY;
  const bool large_weights = work.weight_bytes > kResidentWeightBytes;
  const int64_t own_row_blocks = geometry_of(work.unit).fast_parts ? kFastOwnRowBlocks : kOwnRowBlocks;
  for (const RowBlocks& rows : work.choices) {
    if (work.given_rows != 0 && rows.size != work.given_rows) continue;
    const int64_t max_columns = rows.resident_operand ? kMaxBlockColumns : work.columns;
    for (int64_t columns = work.column_unit; columns <= std::min(work.columns, max_columns);
         columns += work.column_unit) {
      if (work.columns % columns != 0) continue;
      if (work.given_columns != 0 && columns != work.given_columns) continue;
      const bool fits = columns * rows.rows * 4 <= (rows.resident_operand ? kBlockBytes : kLargeBlockBytes) &&
                        (rows.count == 1 || !large_weights ||
                         columns * (work.weight_bytes / work.columns) <= kResidentWeightBytes);
      if (!fits && columns > work.column_unit) continue;
      const bool may_own_rows = rows.small_operand && !large_weights;
      if (work.given_own_rows == 1 && !may_own_rows) continue;
      const bool own_rows =
          may_own_rows &&
          (work.given_own_rows < 0 ? !rows.few && rows.count >= own_row_blocks : work.given_own_rows == 1);
      const int64_t tasks = own_rows   ? rows.count
                            : rows.few ? work.columns / columns
                                       : rows.count * (work.columns / columns);
      const double cost =
          double(rows.count) * (double(rows.rows) + kRowOverhead) *
          (1 + (kColumnOverhead + (rows.resident_operand ? 0 : kRereadColumns)) / double(columns)) *
          imbalance(tasks) * (own_rows ? 1 : 1 + kOperandColumns / double(work.columns));
      if (cost >= best_cost) continue;
      best_cost = cost;
      best = TileBlocks{rows, columns, large_weights, own_rows};
    }
  }
  return best;
}

int64_t unit_columns(const TileProductWork& work, const TileBlocks& blocks, int64_t depth,
                     const MachineModel& machine) {
  const TileGeometry& tile = geometry_of(work.unit);
  if (tile.rows > 1 || blocks.rows.few) return work.column_unit;
  const int lane_bytes = byte_width(tile.element) * static_cast<int>(tile.depth);
  const auto rows = static_cast<int>(blocks.rows.unit_rows);
  const DenseWork product{
      .rows = rows, .depth = ceil_div(depth, tile.depth), .units = work.columns, .element_bytes = lane_bytes};
  int64_t best = work.column_unit;
  double best_cycles = INFINITY;
  for (int64_t columns = work.column_unit; columns <= blocks.columns; columns += work.column_unit) {
    const auto vectors = static_cast<int>(columns / tile.columns);
    if (rows * vectors + vectors + 1 > tile.registers) break;
    if (blocks.columns % columns != 0) continue;
    const ProductTile together{static_cast<int>(tile.columns), vectors, rows};
    const double cycles = predicted_dense_cycles(product, {together, rows}, machine);
    // Fewer registers at the same prediction leave the compiler room.
    if (cycles >= best_cycles * 0.998) continue;
    best = columns;
    best_cycles = cycles;
  }
  return best;
}

}  // namespace gantry::costs
