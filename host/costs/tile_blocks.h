// The blocks into which products on tile registers are cut (host/targets/cpu/rule_tiles.cpp).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "host/machine/target.h"
#include "host/machine/tile_unit.h"

namespace gantry::costs {

/// A way to cut the rows of a product: `size` rows or lines of an image a block, `count` blocks, each
/// computing `rows` rows, whole tiles. Lower tiles, or fewer, than the registers have room for take less time
/// and may fit the rows better.
struct RowBlocks {
  int64_t size = 1, count = 1, rows = 1;
  int64_t tile_rows = 16;        ///< of a tile
  int64_t unit_rows = 16;        ///< of the tiles accumulated at once: `rows` is a multiple
  bool small_operand = false;    ///< what a block reads of the operand may be made for it alone
  bool resident_operand = true;  ///< what a block reads of the operand stays in the second-level cache
  bool few = false;  ///< only a run tells how many there are, perhaps one: columns are shared out, not rows
};

/// Weights beyond this are read once for all rows, not once a block of rows.
constexpr int64_t kResidentWeightBytes = 1 << 20;

struct TileProductWork {
  TileUnit unit{};
  std::vector<RowBlocks> choices;
  int64_t columns = 1;       ///< whole tiles
  int64_t column_unit = 32;  ///< of the tiles accumulated at once: what a block must be a multiple of
  int64_t weight_bytes = 0;
  int64_t given_rows = 0;     ///< RowBlocks::size; 0: whatever takes the least, as of:
  int64_t given_columns = 0;  ///< TileBlocks::columns
  int given_own_rows = -1;    ///< TileBlocks::own_rows; -1: where that takes the least
};

struct TileBlocks {
  RowBlocks rows;
  int64_t columns = 32;        ///< a block
  bool weights_first = false;  ///< blocks of columns outside: weights are read once for all rows
  bool own_rows = false;       ///< each block of rows makes its part of the operand, and computes all columns
};

/// `count` blocks of `rows` rows in whole tiles: lower ones, as the fewest of them of the fewest rows, where
/// there are any; else as many at once as take the least time.
RowBlocks in_tiles(int64_t size, int64_t count, int64_t rows, TileUnit unit);
/// Ways to cut `extent` results that adjoin.
std::vector<RowBlocks> row_blocks(int64_t extent, TileUnit unit);
/// The way to cut results that adjoin, of which only a run tells how many there are: a multiple of `known`.
/// Into high blocks, whose operand is made once for many columns; but where they may be few, for units of
/// single rows, beside whose products it takes little to make it again, into the lowest.
RowBlocks open_row_blocks(int64_t known, TileUnit unit);
/// Ways to cut `lines` lines of `results` results each, `pitch` rows apart, of so many images.
std::vector<RowBlocks> line_blocks(int64_t images, int64_t lines, int64_t results, int64_t pitch,
                                   TileUnit unit);

/// Windows of which a block of rows reads so many rows beyond its own are no block's own: what they read is
/// made again for the next block.
bool reaches_far(int64_t reach, int64_t block_rows);
/// The same of every block that is possible: all rows of the operand are made before the product.
bool reaches_far(int64_t reach);

/// What so many rows cost, as full tiles: in the fewest tiles of the fewest rows.
double full_tiles(int64_t rows, TileUnit unit);

/// The fewest rows computed on the busier of two threads, weighed with what each block costs by itself. Nothing where
/// none of the choices has what is given.
std::optional<TileBlocks> choose_tile_blocks(const TileProductWork& work);

/// Columns that registers accumulate at once in these blocks, of products `depth` deep of operands as they
/// are: more than TileProductWork::column_unit where rows are few, so that no accumulator waits for itself. A
/// unit of single rows multiplies vectors as multiply-adds of f32 do, whose model
/// (host/costs/dense_model.h) chooses.
int64_t unit_columns(const TileProductWork& work, const TileBlocks& blocks, int64_t depth,
                     const MachineModel& machine);

}  // namespace gantry::costs
