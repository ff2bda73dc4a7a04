// Matrix products for instructions that multiply tiles of bf16 (host/machine/tile_unit.h): what nn.conv and
// nn.dense with `tile_parts` > 0 share. Units of f16 elements take one part, in place of bf16.
//
// The left operand becomes rows of bf16 in blocks along k, the right one (weights) tiles as the instructions
// read them. An f32 value is split into bf16 parts, x = x0 + x1 + x2 + rest: a weight's are each the nearest
// bf16 of what the parts before leave; a row's are cut off, 8 bits of the significand each, which leaves no
// rest. `tile_parts` says how many parts weights have; rows have three unless it is 1 (the nearest bf16), for
// they are split as they are used and cost no memory traffic. With x a row's and y a weight's element:
//
//   parts  products                                   |error| of one product x y, at most
//   1      x0 y0                                      2^-8  |x y| (bf16)
//   2      x0 y0, x1 y0, x2 y0, x0 y1, x1 y1          2^-17 |x y|, nearly all of it from the weight's rest
//   3      as above, x0 y2                            2^-22 |x y|, about f32's own rounding: x2 y1 and x1 y2
//
// Sums are f32; BFMMLA rounds them to odd, three times for four products, VDPBF16PS after every product.
// Henry, Tang and Heinecke, "Leveraging the bfloat16 Artificial Intelligence Datatype For Higher-Precision
// Computations", 2019 (arXiv:1904.06376). Infinite operands give NaN when there are 2 or 3 parts.
//
// Stages (kTileRows, kTileProduct, kTileOutput):
//   "tile_rows"     (parts, ceil(K/block), phases, rows, 32), bf16, 0 beyond K: the operand's rows. Rows of
//                   one phase are the positions that a tap of the window meets from one result to the next; a
//                   tap is a phase and a distance in rows, so the product reads rows that adjoin. Between the
//                   rows of two lines of an image are those that only windows over the edge meet: the product
//                   computes them in vain. AMX, VDPBF16PS: 32 elements of the row. BFMMLA: 16, in fours, each
//                   followed by the four of the next row.
//   "tile_product"  (rows, columns), f32: sums over (ceil(K/block), taps…, block)
//   "tile_output"   the result's axes, reads the product
// Both row extents are larger than what is read of them, so that blocks of rows may be rounded up to whole
// tiles.
#pragma once

#include <utility>

#include "host/graph/op_handle.h"
#include "host/ops/conv.h"
#include "host/ops/dense.h"
#include "host/ops/op.h"

namespace gantry {

/// nn.tile_weight: (O, I, KH, KW), (O, I, KW), or (K, units) with `dense`, -> (NB, KC, KH, KW, parts,
/// column_tiles, block / s, 32) in bf16, zero-filled, with s elements side by side in columns by the `pack`:
/// columns pack * (nb * column_tiles + t) + j / s, depths block * kc + s * i + j % s at [.., i, j]. AMX and
/// VDPBF16PS: block 32, s 2, pack 16; BFMMLA: 16, 4, 8. With `fold_width` the window's columns are part of
/// the depth, (kw, i), and KW is 1.
struct TileWeightAttrs : AttrsOf<TileWeightAttrs> {
  int64_t parts = 1;         ///< 1 to 3
  int64_t column_tiles = 2;  ///< adjoining packs of columns
  bool fold_width = false;
  bool dense = false;
  TileUnit unit{};
  void fields(AttrVisitor& visit) override {
    visit("parts", parts);
    visit("column_tiles", column_tiles);
    visit("fold_width", fold_width);
    visit("dense", dense);
    visit_tile_unit(visit, unit);
  }
};

/// What nn.tile_weight makes of a constant weight of type TileGeometry::weight(), of type `packed`, for a
/// unit as described, whether or not it is among tile_units(): integers of one or two bytes as they are, f32
/// as parts of bf16 or f16. An internal error if the unit multiplies other elements, or the weight is of
/// another type.
ConstantPtr pack_weight(const TileGeometry& tile, const TileWeightAttrs& attrs, const ConstantData& weight,
                        const TensorType& packed);

/// Blocks of rows may go beyond the last result by so many: "tile_rows" and "tile_product" have so many more
/// rows than are read of them.
constexpr int64_t kTileRowSlack = 31;

/// Packs of columns of a weight block, for a product with `columns` columns.
int64_t tile_columns(TileUnit unit, int64_t columns);
/// Parts of the rows for weights of so many parts.
int64_t tile_row_parts(int64_t parts);
/// The parts (of rows, of weights) whose products are summed.
std::vector<std::pair<int, int>> tile_products(int64_t parts);

/// A convolution of sequences as one of images of a line each; those of images as they are.
ConvAttrs as_image(ConvAttrs attrs);
/// Data or results of such a convolution in the model's order of axes: (N, C, W) as (N, C, 1, W).
TensorType as_image(TensorType type);
/// True if a convolution can be computed so: one or two spatial axes, no groups, f32.
bool fits_tiles(const ConvAttrs& attrs, DType dtype);
/// True if the window's columns should be part of the depth: few channels, which would leave tiles nearly
/// empty.
bool folds_width(const ConvAttrs& attrs, int64_t channels_in);
/// The shape of the packed weight.
Shape tile_weight_shape(const ConvAttrs& attrs, int64_t channels_in);
Shape tile_weight_shape(const DenseAttrs& attrs, int64_t depth);

/// x (N, H, W, C) or (N, W, C), weight as above; the result (N, OH, OW, O) or (N, OW, O) in f32.
Tensor conv_tiles(const Node& node, const ConvAttrs& attrs, const Tensor& x, const Tensor& weight);
/// x (…, K); the result (…, units).
Tensor dense_tiles(const Node& node, const DenseAttrs& attrs, const Tensor& x, const Tensor& weight);

namespace nn {
inline constexpr Op<TileWeightAttrs> tile_weight{"nn.tile_weight"};
}  // namespace nn

}  // namespace gantry
