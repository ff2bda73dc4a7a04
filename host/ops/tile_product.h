// Tensor expressions of products on tile registers, whatever their operand is; stages as listed in
// host/ops/tiles.h.
#pragma once

#include <functional>

#include "host/machine/tile_unit.h"
#include "host/ops/op.h"

namespace gantry::ops {

/// So many rows, and those beyond them that blocks of whole tiles may compute.
Expr with_row_slack(const Expr& rows);

/// Part `part` (an expression, below `parts`) of a weight: what is nearest to what the parts before leave.
Expr weight_part(const TileGeometry& tile, const Expr& x, const Expr& part, int64_t parts);
/// The same of a constant's element in f32: `parts` of them, `step` apart.
void store_weight_parts(const TileGeometry& tile, float x, int64_t parts, uint16_t* to, int64_t step);

/// Where element (column, depth) of a block of packed weights lies: (column_tiles, block / s, 32) elements.
inline int64_t packed_weight_offset(const TileGeometry& tile, int64_t column, int64_t depth) {
  const int64_t pack = tile.column_pack, side = tile.side_by_side;
  return column / pack * pack * tile.block_depth + depth / side * pack * side + column % pack * side +
         depth % side;
}

/// "tile_rows" of `depth` elements each, for weights of `weight_parts` parts; `element` is of the type of
/// TileGeometry::data() and asked for k < depth only.
Tensor tile_rows(const TileGeometry& tile, int64_t weight_parts, int64_t depth, const Expr& phases,
                 const Expr& rows,
                 const std::function<Expr(const Expr& phase, const Expr& row, const Expr& k)>& element);

/// The taps of a window: which rows they meet.
struct TileTaps {
  int64_t height = 1, width = 1;
  std::function<Expr(const Expr&kh, const Expr&kw)> phase, distance;  ///< of "tile_rows"
};

/// "tile_product" (rows, columns), with weights (NB, KC, KH, KW, parts, column_tiles, block / s, 32).
Tensor tile_product(const TileGeometry& tile, int64_t parts, const Tensor& a, const Tensor& w,
                    const Expr& rows, const TileTaps& taps);

/// "tile_product" (phases, rows, columns): a product for each phase, with weights (NB, phases, KC, parts,
/// column_tiles, block / s, 32).
Tensor tile_products_by_phase(const TileGeometry& tile, int64_t parts, const Tensor& a, const Tensor& w,
                              const Expr& rows);

}  // namespace gantry::ops
