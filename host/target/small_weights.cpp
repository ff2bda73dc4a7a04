// Forms whose packed weights are not larger than the model's.
#include "host/ops/conv.h"
#include "host/ops/tiles.h"
#include "host/passes/weight_growth.h"
#include "host/support/divide.h"
#include "host/target/layout_policy.h"

namespace gantry {
namespace {

/// Weights of `columns` by `depth` f32 as bf16 parts for tile registers.
bool fits_in_parts(int64_t columns, int64_t depth, int64_t parts, TileUnit unit) {
  const TileGeometry tile = geometry_of(unit);
  const int64_t packed = round_up(columns, tile.columns) * round_up(depth, tile.block_depth) * 2 * parts;
  return grows_little(columns * depth * 4, packed);
}

/// The block, or where whole blocks of it would pad too much, that of fewer columns which pads the least.
int64_t small_block(int64_t block, int64_t columns, int64_t depth) {
  constexpr int64_t kNarrowest = 4;
  if (block <= kNarrowest || grows_little(columns * depth * 4, round_up(columns, block) * depth * 4))
    return block;
  int64_t best = block;
  for (int64_t narrower = block / kNarrowest * kNarrowest; narrower >= kNarrowest; narrower -= kNarrowest) {
    if (round_up(columns, narrower) < round_up(columns, best)) best = narrower;
  }
  return best;
}

int64_t depth_of(const ConvAttrs& attrs, const TensorType& data) {
  int64_t depth = data.shape[1].constant().value_or(1) / attrs.groups;
  for (int64_t extent : attrs.kernel) depth *= extent;
  return depth;
}

}  // namespace

void keep_weights_small(LayoutPolicy& policy) {
  using Algorithm = ConvAlgorithm;
  policy.small_weights = true;
  // Winograd's transformed weights are 1.8 to 7 times the model's; a group beside another brings zeros.
  policy.merged_groups = nullptr;
  policy.conv_phases = nullptr;
  // Without blocks a direct convolution has no packed form.
  const Algorithm plain = policy.packs_data_weights ? Algorithm::kDirect : Algorithm::kGemm;
  policy.conv_algorithm = [wish = policy.conv_algorithm, plain](
                              const ConvAttrs& attrs, const TensorType& data, const TensorType& result) {
    const Algorithm algorithm = wish ? wish(attrs, data, result) : plain;
    return winograd_tile(algorithm) > 0 ? plain : algorithm;
  };
  const TileUnit unit = policy.tile_unit;
  if (policy.conv_tiles) {
    policy.conv_tiles = [wish = policy.conv_tiles, unit](const ConvAttrs& attrs, const TensorType& data,
                                                         const TensorType& result) {
      const TiledConv tiled = wish(attrs, data, result);
      const bool fits = tiled.parts > 0 && winograd_tile(tiled.algorithm) == 0 &&
                        fits_in_parts(attrs.channels, depth_of(attrs, data), tiled.parts, unit);
      return fits ? tiled : TiledConv{};
    };
  }
  if (policy.dense_tiles) {
    policy.dense_tiles = [wish = policy.dense_tiles, unit](const TensorType& data, int64_t units) {
      const int64_t parts = wish(data, units);
      const int64_t depth = data.shape.empty() ? 1 : data.shape.back().constant().value_or(1);
      return fits_in_parts(units, depth, parts, unit) ? parts : 0;
    };
  }
  policy.conv_block = [wish = policy.conv_block](const ConvAttrs& attrs, const TensorType& data,
                                                 const TensorType& result) {
    return small_block(wish(attrs, data, result), attrs.channels / attrs.groups, depth_of(attrs, data));
  };
  policy.dense_block = [wish = policy.dense_block](const TensorType& data, int64_t units) {
    const int64_t depth = data.shape.empty() ? 1 : data.shape.back().constant().value_or(1);
    return small_block(wish(data, units), units, depth);
  };
}

}  // namespace gantry
