#include "host/forms/ranges.h"

#include <algorithm>

#include "host/costs/tile_policy.h"
#include "host/forms/product.h"
#include "host/machine/cpu_features.h"
#include "host/ops/conv.h"
#include "host/passes/weight_growth.h"
#include "host/support/divide.h"

namespace gantry::forms {

KnobRange whole_vectors(const FormCase& given, int element_bytes, int64_t narrowest) {
  constexpr int64_t kMostVectors = 32;
  const int64_t bytes = given.context.target.machine.vector_bytes;
  const int64_t least = narrowest == 0 ? bytes : std::min(bytes, narrowest);
  const int64_t lanes = std::max<int64_t>(least / element_bytes, 1);
  return {lanes, std::max<int64_t>(bytes / element_bytes, 1) * kMostVectors, lanes};
}

KnobRange tile_rows_range(const FormCase& given) {
  // A register each, and two for what they meet.
  return {1, given.context.target.machine.vector_registers - 2};
}

std::vector<int64_t> even_parts(int64_t extent, int64_t most) {
  std::vector<int64_t> sizes;
  for (int64_t parts = std::min(extent, most); parts >= 1; --parts) {
    const int64_t size = ceil_div(extent, parts);
    if (sizes.empty() || sizes.back() != size) sizes.push_back(size);
  }
  return sizes;
}

namespace {

/// Blocks of a kernel beyond so many are small ones.
constexpr int64_t kMostBlocks = 16;

void merge(std::vector<int64_t>& sizes, const std::vector<int64_t>& others) {
  sizes.insert(sizes.end(), others.begin(), others.end());
  std::ranges::sort(sizes);
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
}

}  // namespace

std::vector<int64_t> even_block_rows(const FormCase& given) {
  const Node& node = given.question.node;
  const Shape& shape = node.result()->type.shape;
  std::vector<int64_t> sizes;
  const bool image = node.is(nn::conv);
  Dim rows(1);
  for (size_t i = 0; i < shape.size(); ++i)
    if (image ? i != 1 : i + 1 < shape.size()) rows = rows * shape[i];
  if (rows.is_constant()) sizes = even_parts(rows.value(), kMostBlocks);
  // Where the rows of an image's lines do not adjoin, blocks are of lines.
  if (image && shape[2].is_constant()) merge(sizes, even_parts(shape[2].value(), kMostBlocks));
  return sizes;
}

std::vector<int64_t> even_block_columns(const FormCase& given) {
  const Node& node = given.question.node;
  const auto unit = tile_unit(given.context.target);
  const Dim& columns = node.is(nn::conv) ? node.result()->type.shape[1] : node.result()->type.shape.back();
  if (!unit || !columns.is_constant()) return {};
  const TileGeometry& tile = geometry_of(*unit);
  const int64_t together = tile.column_tiles * tile.columns;
  const int64_t all = round_up(columns.value(), together);
  std::vector<int64_t> sizes = even_parts(all, std::min(all / together, kMostBlocks));
  std::erase_if(sizes, [&](int64_t size) { return size % together != 0; });
  return sizes;
}

KnobRange tile_parts_range(const FormCase& given) {
  const auto unit = tile_unit(given.context.target);
  return {1, unit && geometry_of(*unit).element != DType::kBF16 ? 1 : 3};
}

Misfit unfit_tile_unit(const FormContext& context) {
  if (costs::tile_parts(context.target) > 0) return std::nullopt;
  return "tile registers are for targets that have them, with a precision that uses them";
}

Misfit unfit_half(const FormCase& given, DType dtype) {
  if (given.decision.knob("half") == 0 || (given.context.target.machine.half_products && dtype == DType::kF32))
    return std::nullopt;
  return "half is for f32 on targets that compute in f16, with --precision fp16";
}

int packed_bytes(const Decision& decision, DType dtype) {
  const ProductType& type = decided_product(decision);
  return byte_width(type.knob.empty() ? dtype : type.weight);
}

bool small_in_parts(const FormContext& context, int64_t columns, int64_t depth, int64_t parts) {
  if (!context.small_weights) return true;
  const TileUnit unit = *tile_unit(context.target);
  const TileGeometry& tile = geometry_of(unit);
  const ProductType& type = tile_unit_product(unit, parts);
  const int64_t elements = round_up(columns, tile.columns) * round_up(depth, tile.block_depth);
  return grows_little(columns * depth * byte_width(DType::kF32),
                      elements * byte_width(type.weight) * type.parts);
}

int64_t fitting_block(const FormContext& context, int64_t block, int64_t columns, int64_t depth) {
  constexpr int64_t kNarrowest = 4;
  if (!context.small_weights || block <= kNarrowest ||
      grows_little(columns * depth * 4, round_up(columns, block) * depth * 4))
    return block;
  int64_t best = block;
  for (int64_t narrower = block / kNarrowest * kNarrowest; narrower >= kNarrowest; narrower -= kNarrowest) {
    if (round_up(columns, narrower) < round_up(columns, best)) best = narrower;
  }
  return best;
}

}  // namespace gantry::forms
