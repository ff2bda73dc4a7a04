#include "host/ops/tiles.h"

#include <algorithm>
#include <cstring>

#include "host/ops/families.h"
#include "host/ops/gemm.h"
#include "host/ops/support.h"
#include "host/ops/tile_product.h"
#include "host/support/divide.h"
#include "host/support/error.h"
#include "host/support/in_parallel.h"
#include "host/tensor/element.h"
#include "host/tensor/simplify.h"

namespace gantry {
namespace {

/// How the window's taps meet the rows of "tile_rows".
struct RowGrid {
  int64_t kernel[2], stride[2], dilation[2];
  int64_t phases[2];
  int64_t reach[2];     ///< lines and columns that the last tap reaches beyond the first
  bool overhangs[2];    ///< some tap of some result reads beyond the data's lines, or columns
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

/// Of images; `result`: (N, OH, OW, O).
RowGrid row_grid(const ConvAttrs& a, const std::vector<Expr>& result) {
  RowGrid grid;
  for (int i = 0; i < 2; ++i) {
    auto at = static_cast<size_t>(i);
    grid.kernel[i] = i == 1 && a.form.tile_fold_width ? 1 : a.kernel[at];
    grid.stride[i] = a.strides[at];
    grid.dilation[i] = a.dilations[at];
    grid.phases[i] = grid.kernel[i] == 1 ? 1 : grid.stride[i];
    grid.reach[i] = (grid.kernel[i] - 1) * grid.dilation[i] / grid.stride[i];
    // Strides: not every phase has as many lines as the first.
    grid.overhangs[i] = grid.stride[i] > 1 || a.padding[at] != Dim(0) || a.padding[at + 2] != Dim(0);
  }
  grid.lines = result[1] + Expr(grid.reach[0]);
  grid.columns = result[2] + Expr(grid.reach[1]);
  return grid;
}

/// (N, W, C) as (N, 1, W, C); (N, H, W, C) as it is.
std::vector<Expr> images_shape(std::vector<Expr> shape) {
  if (shape.size() == 3) shape.insert(shape.begin() + 1, Expr(1));
  return shape;
}

/// A weight before it is packed.
struct WeightExtents {
  TileUnit unit;
  int64_t parts;
  Dim columns, depth;             ///< constants, which attributes may make of any size
  int64_t height = 1, width = 1;  ///< of the window
};

/// Adjoining packs of columns that a unit multiplies at once.
int64_t most_column_tiles(TileUnit unit) {
  const TileGeometry& tile = geometry_of(unit);
  return tile.column_tiles * tile.columns / tile.column_pack;
}

Shape packed_shape(const WeightExtents& w, int64_t column_tiles) {
  const TileGeometry& tile = geometry_of(w.unit);
  return {ceildiv(w.columns, column_tiles * tile.column_pack),
          ceildiv(w.depth, tile.block_depth),
          w.height,
          w.width,
          w.parts,
          column_tiles,
          tile.block_depth / tile.side_by_side,
          tile.column_elements()};
}

}  // namespace

int64_t tile_columns(TileUnit unit, int64_t columns) {
  const int64_t pack = geometry_of(unit).column_pack, most = most_column_tiles(unit);
  return ceil_div(std::min(columns, most * pack), pack);
}

ConvAttrs as_image(ConvAttrs a) {
  if (a.spatial_rank() != 1) return a;
  a.kernel.insert(a.kernel.begin(), 1);
  a.strides.insert(a.strides.begin(), 1);
  a.dilations.insert(a.dilations.begin(), 1);
  a.padding = {0, a.padding[0], 0, a.padding[1]};
  return a;
}

TensorType as_image(TensorType type) {
  if (type.rank() == 3) type.shape.insert(type.shape.begin() + 2, 1);
  return type;
}

bool fits_tiles(const ConvAttrs& a, DType dtype) {
  return a.spatial_rank() <= 2 && a.groups == 1 && dtype == DType::kF32;
}

bool folds_width(const ConvAttrs& a, int64_t channels_in) {
  return a.kernel.back() > 1 && a.dilations.back() == 1 &&
         channels_in <= geometry_of(a.form.tile_unit).block_depth / 2;
}

Shape tile_weight_shape(const ConvAttrs& attrs, int64_t channels_in) {
  const ConvAttrs a = as_image(attrs);
  const ConvForm& form = a.form;
  const Dim depth = Dim(channels_in) * (form.tile_fold_width ? a.kernel[1] : 1);
  return packed_shape({.unit = form.tile_unit,
                       .parts = form.tile_parts,
                       .columns = a.channels,
                       .depth = depth,
                       .height = a.kernel[0],
                       .width = form.tile_fold_width ? 1 : a.kernel[1]},
                      tile_columns(form.tile_unit, a.channels));
}

Shape tile_weight_shape(const DenseAttrs& a, int64_t depth) {
  return packed_shape(
      {.unit = a.form.tile_unit, .parts = a.form.tile_parts, .columns = a.units, .depth = depth},
      tile_columns(a.form.tile_unit, a.units));
}

Tensor conv_tiles(const Node& node, const ConvAttrs& attrs, const Tensor& x, const Tensor& weight) {
  const bool sequences = attrs.spatial_rank() == 1;
  const ConvAttrs a = as_image(attrs);
  const std::vector<Expr> result = ops::result_shape(node);
  RowGrid grid = row_grid(a, images_shape(result));
  Expr image = grid.lines * grid.columns;
  Expr lines_left = Expr(0) - Expr(grid.reach[0]);  // the last image's
  const Expr& batch = result[0];
  Expr count = simplify((batch * grid.lines + lines_left) * grid.columns - Expr(grid.reach[1]));
  const TileGeometry& tile = geometry_of(a.form.tile_unit);
  Expr rows = ops::with_row_slack(count);
  const std::vector<Expr> shape = images_shape(x.shape());
  const Expr& channels = shape[3];
  Expr depth = a.form.tile_fold_width ? channels * a.kernel[1] : channels;
  auto depth_constant =
      depth.as<IntImmNode>() ? depth.as<IntImmNode>()->value : simplify(depth).as<IntImmNode>()->value;
  auto data_at = [&](const Expr& n, const Expr& y, const Expr& z, const Expr& k) {
    return sequences ? x({n, z, k}) : x({n, y, z, k});
  };
  auto element = [&](const Expr& phase, const Expr& row, const Expr& k) {
    Expr n = floordiv(row, image), in_image = mod(row, image);
    Expr line = floordiv(in_image, grid.columns), column = mod(in_image, grid.columns);
    Expr y = line * grid.stride[0] + floordiv(phase, grid.phases[1]) - Expr(a.padding[0]);
    Expr z = column * grid.stride[1] + mod(phase, grid.phases[1]) - Expr(a.padding[1]);
    // Where the lines of taps go beyond the data, also without padding: rows that only make up whole tiles.
    Expr inside = lt(row, batch * image);
    if (grid.overhangs[0]) inside = inside && ge(y, 0) && lt(y, shape[1]);
    Expr value;
    if (a.form.tile_fold_width) {
      // One line of the image is contiguous: so many elements from its start.
      Expr position = z * channels + k;
      inside = inside && ge(position, 0) && lt(position, shape[2] * channels);
      value = data_at(n, y, floordiv(position, channels), mod(position, channels));
    } else {
      if (grid.overhangs[1]) inside = inside && ge(z, 0) && lt(z, shape[2]);
      value = data_at(n, y, z, k);
    }
    return if_then_else(inside, value, const_of(tile.data(), 0));
  };
  Tensor data = ops::tile_rows(tile, a.form.tile_parts, depth_constant, Expr(grid.phases[0] * grid.phases[1]),
                               simplify(rows + grid.max_distance()), element);
  const ops::TileTaps taps{.height = grid.kernel[0],
                           .width = grid.kernel[1],
                           .phase = [&](const Expr& kh, const Expr& kw) { return grid.phase(kh, kw); },
                           .distance = [&](const Expr& kh, const Expr& kw) { return grid.distance(kh, kw); }};
  Tensor product = ops::tile_product(tile, a.form.tile_parts, data, weight, simplify(rows), taps);
  auto output = [&](const std::vector<Expr>& i) {
    const Expr line = sequences ? i[0] : i[0] * grid.lines + i[1];
    return product({line * grid.columns + i[i.size() - 2], i.back()});
  };
  return compute(result, output, "tile_output", Role::kTileOutput);
}

Tensor dense_tiles(const Node& node, const DenseAttrs& a, const Tensor& x, const Tensor& weight) {
  std::vector<Expr> extents(x.shape().begin(), x.shape().end() - 1);
  Expr count(1);
  for (const Expr& extent : extents) count = count * extent;
  count = simplify(count);
  const TileGeometry& tile = geometry_of(a.form.tile_unit);
  Expr rows = simplify(ops::with_row_slack(count));
  int64_t depth = simplify(x.shape().back()).as<IntImmNode>()->value;
  auto element = [&](const Expr&, const Expr& row, const Expr& k) {
    std::vector<Expr> at = ops::unflatten(row, extents);
    at.push_back(k);
    return if_then_else(lt(row, count), x(at), const_of(tile.data(), 0));
  };
  Tensor data = ops::tile_rows(tile, a.form.tile_parts, depth, Expr(1), rows, element);
  auto none = [](const Expr&, const Expr&) { return Expr(0); };
  Tensor product =
      ops::tile_product(tile, a.form.tile_parts, data, weight, rows, {.phase = none, .distance = none});
  auto output = [&](const std::vector<Expr>& i) {
    return product({ops::flatten({i.begin(), i.end() - 1}, extents), i.back()});
  };
  return compute(ops::result_shape(node), output, "tile_output", Role::kTileOutput);
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
  const int64_t height = w.rank() == 4 ? d(2) : 1, width = d(w.rank() - 1);
  return {{d(0), d(1), height, width}, {d(1) * height * width, height * width, width, 1}};
}

std::vector<TensorType> infer_tile_weight(const Node& node, Function&) {
  const TensorType& w = ops::input_type(node, 0);
  const auto& a = node.attrs_as<TileWeightAttrs>();
  const bool known_rank = a.dense ? w.rank() == 2 : w.rank() == 3 || w.rank() == 4;
  const DType wanted = geometry_of(a.unit).weight();
  ops::require(known_rank && w.dtype == wanted && constant_shape(w.shape).has_value(),
               "the weight {} must be a constant {} of {} dimensions", w.str(), name_of(wanted), a.dense ? "2" : "3 or 4");
  const int64_t most_parts = is_float(wanted) ? 3 : 1, most = most_column_tiles(a.unit);
  ops::require(a.parts >= 1 && a.parts <= most_parts && a.column_tiles >= 1 && a.column_tiles <= most,
               "parts must be 1 to {}, column_tiles 1 to {}", most_parts, most);
  WeightView view = view_of(a, w);
  return {{geometry_of(a.unit).element, packed_shape({.unit = a.unit,
                                                      .parts = a.parts,
                                                      .columns = view.extent[0],
                                                      .depth = view.depth(a),
                                                      .height = view.extent[2],
                                                      .width = a.fold_width ? 1 : view.extent[3]},
                                                     a.column_tiles)}};
}

std::vector<Tensor> compute_tile_weight(const Node& node, const std::vector<Tensor>& in) {
  const auto& a = node.attrs_as<TileWeightAttrs>();
  WeightView view = view_of(a, node.inputs[0]->type);
  const Tensor& w = in[0];
  const TileGeometry& tile = geometry_of(a.unit);
  const int64_t side = tile.side_by_side;
  auto body = [&](const std::vector<Expr>& i) {
    Expr o = (i[0] * a.column_tiles + i[5]) * tile.column_pack + floordiv(i[7], side);
    Expr k = i[1] * tile.block_depth + i[6] * side + mod(i[7], side);
    Expr channel = a.fold_width ? mod(k, view.extent[1]) : k;
    Expr kw = a.fold_width ? floordiv(k, view.extent[1]) : i[3];
    std::vector<Expr> at{o, channel, i[2], kw};
    if (w.shape().size() == 3) at.erase(at.begin() + 2);
    Expr x = a.dense ? w({k, o}) : w(at);
    Expr inside = lt(o, view.extent[0]) && lt(k, view.depth(a));
    return ops::weight_part(tile, if_then_else(inside, x, const_of(tile.weight(), 0)), i[4], a.parts);
  };
  return {compute(ops::result_shape(node), body, "tile_weight")};
}

/// A constant weight that is packed for a unit, into blocks of columns.
struct Packing {
  const TileGeometry& tile;
  const TileWeightAttrs& attrs;
  const ConstantData& weight;
  std::vector<int64_t> shape;  ///< of the packed weight, as in packed_shape()
};

/// Block `nb` of columns: `put` writes an element's parts from a place on, counted in elements of the packed
/// block.
template <typename Element, typename Put>
void pack_columns(const Packing& packing, int64_t nb, const Put& put) {
  const auto& [tile, a, weight, shape] = packing;
  const WeightView view = view_of(a, weight.type);
  const auto* from = weight.as<Element>();
  const int64_t block = tile.block_depth, columns = a.column_tiles * tile.column_pack;
  const int64_t part_size = columns * block, depth = view.depth(a);
  int64_t to = 0;
  for (int64_t kc = 0; kc < shape[1]; ++kc) {
    for (int64_t kh = 0; kh < shape[2]; ++kh) {
      for (int64_t kw = 0; kw < shape[3]; ++kw, to += a.parts * part_size) {
        for (int64_t c = 0; c < std::min(columns, view.extent[0] - nb * columns); ++c) {
          const Element* row = from + (nb * columns + c) * view.stride[0] + kh * view.stride[2];
          for (int64_t d = 0; d < std::min(block, depth - kc * block); ++d) {
            const int64_t k = kc * block + d;
            const int64_t channel = a.fold_width ? k % view.extent[1] : k;
            const int64_t column = a.fold_width ? k / view.extent[1] : kw;
            put(row[channel * view.stride[1] + column * view.stride[3]], to + ops::packed_weight_offset(tile, c, d),
                part_size);
          }
        }
      }
    }
  }
}

/// The same, to `block`: integers as they are.
template <typename Integer>
void pack_integers(const Packing& packing, int64_t nb, std::byte* block) {
  auto* elements = reinterpret_cast<Integer*>(block);
  const auto put = [&](Integer element, int64_t at, int64_t) { elements[at] = element; };
  pack_columns<Integer>(packing, nb, put);
}

/// The same: f32 in their parts, of bf16 or f16.
void pack_parts(const Packing& packing, int64_t nb, std::byte* block) {
  const auto put = [&](float element, int64_t at, int64_t step) {
    ops::store_weight_parts(packing.tile, element, packing.attrs.parts,
                            reinterpret_cast<uint16_t*>(block) + at, step);
  };
  pack_columns<float>(packing, nb, put);
}

using PackBlock = void (*)(const Packing& packing, int64_t nb, std::byte* block);

/// Of weights for a unit that multiplies these elements; an internal error if nothing packs them.
PackBlock packer_of(DType element) {
  if (element == DType::kBF16 || element == DType::kF16) return pack_parts;
  const int width = is_float(element) ? 0 : byte_width(element);
  if (width == 1) return pack_integers<uint8_t>;
  if (width == 2) return pack_integers<uint16_t>;
  internal_error("nothing packs weights of {} for tile units", name_of(element));
}

/// compute_tile_weight for constants, without interpreting it.
std::vector<ConstantPtr> pack_tile_weight(const Node& node) {
  const auto& a = node.attrs_as<TileWeightAttrs>();
  return {pack_weight(geometry_of(a.unit), a, *node.inputs[0]->constant, node.result()->type)};
}

}  // namespace

ConstantPtr pack_weight(const TileGeometry& tile, const TileWeightAttrs& attrs, const ConstantData& weight,
                        const TensorType& packed) {
  internal_check(weight.type.dtype == tile.weight(), "a weight of {} is packed for {}, which takes {}",
                 name_of(weight.type.dtype), tile.name, name_of(tile.weight()));
  const PackBlock pack_block = packer_of(tile.element);
  Packing packing{.tile = tile, .attrs = attrs, .weight = weight, .shape = {}};
  for (const Dim& extent : packed.shape) packing.shape.push_back(extent.value());
  std::byte* bytes = nullptr;
  auto constant = allocate_constant(packed, &bytes);
  const int64_t blocks = packing.shape[0];
  const int64_t block_bytes = constant->size / std::max<int64_t>(blocks, 1);
  in_parallel(blocks, [&](int64_t begin, int64_t end) {
    for (int64_t nb = begin; nb < end; ++nb) {
      std::byte* block = bytes + nb * block_bytes;
      // Columns and depths beyond the weight stay zero.
      std::memset(block, 0, static_cast<size_t>(block_bytes));
      pack_block(packing, nb, block);
    }
  });
  return constant;
}

void add_tile_ops(OpSet& set) {
  OpDef op = ops::define(nn::tile_weight, FusionClass::kOpaque, LayoutBehaviour::kNone,
                                          {"weight"});
  op.infer = infer_tile_weight;
  op.compute = compute_tile_weight;
  op.fold = pack_tile_weight;
  set.add(std::move(op));
}

}  // namespace gantry
