#include "host/ops/tile_product.h"

#include "host/ops/tiles.h"
#include "host/support/divide.h"
#include "host/tensor/element.h"

namespace gantry::ops {
namespace {

/// As kTileRowSlack where the count of rows is not known: the block may be larger.
constexpr int64_t kSymbolicRowSlack = 127;

/// How the parts of an f32 are cut off.
enum class Split : uint8_t { kNearest, kTruncated };

Expr part_of(DType element, const Expr& x, int64_t part, Split split) {
  auto cut = [&](const Expr& rest) {
    return cast(element, split == Split::kNearest ? rest : call(MathFn::kTruncBf16, {rest}));
  };
  Expr rest = x;
  for (int64_t p = 0; p < part; ++p) rest = rest - cast(DType::kF32, cut(rest));
  return cut(rest);
}

Expr chosen_part(DType element, const Expr& x, const Expr& part, int64_t parts, Split split) {
  Expr value = part_of(element, x, parts - 1, split);
  for (int64_t p = parts - 1; p-- > 0;) value = select(eq(part, p), part_of(element, x, p, split), value);
  return value;
}

/// Where element `k` of a block of a row lies, from the row's first on.
Expr lane_of(const TileGeometry& tile, const Expr& k) {
  if (tile.row_pack == 1) return k;
  const int64_t side = tile.side_by_side;
  return floordiv(k, side) * (side * tile.row_pack) + mod(k, side);
}

/// The sum over the parts' products; `row` and `weight` read one part.
Expr sum_of_parts(const TileGeometry& tile, int64_t parts, const std::function<Expr(int part)>& row,
                  const std::function<Expr(int part)>& weight) {
  Expr total;
  for (auto [left, right] : tile_products(parts)) {
    Expr term = cast(tile.sum, row(left)) * cast(tile.sum, weight(right));
    total = total ? total + term : term;
  }
  return total;
}

/// The last three indices of element (column n, depth k) of packed weights.
std::vector<Expr> weight_lanes(const TileGeometry& tile, const Expr& block, const Expr& n, const Expr& k) {
  const int64_t pack = tile.column_pack, side = tile.side_by_side;
  return {floordiv(mod(n, block), pack), floordiv(k, side), mod(n, pack) * side + mod(k, side)};
}

}  // namespace

Expr with_row_slack(const Expr& rows) {
  return rows + Expr(rows.as<IntImmNode>() ? kTileRowSlack : kSymbolicRowSlack);
}

Expr weight_part(const TileGeometry& tile, const Expr& x, const Expr& part, int64_t parts) {
  return chosen_part(tile.element, x, part, parts, Split::kNearest);
}

void store_weight_parts(const TileGeometry& tile, float x, int64_t parts, uint16_t* to, int64_t step) {
  const bool half = tile.element == DType::kF16;
  for (int64_t p = 0; p < parts; ++p, to += step) {
    *to = half ? float_to_half(x) : float_to_bfloat(x);
    x -= half ? half_to_float(*to) : bfloat_to_float(*to);
  }
}

Tensor tile_rows(const TileGeometry& tile, int64_t weight_parts, int64_t depth, const Expr& phases,
                 const Expr& rows,
                 const std::function<Expr(const Expr& phase, const Expr& row, const Expr& k)>& element) {
  const int64_t parts = tile_row_parts(weight_parts), side = tile.side_by_side;
  // Cutting takes fewer instructions than rounding, and three cut parts are all of an f32.
  const Split split = parts == 1 ? Split::kNearest : Split::kTruncated;
  auto body = [&](const std::vector<Expr>& i) {
    Expr row = i[3], k = i[4];
    if (tile.row_pack > 1) {
      row = row + mod(floordiv(k, side), tile.row_pack);
      k = floordiv(k, side * tile.row_pack) * side + mod(k, side);
    }
    k = i[1] * tile.block_depth + k;
    Expr x = element(i[2], row, k);
    if (depth % tile.block_depth != 0) x = if_then_else(lt(k, Expr(depth)), x, const_of(tile.data(), 0));
    return chosen_part(tile.row_element, x, i[0], parts, split);
  };
  return compute(
      {Expr(parts), Expr(ceil_div(depth, tile.block_depth)), phases, rows, Expr(tile.row_elements())}, body,
      "tile_rows", Role::kTileRows);
}

Tensor tile_product(const TileGeometry& tile, int64_t parts, const Tensor& a, const Tensor& w,
                    const Expr& rows, const TileTaps& taps) {
  auto kc = reduce_axis(0, a.shape()[1], "kc");
  auto kh = reduce_axis(0, taps.height, "kh"), kw = reduce_axis(0, taps.width, "kw");
  auto k = reduce_axis(0, tile.block_depth, "k");
  Expr block = w.shape()[5] * tile.column_pack;
  auto body = [&](const std::vector<Expr>& i) {
    const Expr &m = i[0], &n = i[1];
    auto row = [&](int part) {
      return a({Expr(part), kc->var, taps.phase(kh->var, kw->var), m + taps.distance(kh->var, kw->var),
                lane_of(tile, k->var)});
    };
    auto weight = [&](int part) {
      std::vector<Expr> at{floordiv(n, block), kc->var, kh->var, kw->var, Expr(part)};
      for (const Expr& index : weight_lanes(tile, block, n, k->var)) at.push_back(index);
      return w(at);
    };
    return sum(sum_of_parts(tile, parts, row, weight), {kc, kh, kw, k});
  };
  return compute({rows, w.shape()[0] * block}, body, "tile_product", Role::kTileProduct);
}

Tensor tile_products_by_phase(const TileGeometry& tile, int64_t parts, const Tensor& a, const Tensor& w,
                              const Expr& rows) {
  auto kc = reduce_axis(0, a.shape()[1], "kc"), k = reduce_axis(0, tile.block_depth, "k");
  Expr block = w.shape()[4] * tile.column_pack;
  auto body = [&](const std::vector<Expr>& i) {
    const Expr &phase = i[0], &m = i[1], &n = i[2];
    auto row = [&](int part) { return a({Expr(part), kc->var, phase, m, lane_of(tile, k->var)}); };
    auto weight = [&](int part) {
      std::vector<Expr> at{floordiv(n, block), phase, kc->var, Expr(part)};
      for (const Expr& index : weight_lanes(tile, block, n, k->var)) at.push_back(index);
      return w(at);
    };
    return sum(sum_of_parts(tile, parts, row, weight), {kc, k});
  };
  return compute({a.shape()[2], rows, w.shape()[0] * block}, body, "tile_product", Role::kTileProduct);
}

}  // namespace gantry::ops

namespace gantry {

std::vector<std::pair<int, int>> tile_products(int64_t parts) {
  if (parts == 1) return {{0, 0}};
  if (parts == 2) return {{2, 0}, {1, 0}, {0, 0}, {0, 1}, {1, 1}};
  return {{2, 0}, {1, 0}, {0, 0}, {0, 1}, {1, 1}, {0, 2}};
}

int64_t tile_row_parts(int64_t parts) {
  return parts == 1 ? 1 : 3;
}

}  // namespace gantry
