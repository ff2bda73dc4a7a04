// nn.winograd_weight: the weights of a convolution by Winograd's algorithm (host/ops/winograd.h).
#include <algorithm>
#include <cstring>
#include <functional>

#include "host/ops/conv_forms.h"
#include "host/ops/families.h"
#include "host/ops/support.h"
#include "host/ops/tile_product.h"
#include "host/ops/tiles.h"
#include "host/ops/winograd.h"
#include "host/support/divide.h"
#include "host/support/in_parallel.h"
#include "host/tensor/element.h"

namespace gantry {

void WinogradWeightAttrs::fields(AttrVisitor& visit) {
  visit("tile", tile);
  visit("block", block);
  visit("tile_parts", tile_parts);
  visit_tile_unit(visit, tile_unit);
}

Shape winograd_tile_shape(int64_t tile, int64_t parts, TileUnit unit, int64_t channels,
                          const Dim& channels_in) {
  const TileGeometry& geometry = geometry_of(unit);
  const int64_t positions = (tile + 2) * (tile + 2), columns = tile_columns(unit, channels);
  return {ceildiv(Dim(channels), columns * geometry.column_pack),
          positions,
          ceildiv(channels_in, geometry.block_depth),
          parts,
          columns,
          geometry.block_depth / geometry.side_by_side,
          geometry.column_elements()};
}

namespace {

std::vector<TensorType> infer_winograd_weight(const Node& node, Function&) {
  const TensorType& w = ops::input_type(node, 0);
  const auto& a = node.attrs_as<WinogradWeightAttrs>();
  ops::require(a.tile == 2 || a.tile == 4 || a.tile == 6, "there is no Winograd algorithm for tiles of {}",
               a.tile);
  ops::require(a.block >= 0, "a block has {} channels", a.block);
  ops::require(w.rank() == 4 && w.shape[2] == Dim(3) && w.shape[3] == Dim(3),
               "the weight {} should have the shape (O, I, 3, 3)", w.str());
  ops::require_float(node, 0);
  const int64_t positions = (a.tile + 2) * (a.tile + 2);
  if (a.tile_parts > 0) {
    ops::require(a.block == 0 && a.tile_parts <= 3 && w.dtype == DType::kF32 && w.shape[0].is_constant(),
                 "tile registers take up to three parts of f32 weights");
    return {{geometry_of(a.tile_unit).element,
             winograd_tile_shape(a.tile, a.tile_parts, a.tile_unit, w.shape[0].value(), w.shape[1])}};
  }
  if (a.block == 0) return {{w.dtype, {positions, w.shape[1], w.shape[0]}}};
  return {{w.dtype, {ceildiv(w.shape[0], a.block), positions, w.shape[1], a.block}}};
}

std::vector<Tensor> compute_winograd_weight(const Node& node, const std::vector<Tensor>& in) {
  const auto& a = node.attrs_as<WinogradWeightAttrs>();
  const int64_t t = a.tile + 2;
  const ops::Matrix& matrix = ops::winograd_transforms(a.tile).weight;
  const Tensor& w = in[0];
  const Expr &outputs = w.shape()[0], &inputs = w.shape()[1];
  auto rows_body = [&](const std::vector<Expr>& i) {
    return ops::winograd_row(matrix, i[0], [&](int64_t row) {
      return cast(DType::kF64, w({i[3], i[2], row, i[1]}));
    });
  };
  Tensor rows = compute({t, 3, inputs, outputs}, rows_body, "winograd_weight_rows");
  auto at = [&](const Expr& position, const Expr& input, const Expr& output) {
    Expr r = floordiv(position, t), s = mod(position, t);
    return cast(w.dtype(), ops::winograd_row(matrix, s, [&](int64_t column) {
                  return rows({r, column, input, output});
                }));
  };
  auto body = [&](const std::vector<Expr>& i) {
    if (a.tile_parts > 0) {
      const TileGeometry& tile = geometry_of(a.tile_unit);
      const int64_t columns = tile_columns(a.tile_unit, node.inputs[0]->type.shape[0].value());
      Expr output = (i[0] * columns + i[4]) * tile.column_pack + floordiv(i[6], tile.side_by_side);
      Expr input = i[2] * tile.block_depth + i[5] * tile.side_by_side + mod(i[6], tile.side_by_side);
      Expr inside = lt(output, outputs) && lt(input, inputs);
      Expr value = if_then_else(inside, at(i[1], input, output), const_of(DType::kF32, 0));
      return ops::weight_part(tile, value, i[3], a.tile_parts);
    }
    if (a.block == 0) return at(i[0], i[1], i[2]);
    Expr output = i[0] * a.block + i[3];
    return if_then_else(lt(output, outputs), at(i[1], i[2], output), const_of(w.dtype(), 0));
  };
  return {compute(ops::result_shape(node), body, "winograd_weight")};
}

constexpr size_t kMaxPositions = 64;

/// G w G^T of one pair of channels.
void transform_kernel(const ops::Matrix& g, const float* w, float (&out)[kMaxPositions]) {
  const size_t t = g.size();
  double rows[8][3];
  for (size_t r = 0; r < t; ++r) {
    for (size_t j = 0; j < 3; ++j)
      rows[r][j] = g[r][0] * double(w[j]) + g[r][1] * double(w[3 + j]) + g[r][2] * double(w[6 + j]);
  }
  for (size_t r = 0; r < t; ++r) {
    for (size_t s = 0; s < t; ++s) {
      const double value = rows[r][0] * g[s][0] + rows[r][1] * g[s][1] + rows[r][2] * g[s][2];
      out[r * t + s] = static_cast<float>(value);
    }
  }
}

/// Where transformed weights go: `put(output, input, values)`, for outputs up to `padded`.
struct Packed {
  int64_t padded;
  std::function<void(int64_t output, int64_t input, const float* values)> put;
};

Packed in_blocks(const WinogradWeightAttrs& a, int64_t outputs, int64_t inputs, int64_t positions,
                 std::byte* bytes) {
  const int64_t block = a.block == 0 ? outputs : a.block, stride = inputs * block;
  auto* out = reinterpret_cast<float*>(bytes);
  return {(outputs + block - 1) / block * block, [=](int64_t o, int64_t i, const float* values) {
            float* element = out + o / block * positions * stride + i * block + o % block;
            for (int64_t p = 0; p < positions; ++p) element[p * stride] = values[p];
          }};
}

Packed in_tiles(const WinogradWeightAttrs& a, int64_t outputs, int64_t inputs, int64_t positions,
                std::byte* bytes) {
  const TileGeometry& tile = geometry_of(a.tile_unit);
  const int64_t columns = tile_columns(a.tile_unit, outputs) * tile.column_pack, parts = a.tile_parts;
  const int64_t part = columns * tile.block_depth,
                depths = (inputs + tile.block_depth - 1) / tile.block_depth;
  auto* out = reinterpret_cast<uint16_t*>(bytes);
  return {(outputs + columns - 1) / columns * columns, [=](int64_t o, int64_t i, const float* values) {
            uint16_t* block = out + (o / columns * positions * depths + i / tile.block_depth) * parts * part +
                              ops::packed_weight_offset(tile, o % columns, i % tile.block_depth);
            for (int64_t p = 0; p < positions; ++p, block += depths * parts * part) {
              ops::store_weight_parts(tile, values[p], parts, block, part);
            }
          }};
}

/// As compute_winograd_weight; large models have a hundred million of these elements.
std::vector<ConstantPtr> fold_winograd_weight(const Node& node) {
  const ConstantPtr& weight = node.inputs[0]->constant;
  const TensorType& type = weight->type;
  if (type.dtype != DType::kF32) return {};
  const auto& a = node.attrs_as<WinogradWeightAttrs>();
  const int64_t outputs = type.shape[0].value(), inputs = type.shape[1].value();
  const ops::Matrix& g = ops::winograd_transforms(a.tile).weight;
  const auto positions = static_cast<int64_t>(g.size() * g.size());
  std::byte* bytes = nullptr;
  auto result = allocate_constant(node.result()->type, &bytes);
  const bool tiles = a.tile_parts > 0;
  // What tiles have beyond the last input is not written below.
  if (tiles) std::memset(bytes, 0, result->size);
  const Packed packed = tiles ? in_tiles(a, outputs, inputs, positions, bytes)
                              : in_blocks(a, outputs, inputs, positions, bytes);
  const float* w = weight->as<float>();
  // Neighbouring channels share cache lines of the result: a thread makes kRun of them together.
  constexpr int64_t kRun = 16;
  in_parallel(ceil_div(packed.padded, kRun), [&](int64_t begin, int64_t end) {
    float values[kMaxPositions];
    for (int64_t run = begin * kRun; run < end * kRun; run += kRun) {
      for (int64_t i = 0; i < inputs; ++i) {
        for (int64_t o = run; o < std::min(run + kRun, packed.padded); ++o) {
          if (o < outputs) {
            transform_kernel(g, w + (o * inputs + i) * 9, values);
          } else {
            std::ranges::fill(values, 0.0f);
          }
          packed.put(o, i, values);
        }
      }
    }
  });
  return {result};
}

}  // namespace

void add_winograd_ops(OpSet& set) {
  OpDef op = ops::define(nn::winograd_weight, FusionClass::kOpaque,
                                              LayoutBehaviour::kNone, {"weight"});
  op.infer = infer_winograd_weight;
  op.compute = compute_winograd_weight;
  op.fold = fold_winograd_weight;
  set.add(std::move(op));
}

}  // namespace gantry
