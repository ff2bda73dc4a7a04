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
  const size_t rank = a.spatial_rank();
  if (rank != 2 && rank != 3) return false;
  for (size_t i = rank - 2; i < rank; ++i)
    if (a.kernel[i] != 3 || a.strides[i] != 1 || a.dilations[i] != 1) return false;
  return true;
}

int64_t winograd_slices(const ConvAttrs& a) {
  return a.spatial_rank() == 3 ? a.kernel[0] : 1;
}

namespace {

using ops::Matrix;

Expr count_of(const std::vector<Expr>& tiles) {
  Expr count = tiles[0];
  for (size_t i = 1; i < tiles.size(); ++i) count = count * tiles[i];
  return count;
}

/// What a tile of a volume reads at its input `k`, of those of conv.h: a slice and a channel.
struct SliceAndChannel {
  Expr slice, channel;
};

SliceAndChannel slice_and_channel(const ConvAttrs& a, const Expr& k, const Expr& channels) {
  const int64_t slices = winograd_slices(a);
  if (slices == 1) return {0, k};
  const Expr of_group = floordiv(channels, a.groups);
  const Expr slice = mod(floordiv(k, of_group), slices);
  if (a.groups == 1) return {floordiv(k, of_group), mod(k, of_group)};
  return {slice, floordiv(k, of_group * slices) * of_group + mod(k, of_group)};
}

/// Data of every tile after the transformation, (t*t, count, slices*C); 0 where `count` is more than there
/// are tiles.
Tensor transformed_input(const ConvAttrs& a, const Tensor& x, const std::vector<Expr>& tiles,
                         const Expr& count, int64_t m, DType dtype) {
  const int64_t t = m + 2;
  const Matrix& matrix = ops::winograd_transforms(m).input;
  const bool whole = structurally_equal(count, count_of(tiles));
  const Expr channels = x.shape().back() * winograd_slices(a);
  const size_t rank = a.spatial_rank();
  auto patch_body = [&](const std::vector<Expr>& i) {
    const std::vector<Expr> tile = ops::unflatten(i[2], tiles);
    const auto [slice, channel] = slice_and_channel(a, i[3], x.shape().back());
    std::vector<Expr> at{tile[0]};
    if (rank == 3) at.push_back(tile[1] * a.strides[0] + slice * a.dilations[0] - Expr(a.padding[0]));
    at.push_back(tile[rank - 1] * m + i[0] - Expr(a.padding[rank - 2]));
    at.push_back(tile[rank] * m + i[1] - Expr(a.padding[rank - 1]));
    Expr inside = ge(at[1], 0) && lt(at[1], x.shape()[1]);
    for (size_t axis = 2; axis <= rank; ++axis)
      inside = inside && ge(at[axis], 0) && lt(at[axis], x.shape()[axis]);
    if (!whole) inside = inside && lt(i[2], count_of(tiles));
    at.push_back(channel);
    return if_then_else(inside, ops::widen(x(at)), const_of(ops::widened(x.dtype()), 0));
  };
  Tensor patch = compute({t, t, count, channels}, patch_body, "winograd_patch", Role::kWinogradPatch);
  auto rows_body = [&](const std::vector<Expr>& i) {
    return ops::winograd_row(matrix, i[0], [&](int64_t row) { return patch({row, i[1], i[2], i[3]}); });
  };
  Tensor rows = compute({t, t, count, channels}, rows_body, "winograd_rows", Role::kWinogradRows);
  auto body = [&](const std::vector<Expr>& i) {
    Expr r = floordiv(i[0], t), s = mod(i[0], t);
    return cast(dtype, ops::winograd_row(matrix, s, [&](int64_t column) {
                  return rows({r, column, i[1], i[2]});
                }));
  };
  return compute({t * t, count, channels}, body, "winograd_input", Role::kWinogradInput);
}

/// Of data (t*t, tiles, slices*C) and weights (blocks, t*t, slices*C / groups, nb): (t*t, tiles, blocks, nb).
Tensor blocked_product(const ConvAttrs& a, const Tensor& data, const Tensor& weight) {
  const Expr inputs = weight.shape()[2];
  const int64_t group_blocks = ceil_div(a.channels / a.groups, a.form.weight_block);
  auto c = reduce_axis(0, inputs, "c");
  auto body = [&](const std::vector<Expr>& i) {
    const Expr channel = a.groups > 1 ? floordiv(i[2], group_blocks) * inputs + c->var : Expr(c->var);
    return sum(ops::widen(data({i[0], i[1], channel})) * ops::widen(weight({i[2], i[0], c->var, i[3]})), {c});
  };
  return compute({data.shape()[0], data.shape()[1], weight.shape()[0], weight.shape()[3]}, body,
                 "winograd_product", Role::kWinogradProduct);
}

/// The products of all positions, read as (position, tile, channel).
std::function<Expr(const Expr&, const Expr&, const Expr&)> products(const ConvAttrs& a, const Tensor& x,
                                                                    const std::vector<Expr>& tiles,
                                                                    const Tensor& weight) {
  const int64_t m = winograd_tile(a.form.algorithm), nb = a.form.weight_block;
  Expr count = count_of(tiles);
  if (a.form.on_tiles()) {
    const TileGeometry& tile = geometry_of(a.form.tile_unit);
    Expr rows = simplify(ops::with_row_slack(count));
    Tensor data = transformed_input(a, x, tiles, rows, m, DType::kF32);
    auto element = [&](const Expr& position, const Expr& row, const Expr& k) {
      return data({position, row, k});
    };
    const int64_t depth = simplify(data.shape().back()).as<IntImmNode>()->value;
    Tensor operand = ops::tile_rows(tile, a.form.tile_parts, depth, data.shape()[0], rows, element);
    Tensor product = ops::tile_products_by_phase(tile, a.form.tile_parts, operand, weight, rows);
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
  const int64_t m = winograd_tile(a.form.algorithm), t = m + 2;
  const Matrix& matrix = ops::winograd_transforms(m).output;
  const std::vector<Expr> shape = ops::result_shape(node);
  const size_t rank = a.spatial_rank();
  std::vector<Expr> tiles(shape.begin(), shape.end() - 1);
  for (size_t axis : {rank - 1, rank}) tiles[axis] = floordiv(shape[axis] + (m - 1), m);
  const auto product_at = products(a, x, tiles, weight);
  auto columns_body = [&](const std::vector<Expr>& i) {
    return ops::winograd_row(matrix, i[0],
                             [&](int64_t row) { return product_at(i[1] + row * t, i[2], i[3]); });
  };
  Tensor columns = compute({m, t, count_of(tiles), shape.back()}, columns_body, "winograd_columns",
                           Role::kWinogradColumns);
  auto body = [&](const std::vector<Expr>& i) {
    std::vector<Expr> tile(i.begin(), i.end() - 1);
    for (size_t axis : {rank - 1, rank}) tile[axis] = floordiv(i[axis], m);
    return ops::winograd_row(matrix, mod(i[rank], m), [&](int64_t column) {
      return columns({mod(i[rank - 1], m), column, ops::flatten(tile, tiles), i.back()});
    });
  };
  return compute(shape, body, "winograd_output", Role::kWinogradOutput);
}

}  // namespace gantry
