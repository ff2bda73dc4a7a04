#include "host/ops/tiles.h"

#include <algorithm>
#include <cstring>

#include "host/ops/families.h"
#include "host/ops/gemm.h"
#include "host/ops/support.h"
#include "host/support/divide.h"
#include "host/tensor/element.h"
#include "host/tensor/simplify.h"

namespace gantry {
namespace {

constexpr int64_t kDepth = 32, kTile = 16;
/// Blocks of rows may go beyond the last result by less than this; where the count of rows is not known, the
/// block may be larger.
constexpr int64_t kRowSlack = 31, kSymbolicRowSlack = 127;

Expr bf16(const Expr& x) {
  return cast(DType::kBF16, x);
}

/// Part `part` of an f32.
Expr part_of(const Expr& x, int64_t part) {
  Expr rest = x;
  for (int64_t p = 0; p < part; ++p) rest = rest - cast(DType::kF32, bf16(rest));
  return bf16(rest);
}

Expr chosen_part(const Expr& x, const Expr& part, int64_t parts) {
  Expr value = part_of(x, parts - 1);
  for (int64_t p = parts - 1; p-- > 0;) value = select(eq(part, p), part_of(x, p), value);
  return value;
}

/// How the window's taps meet the rows of "tile_rows".
struct RowGrid {
  int64_t kernel[2], stride[2], dilation[2];
  int64_t phases[2];
  int64_t reach[2];     ///< lines and columns that the last tap reaches beyond the first
  Expr lines, columns;  ///< rows of one image: lines x columns of them

  Expr phase(const Expr& kh, const Expr& kw) const { return tap_phase(0, kh) * phases[1] + tap_phase(1, kw); }
  Expr distance(const Expr& kh, const Expr& kw) const {
    return tap_distance(0, kh) * columns + tap_distance(1, kw);
  }
  Expr max_distance() const { return columns * reach[0] + Expr(reach[1]); }

