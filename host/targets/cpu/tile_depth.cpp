#include "host/targets/cpu/tile_depth.h"

#include <optional>

#include "host/costs/tile_blocks.h"
#include "host/machine/cpu_features.h"
#include "host/ops/tiles.h"
#include "host/targets/common/analysis.h"
#include "host/targets/common/rewrite.h"
#include "host/targets/cpu/sum_of_parts.h"
#include "host/targets/cpu/tile_schedule.h"
#include "host/tensor/simplify.h"

namespace gantry::cpu {

using namespace analysis;  // NOLINT

namespace {

// From this many times as deep as wide on, the sums that are written and read again cost less than what the
// threads would fetch from each other of the operand.
constexpr int64_t kLeastDepthByColumns = 2;

/// Rows of the result where they adjoin in the product; nothing if lines of an image lie apart, or there are
/// taps of a window.
std::optional<int64_t> adjoining_rows(const OperationNode& output, const OperationNode& product) {
  for (size_t i = 1; i + 1 < product.reduce_axes.size(); ++i)
    if (constant_extent(simplify(product.reduce_axes[i]->extent)) != 1) return std::nullopt;
  const auto rows = constant_volume({output.axes.begin(), output.axes.end() - 1});
  const auto extent = constant_extent(simplify(product.axes[0]->extent));
  return rows && extent && *rows + kTileRowSlack == *extent ? rows : std::nullopt;
}

/// Of the depth; 0: not known.
int64_t blocks_of(const OperationNode& product) {
  return constant_extent(simplify(product.reduce_axes.front()->extent)).value_or(0);
}

bool worth_dividing(const OperationNode& product, const OperationNode& operand, int64_t rows) {
  const int64_t blocks = blocks_of(product);
  const int64_t columns = constant_extent(simplify(product.axes[1]->extent)).value();
  const int64_t depth = blocks * constant_extent(product.reduce_axes.back()->extent).value();
  return depth >= kLeastDepthByColumns * columns && tile_row_bytes(operand, rows) > kResidentRowBytes &&
         tile_weight_bytes(product) > costs::kResidentWeightBytes;
}

Tensor in_parts(const OperationNode& product, int64_t rows) {
  const Tensor parts = partial_sums(product, kDepthParts, product.name, product.role);
  std::vector<Expr> shape = parts.shape();
  shape[1] = Expr(rows);
  const Tensor partial = compute(
      shape, [&](const std::vector<Expr>& i) { return parts(i); }, "tile_partial", Role::kTilePartial);
  return compute(
      {Expr(rows), shape[2]},
      [&](const std::vector<Expr>& i) {
        Expr total = partial({Expr(0), i[0], i[1]});
        for (int64_t p = 1; p < kDepthParts; ++p) total = total + partial({Expr(p), i[0], i[1]});
        return total;
      },
      "tile_sum");
}

}  // namespace

std::vector<Tensor> split_tile_depth(const std::vector<Tensor>& outputs, const Target& target) {
  const OperationNode *operand = nullptr, *product = nullptr, *output = nullptr;
  for (const Operation& op : topological_order(outputs)) {
    if (op->role == Role::kTileRows) operand = op.get();
    if (op->role == Role::kTileProduct) product = op.get();
    if (op->role == Role::kTileOutput) output = op.get();
  }
  if (!operand || !product || !output || product->axes.size() != 2) return outputs;
  const std::optional<TileUnit> unit = tile_unit(target, tile_weights(*product)->result_dtypes[0]);
  if (!unit || !geometry_of(*unit).fast_parts) return outputs;
  const int64_t given = given_knob(*product, "depth_parts");
  const auto rows = adjoining_rows(*output, *product);
  const bool divides = rows && blocks_of(*product) % kDepthParts == 0;
  if (given == kDepthParts && !divides)
    refuse_knob(*product, "depth_parts", given, "the depth has an odd number of blocks, or rows do not adjoin");
  if (!divides || given == 1 || (given == 0 && !worth_dividing(*product, *operand, *rows))) return outputs;
  return replace_tensors(outputs, {{product, in_parts(*product, *rows)}});
}

}  // namespace gantry::cpu
