// Matrix products for tile registers (AMX): what nn.conv and nn.dense with `tile_parts` > 0 share.
//
// The left operand becomes rows of bf16 in blocks of 32 along k, the right one (weights) tiles of 16 x 32 as
// the instructions read them. An f32 value is split into bf16 parts, x = x0 + x1 + x2 + rest, each the
// nearest bf16 of what the parts before leave. `tile_parts` says how many parts weights have; rows have three
// unless it is 1, for they are split as they are used and cost no memory traffic. With x a row's and y a
// weight's element:
//
//   parts  products                                   |error| of one product x y, at most
//   1      x0 y0                                      2^-8  |x y| (bf16)
//   2      x0 y0, x1 y0, x2 y0, x0 y1, x1 y1          2^-17 |x y|, nearly all of it from the weight's rest
//   3      as above, x0 y2                            2^-23 |x y|, about f32's own rounding
//
// Sums are f32. Henry, Tang and Heinecke, "Leveraging the bfloat16 Artificial Intelligence Datatype For
// Higher-Precision Computations", 2019 (arXiv:1904.06376). Infinite operands give NaN when there are 2 or 3
// parts.
//
// Stages by tag:
//   "tile_rows"     (parts, ceil(K/32), phases, rows, 32), bf16, 0 beyond K: the operand's rows. Rows of one
//   phase are
//                   the positions that a tap of the window meets from one result to the next; a tap is a
//                   phase and a distance in rows, so the product reads rows that adjoin. Between the rows of
//                   two lines of an image are those that only windows over the edge meet: the product
//                   computes them in vain.
//   "tile_product"  (rows, columns), f32: sums over (ceil(K/32), taps…, 32)
//   "tile_output"   the result's axes, reads the product
// Both row extents are larger than what is read of them, so that blocks of rows may be rounded up to whole
// tiles.
#pragma once

#include <utility>

#include "host/ops/conv.h"
#include "host/ops/op.h"

namespace gantry {

/// nn.tile_weight: (O, I, KH, KW), or (K, units) with `dense`, -> (NB, KC, KH, KW, parts, column_tiles, 16,
/// 32) in bf16, zero-filled: columns 16 * (nb * column_tiles + t) + j / 2, depths 32 * kc + 2 * i + j % 2 at
/// [.., i, j]. With `fold_width` the window's columns are part of the depth, (kw, i), and KW is 1.
struct TileWeightAttrs : AttrsOf<TileWeightAttrs> {
  int64_t parts = 1;         ///< 1 to 3
  int64_t column_tiles = 2;  ///< adjoining tiles of columns
  bool fold_width = false;
  bool dense = false;
  void fields(AttrVisitor& visit) override {
    visit("parts", parts);
    visit("column_tiles", column_tiles);
    visit("fold_width", fold_width);
    visit("dense", dense);
  }
};

/// Columns of a weight block: 16 * column_tiles of a product with `columns` columns.
int64_t tile_columns(int64_t columns);
/// Parts of the rows for weights of so many parts.
int64_t tile_row_parts(int64_t parts);
/// The parts (of rows, of weights) whose products are summed.
std::vector<std::pair<int, int>> tile_products(int64_t parts);

/// True if a convolution can be computed so: two spatial axes, no groups, f32.
bool fits_tiles(const ConvAttrs& attrs, DType dtype);
/// True if the window's columns should be part of the depth: few channels, which would leave tiles nearly
/// empty.
bool folds_width(const ConvAttrs& attrs, int64_t channels_in);
/// The shape of the packed weight.
Shape tile_weight_shape(const ConvAttrs& attrs, int64_t channels_in);
Shape tile_weight_shape(int64_t depth, int64_t units, int64_t parts);

/// x (N, H, W, C), weight as above; the result (N, OH, OW, O) in f32.
Tensor conv_tiles(const Node& node, const ConvAttrs& attrs, const Tensor& x, const Tensor& weight);
/// x (…, K); the result (…, units).
Tensor dense_tiles(const Node& node, int64_t parts, const Tensor& x, const Tensor& weight);

}  // namespace gantry