 private:
  Expr tap_phase(int i, const Expr& k) const {
    return phases[i] == 1 ? Expr(0) : mod(k * dilation[i], stride[i]);
  }
  Expr tap_distance(int i, const Expr& k) const {
    return stride[i] == 1 ? k * dilation[i] : floordiv(k * dilation[i], stride[i]);
  }
};

RowGrid row_grid(const ConvAttrs& a, const std::vector<Expr>& result) {
  RowGrid grid;
  for (int i = 0; i < 2; ++i) {
    auto at = static_cast<size_t>(i);
    grid.kernel[i] = i == 1 && a.tile_fold_width ? 1 : a.kernel[at];
    grid.stride[i] = a.strides[at];
    grid.dilation[i] = a.dilations[at];
    grid.phases[i] = grid.kernel[i] == 1 ? 1 : grid.stride[i];
    grid.reach[i] = (grid.kernel[i] - 1) * grid.dilation[i] / grid.stride[i];
  }
  grid.lines = result[1] + Expr(grid.reach[0]);
  grid.columns = result[2] + Expr(grid.reach[1]);
  return grid;
}

/// Rows that blocks of whole tiles may compute for so many results.
Expr with_slack(const Expr& rows) {
  return rows + Expr(rows.as<IntImmNode>() ? kRowSlack : kSymbolicRowSlack);
}

/// "tile_rows" of `depth` elements each; `element(phase, row, k)` is f32, for k < depth.
Tensor tile_rows(int64_t weight_parts, const Expr& depth, const Expr& phases, const Expr& rows,
                 bool whole_depth,
                 const std::function<Expr(const Expr& phase, const Expr& row, const Expr& k)>& element) {
  const int64_t parts = tile_row_parts(weight_parts);
  auto body = [&](const std::vector<Expr>& i) {
    Expr k = i[1] * kDepth + i[4];
    Expr x = element(i[2], i[3], k);
    if (!whole_depth) x = if_then_else(lt(k, depth), x, const_of(DType::kF32, 0));
    return chosen_part(x, i[0], parts);
  };
  Expr blocks = floordiv(depth + Expr(kDepth - 1), kDepth);
  return compute({Expr(parts), blocks, phases, rows, Expr(kDepth)}, body, "tile_rows", "tile_rows");
}

/// "tile_product": `rows` results, whose taps reach `distance` rows.
Tensor tile_product(int64_t parts, const Tensor& a, const Tensor& w, const Expr& rows, int64_t kernel_height,
                    int64_t kernel_width, const std::function<Expr(Expr, Expr)>& phase,
                    const std::function<Expr(Expr, Expr)>& distance) {
  auto kc = reduce_axis(0, a.shape()[1], "kc");
  auto kh = reduce_axis(0, kernel_height, "kh"), kw = reduce_axis(0, kernel_width, "kw");
  auto k = reduce_axis(0, kDepth, "k");
  const Expr& column_tiles = w.shape()[5];
  Expr block = column_tiles * kTile;
  auto body = [&](const std::vector<Expr>& i) {
    const Expr &m = i[0], &n = i[1];
    Expr sum_of_products;
    for (auto [left, right] : tile_products(parts)) {
      Expr x = a({Expr(left), kc->var, phase(kh->var, kw->var), m + distance(kh->var, kw->var), k->var});
      Expr y = w({floordiv(n, block), kc->var, kh->var, kw->var, Expr(right), floordiv(mod(n, block), kTile),
                  floordiv(k->var, 2), mod(n, kTile) * 2 + mod(k->var, 2)});
      Expr term = cast(DType::kF32, x) * cast(DType::kF32, y);
      sum_of_products = sum_of_products ? sum_of_products + term : term;
    }
    return sum(sum_of_products, {kc, kh, kw, k});
  };
  return compute({rows, w.shape()[0] * block}, body, "tile_product", "tile_product");
}

}  // namespace

int64_t tile_columns(int64_t columns) {
  return columns <= kTile ? 1 : 2;
}

std::vector<std::pair<int, int>> tile_products(int64_t parts) {
  if (parts == 1) return {{0, 0}};
  if (parts == 2) return {{2, 0}, {1, 0}, {0, 0}, {0, 1}, {1, 1}};
  return {{2, 0}, {1, 0}, {0, 0}, {0, 1}, {1, 1}, {0, 2}};
}

int64_t tile_row_parts(int64_t parts) {
  return parts == 1 ? 1 : 3;
}

bool fits_tiles(const ConvAttrs& a, DType dtype) {
  return a.spatial_rank() == 2 && a.groups == 1 && dtype == DType::kF32;
}

bool folds_width(const ConvAttrs& a, int64_t channels_in) {
  return a.kernel[1] > 1 && a.dilations[1] == 1 && channels_in <= 16;
}

Shape tile_weight_shape(const ConvAttrs& a, int64_t channels_in) {
  int64_t nt = tile_columns(a.channels);
  int64_t depth = a.tile_fold_width ? a.kernel[1] * channels_in : channels_in;
  return {ceil_div(a.channels, nt * kTile),
          ceil_div(depth, kDepth),
          a.kernel[0],
          a.tile_fold_width ? 1 : a.kernel[1],
          a.tile_parts,
          nt,
          kTile,
          kDepth};
}

Shape tile_weight_shape(int64_t depth, int64_t units, int64_t parts) {
  int64_t nt = tile_columns(units);
  return {ceil_div(units, nt * kTile), ceil_div(depth, kDepth), 1, 1, parts, nt, kTile, kDepth};
}

Tensor conv_tiles(const Node& node, const ConvAttrs& a, const Tensor& x, const Tensor& weight) {
  std::vector<Expr> result = to_exprs(node.result()->type.shape);
  RowGrid grid = row_grid(a, result);
  Expr image = grid.lines * grid.columns;
  Expr lines_left = Expr(0) - Expr(grid.reach[0]);  // the last image's
  Expr count = simplify((result[0] * grid.lines + lines_left) * grid.columns - Expr(grid.reach[1]));
  Expr rows = with_slack(count);
  const std::vector<Expr>& shape = x.shape();
  const Expr& channels = shape[3];
  Expr depth = a.tile_fold_width ? channels * a.kernel[1] : channels;
  auto depth_constant =
      depth.as<IntImmNode>() ? depth.as<IntImmNode>()->value : simplify(depth).as<IntImmNode>()->value;
  Expr batch = result[0];
  bool padded = std::any_of(a.padding.begin(), a.padding.end(), [](const Dim& d) { return !(d == Dim(0)); });
  auto element = [&](const Expr& phase, const Expr& row, const Expr& k) {
    Expr n = floordiv(row, image), in_image = mod(row, image);
    Expr line = floordiv(in_image, grid.columns), column = mod(in_image, grid.columns);
    Expr y = line * grid.stride[0] + floordiv(phase, grid.phases[1]) - Expr(a.padding[0]);
    Expr z = column * grid.stride[1] + mod(phase, grid.phases[1]) - Expr(a.padding[1]);
    // Where the lines of taps go beyond the data, also without padding: rows that only make up whole tiles.
    Expr inside = lt(row, batch * image);
    if (padded || grid.stride[0] > 1) inside = inside && ge(y, 0) && lt(y, shape[1]);
    Expr value;
    if (a.tile_fold_width) {
      // One line of the image is contiguous: so many elements from its start.
      Expr position = z * channels + k;
      inside = inside && ge(position, 0) && lt(position, shape[2] * channels);
      value = x({n, y, floordiv(position, channels), mod(position, channels)});
    } else {
      if (padded || grid.stride[1] > 1) inside = inside && ge(z, 0) && lt(z, shape[2]);
      value = x({n, y, z, k});
    }
    return if_then_else(inside, value, const_of(DType::kF32, 0));
  };
  Tensor data = tile_rows(a.tile_parts, Expr(depth_constant), Expr(grid.phases[0] * grid.phases[1]),
                          simplify(rows + grid.max_distance()), depth_constant % kDepth == 0, element);
  Tensor product = tile_product(
      a.tile_parts, data, weight, simplify(rows), grid.kernel[0], grid.kernel[1],
      [&](const Expr& kh, const Expr& kw) { return grid.phase(kh, kw); },
      [&](const Expr& kh, const Expr& kw) { return grid.distance(kh, kw); });
  auto output = [&](const std::vector<Expr>& i) {
    return product({(i[0] * grid.lines + i[1]) * grid.columns + i[2], i[3]});
  };
  return compute(result, output, "tile_output", "tile_output");
}

Tensor dense_tiles(const Node& node, int64_t parts, const Tensor& x, const Tensor& weight) {
  std::vector<Expr> extents(x.shape().begin(), x.shape().end() - 1);
  Expr count(1);
  for (const Expr& extent : extents) count = count * extent;
  count = simplify(count);
  Expr rows = simplify(with_slack(count));
  int64_t depth = simplify(x.shape().back()).as<IntImmNode>()->value;
  auto element = [&](const Expr&, const Expr& row, const Expr& k) {
    std::vector<Expr> at = ops::unflatten(row, extents);
    at.push_back(k);
    return if_then_else(lt(row, count), x(at), const_of(DType::kF32, 0));
  };
  Tensor data = tile_rows(parts, Expr(depth), Expr(1), rows, depth % kDepth == 0, element);
  auto none = [](const Expr&, const Expr&) { return Expr(0); };
  Tensor product = tile_product(parts, data, weight, rows, 1, 1, none, none);
  auto output = [&](const std::vector<Expr>& i) {
    return product({ops::flatten({i.begin(), i.end() - 1}, extents), i.back()});
  };
  return compute(to_exprs(node.result()->type.shape), output, "tile_output", "tile_output");
}

// --- nn.tile_weight

namespace {

/// The weight's extents as (O, I, KH, KW), and distances between elements.
struct WeightView {
  int64_t extent[4], stride[4];
  int64_t depth(const TileWeightAttrs& a) const { return a.fold_width ? extent[1] * extent[3] : extent[1]; }
};

WeightView view_of(const TileWeightAttrs& a, const TensorType& w) {
  auto d = [&](size_t i) { return w.shape[i].value(); };
  if (a.dense) return {{d(1), d(0), 1, 1}, {1, d(1), 0, 0}};
  return {{d(0), d(1), d(2), d(3)}, {d(1) * d(2) * d(3), d(2) * d(3), d(3), 1}};
}

std::vector<TensorType> infer_tile_weight(const Node& node, Function&) {
  const TensorType& w = ops::input_type(node, 0);
  const auto& a = node.attrs_as<TileWeightAttrs>();
  ops::require(w.rank() == (a.dense ? 2 : 4) && w.dtype == DType::kF32 && constant_shape(w.shape).has_value(),
               "the weight {} must be a constant f32 of {} dimensions", w.str(), a.dense ? 2 : 4);
  ops::require(a.parts >= 1 && a.parts <= 3 && a.column_tiles >= 1,
               "parts must be 1 to 3, column_tiles positive");
  WeightView view = view_of(a, w);
  return {{DType::kBF16,
           {ceil_div(view.extent[0], a.column_tiles * kTile), ceil_div(view.depth(a), kDepth), view.extent[2],
            a.fold_width ? 1 : view.extent[3], a.parts, a.column_tiles, kTile, kDepth}}};
}

std::vector<Tensor> compute_tile_weight(const Node& node, const std::vector<Tensor>& in) {
  const auto& a = node.attrs_as<TileWeightAttrs>();
  WeightView view = view_of(a, node.inputs[0]->type);
  const Tensor& w = in[0];
  auto body = [&](const std::vector<Expr>& i) {
    Expr o = (i[0] * a.column_tiles + i[5]) * kTile + floordiv(i[7], 2);
    Expr k = i[1] * kDepth + i[6] * 2 + mod(i[7], 2);
    Expr channel = a.fold_width ? mod(k, view.extent[1]) : k;
    Expr kw = a.fold_width ? floordiv(k, view.extent[1]) : i[3];
    Expr x = a.dense ? w({k, o}) : w({o, channel, i[2], kw});
    Expr inside = lt(o, view.extent[0]) && lt(k, view.depth(a));
    return chosen_part(if_then_else(inside, x, const_of(DType::kF32, 0)), i[4], a.parts);
  };
  return {compute(to_exprs(node.result()->type.shape), body, "tile_weight")};
}

/// The same for constants, without interpreting it.
std::vector<ConstantPtr> pack_tile_weight(const Node& node) {
  const auto& a = node.attrs_as<TileWeightAttrs>();
  const TensorType& type = node.result()->type;
  WeightView view = view_of(a, node.inputs[0]->type);
  const auto* from = node.inputs[0]->constant->as<float>();
  std::byte* bytes = nullptr;
  auto constant = allocate_constant(type, &bytes);
  auto* to = reinterpret_cast<uint16_t*>(bytes);
  std::memset(to, 0, constant->size);
  auto extent = [&](size_t i) { return type.shape[i].value(); };
  const int64_t part_size = a.column_tiles * kTile * kDepth;
  const int64_t depth = view.depth(a);
  for (int64_t nb = 0; nb < extent(0); ++nb) {
    for (int64_t kc = 0; kc < extent(1); ++kc) {
      for (int64_t kh = 0; kh < extent(2); ++kh) {
        for (int64_t kw = 0; kw < extent(3); ++kw, to += a.parts * part_size) {
          for (int64_t c = 0; c < a.column_tiles * kTile; ++c) {
            const int64_t o = nb * a.column_tiles * kTile + c;
            if (o >= view.extent[0]) break;
            for (int64_t d = 0; d < std::min(kDepth, depth - kc * kDepth); ++d) {
              const int64_t k = kc * kDepth + d;
              const int64_t channel = a.fold_width ? k % view.extent[1] : k;
              const int64_t column = a.fold_width ? k / view.extent[1] : kw;
              float rest = from[o * view.stride[0] + channel * view.stride[1] + kh * view.stride[2] +
                                column * view.stride[3]];
              uint16_t* at = to + (c / kTile) * kTile * kDepth + d / 2 * kDepth + c % kTile * 2 + d % 2;
              for (int64_t p = 0; p < a.parts; ++p, at += part_size) {
                *at = float_to_bfloat(rest);
                rest -= bfloat_to_float(*at);
              }
            }
          }
        }
      }
    }
  }
  return {constant};
}

}  // namespace

void add_tile_ops(OpSet& set) {
  OpDef op = ops::define<TileWeightAttrs>("nn.tile_weight", FusionClass::kOpaque, LayoutBehaviour::kNone,
                                          {"weight"});
  op.infer = infer_tile_weight;
  op.compute = compute_tile_weight;
  op.fold = pack_tile_weight;
  set.add(std::move(op));
}

}  // namespace gantry
