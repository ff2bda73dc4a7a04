// Convolutions by Winograd's algorithm (host/ops/winograd.h) as tensor expressions.
#include "host/ops/conv_forms.h"
#include "host/ops/gemm.h"
#include "host/ops/support.h"
#include "host/ops/tile_product.h"
#include "host/ops/tiles.h"
#include "host/ops/winograd.h"
#include "host/support/divide.h"
#include "host/tensor/simplify.h"

namespace gantry {

bool fits_winograd(const ConvAttrs& a) {
  return a.kernel == std::vector<int64_t>{3, 3} && a.strides == std::vector<int64_t>{1, 1} &&
         a.dilations == std::vector<int64_t>{1, 1};
}

namespace {

using ops::Matrix;

Expr count_of(const std::vector<Expr>& tiles) {
  return tiles[0] * tiles[1] * tiles[2];
}

/// Data of every tile after the transformation, (t*t, count, C); 0 where `count` is more than there are
/// tiles.
Tensor transformed_input(const ConvAttrs& a, const Tensor& x, const std::vector<Expr>& tiles,
                         const Expr& count, int64_t m, DType dtype) {
  const int64_t t = m + 2;
  const Matrix& matrix = ops::winograd_transforms(m).input;
  const bool whole = structurally_equal(count, count_of(tiles));
  Expr channels = x.shape().back();
  auto patch_body = [&](const std::vector<Expr>& i) {
    std::vector<Expr> tile = ops::unflatten(i[2], tiles);
    Expr y = tile[1] * m + i[0] - Expr(a.padding[0]), z = tile[2] * m + i[1] - Expr(a.padding[1]);
    Expr inside = ge(y, 0) && lt(y, x.shape()[1]) && ge(z, 0) && lt(z, x.shape()[2]);
    if (!whole) inside = inside && lt(i[2], count_of(tiles));
    return if_then_else(inside, ops::widen(x({tile[0], y, z, i[3]})), const_of(ops::widened(x.dtype()), 0));
  };
  Tensor patch = compute({t, t, count, channels}, patch_body, "winograd_patch", "winograd_patch");
  auto rows_body = [&](const std::vector<Expr>& i) {
    return ops::winograd_row(matrix, i[0], [&](int64_t row) { return patch({row, i[1], i[2], i[3]}); });
  };
  Tensor rows = compute({t, t, count, channels}, rows_body, "winograd_rows", "winograd_rows");
  auto body = [&](const std::vector<Expr>& i) {
    Expr r = floordiv(i[0], t), s = mod(i[0], t);
    return cast(dtype, ops::winograd_row(matrix, s, [&](int64_t column) {
                  return rows({r, column, i[1], i[2]});
                }));
  };
  return compute({t * t, count, channels}, body, "winograd_input", "winograd_input");
}

/// Of data (t*t, tiles, C) and weights (blocks, t*t, C / groups, nb): (t*t, tiles, blocks, nb).
Tensor blocked_product(const ConvAttrs& a, const Tensor& data, const Tensor& weight) {
  const Expr inputs = weight.shape()[2];
  const int64_t group_blocks = ceil_div(a.channels / a.groups, a.weight_block);
  auto c = reduce_axis(0, inputs, "c");
  auto body = [&](const std::vector<Expr>& i) {
    const Expr channel = a.groups > 1 ? floordiv(i[2], group_blocks) * inputs + c->var : Expr(c->var);
    return sum(ops::widen(data({i[0], i[1], channel})) * ops::widen(weight({i[2], i[0], c->var, i[3]})), {c});
  };
  return compute({data.shape()[0], data.shape()[1], weight.shape()[0], weight.shape()[3]}, body,
                 "winograd_product", "winograd_product");
}

/// The products of all positions, read as (position, tile, channel).
std::function<Expr(const Expr&, const Expr&, const Expr&)> products(const ConvAttrs& a, const Tensor& x,
                                                                    const std::vector<Expr>& tiles,
                                                                    const Tensor& weight) {
  const int64_t m = winograd_tile(a.algorithm), nb = a.weight_block;
  Expr count = count_of(tiles);
  if (a.tile_parts > 0) {
    const TileGeometry& tile = geometry_of(a.tile_unit);
    Expr rows = simplify(ops::with_row_slack(count));
    Tensor data = transformed_input(a, x, tiles, rows, m, DType::kF32);
    auto element = [&](const Expr& position, const Expr& row, const Expr& k) {
      return data({position, row, k});
    };
    const int64_t depth = simplify(x.shape().back()).as<IntImmNode>()->value;
    Tensor operand = ops::tile_rows(tile, a.tile_parts, depth, data.shape()[0], rows, element);
    Tensor product = ops::tile_products_by_phase(tile, a.tile_parts, operand, weight, rows);
    return [=](const Expr& position, const Expr& row, const Expr& channel) {
      return product({position, row, channel});
    };
  }
  // f16 weights of f32 data: the transformed data are rounded, not the data.
  const bool half = weight.dtype() != x.dtype();
  Tensor data = transformed_input(a, x, tiles, count, m, half ? weight.dtype() : ops::widened(x.dtype()));
  Tensor product = nb > 0 ? blocked_product(a, data, weight) : ops::gemm(data, weight);
  return [=](const Expr& position, const Expr& tile, const Expr& channel) {
    if (nb == 0) return product({position, tile, channel});
    return product({position, tile, floordiv(channel, nb), mod(channel, nb)});
  };
}

}  // namespace

Tensor conv_winograd(const Node& node, const ConvAttrs& a, const Tensor& x, const Tensor& weight) {
  const int64_t m = winograd_tile(a.algorithm), t = m + 2;
  const Matrix& matrix = ops::winograd_transforms(m).output;
  std::vector<Expr> shape = to_exprs(node.result()->type.shape);
  std::vector<Expr> tiles{shape[0], floordiv(shape[1] + (m - 1), m), floordiv(shape[2] + (m - 1), m)};
  const auto product_at = products(a, x, tiles, weight);
  auto columns_body = [&](const std::vector<Expr>& i) {
    return ops::winograd_row(matrix, i[0],
                             [&](int64_t row) { return product_at(i[1] + row * t, i[2], i[3]); });
  };
  Tensor columns =
      compute({m, t, count_of(tiles), shape[3]}, columns_body, "winograd_columns", "winograd_columns");
  auto body = [&](const std::vector<Expr>& i) {
    Expr tile = ops::flatten({i[0], floordiv(i[1], m), floordiv(i[2], m)}, tiles);
    return ops::winograd_row(matrix, mod(i[2], m), [&](int64_t column) {
      return columns({mod(i[1], m), column, tile, i[3]});
    });
  };
  return compute(shape, body, "winograd_output", "winograd_output");
}

}  // namespace gantry
