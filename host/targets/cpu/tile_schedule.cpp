#include "host/targets/cpu/tile_schedule.h"

#include <algorithm>
#include <limits>

#include "host/costs/tile_costs.h"
#include "host/ops/tiles.h"
#include "host/support/divide.h"
#include "host/support/error.h"
#include "host/targets/common/analysis.h"
#include "host/tensor/simplify.h"

namespace gantry::cpu {

using namespace analysis;  // NOLINT

namespace {

// Of the weights that blocks of rows read in turn while the next ones are fetched.
int64_t weight_chunk_bytes(const TileGeometry& geometry, const MachineModel& machine) {
  constexpr int64_t kInSecondLevel = 128 << 10;
  return costs::weights_in_first_level(geometry.unit) ? machine.l1_bytes : kInSecondLevel;
}

// Steps of instructions that are shorter than a block of the operand.
constexpr int64_t kUnrolledSteps = 4;

// Steps along the depth that go by at once: of the operand as much as stays in the second-level cache where
// all columns of the block read it again, of the weights where all its rows do.
int64_t choose_depth_steps(int64_t depth, int64_t operand_bytes, int64_t operand_limit, int64_t panel_bytes,
                           int64_t panel_limit) {
  int64_t steps = 1;
  for (int64_t s = 1; s <= depth; ++s) {
    const bool fits =
        s * (operand_bytes / depth) <= operand_limit && s * (panel_bytes / depth) <= panel_limit;
    if (depth % s == 0 && fits) steps = s;
  }
  return steps;
}

}  // namespace

int64_t even_row_group(const Expr& extent) {
  const auto known = constant_extent(simplify(extent));
  if (!known) return kRowGroup;
  const int64_t rows = std::max<int64_t>(*known - kTileRowSlack, 1);
  return ceil_div(rows, 2 * ceil_div(rows, 2 * kRowGroup));
}

const Operation& tile_weights(const OperationNode& product) {
  const ReadNode* found = nullptr;
  walk(product.body, [&](const Expr& e) {
    const auto* read = e.as<ReadNode>();
    if (read && read->op->role != Role::kTileRows) found = read;
  });
  internal_check(found != nullptr, "{} reads no weights", product.name);
  return found->op;
}

int64_t tile_weight_bytes(const OperationNode& product) {
  const OperationNode& weights = *tile_weights(product);
  int64_t bytes = byte_width(weights.result_dtypes[0]);
  for (const Expr& extent : weights.result_shapes[0]) bytes *= constant_extent(extent).value();
  return bytes;
}

bool is_single_product(const OperationNode& product) {
  const auto* sum = product.body.as<ReduceNode>();
  const auto* term = sum ? sum->value.as<BinaryNode>() : nullptr;
  return term && term->op == BinaryOp::kMul;
}

int64_t tile_row_bytes(const OperationNode& tile_rows, int64_t rows) {
  int64_t elements = rows;
  for (size_t i : {0, 1, 2, 4}) elements *= constant_extent(simplify(tile_rows.axes[i]->extent)).value();
  return elements * byte_width(tile_rows.result_dtypes[0]);
}

void schedule_tile_product(Stage& product, const costs::RowBlocks& blocks, int64_t column_unit,
                           int64_t operand_bytes, const TileGeometry& geometry, const MachineModel& machine) {
  const auto axes = product.axes();           // phase or none, row, column
  const auto reduce = product.reduce_axes();  // kc, taps or none, k
  const IterVarPtr rows = axes[axes.size() - 2], columns = axes.back(), depth_axis = reduce.front();
  auto [row_outer, row_in] = product.split(rows, blocks.unit_rows);
  auto [row_tile, row] = product.split(row_in, blocks.tile_rows);
  auto [column_outer, column_in] = product.split(columns, column_unit);
  auto [column_tile, column] = product.split(column_in, geometry.columns);
  const int64_t depth = constant_extent(simplify(depth_axis->extent)).value();
  int64_t panels = constant_extent(columns->extent).value() / column_unit;
  if (axes.size() > 2) panels *= constant_extent(axes[0]->extent).value();
  const bool rereads = operand_bytes > kResidentRowBytes;
  constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();
  const int64_t operand_limit = rereads ? kResidentRowBytes * 3 / 4 : kUnlimited,
                panel_limit =
                    blocks.rows > blocks.unit_rows ? weight_chunk_bytes(geometry, machine) : kUnlimited;
  const int64_t steps = choose_depth_steps(depth, operand_bytes, operand_limit,
                                           tile_weight_bytes(*product.op()) / panels, panel_limit);
  std::vector<IterVarPtr> order(axes.begin(), axes.end() - 2);
  if (steps < depth) {
    auto [depth_outer, depth_inner] = product.split(depth_axis, steps);
    if (rereads) order.push_back(depth_outer);
    order.push_back(column_outer);
    if (!rereads) order.push_back(depth_outer);
    order.insert(order.end(), {row_outer, depth_inner});
  } else {
    order.insert(order.end(), {column_outer, row_outer, depth_axis});
  }
  order.insert(order.end(), reduce.begin() + 1, reduce.end() - 1);
  IterVarPtr k = reduce.back();
  if (geometry.depth < geometry.block_depth) {
    auto [step, inner] = product.split(k, geometry.depth);
    // Steps of several products are long enough, and LLVM would hoist loads across them until it spills.
    if (is_single_product(*product.op())) {
      auto [group, in_group] = product.split(step, kUnrolledSteps);
      product.unroll(in_group);
      order.push_back(group);
      step = in_group;
    }
    order.push_back(step);
    k = inner;
  }
  order.insert(order.end(), {row_tile, column_tile, row, column, k});
  product.reorder(order);
  for (const IterVarPtr& axis : {row_tile, column_tile, row, column, k}) product.unroll(axis);
  product.tensorize_tiles(row_tile, geometry.unit);
}

}  // namespace gantry::cpu
