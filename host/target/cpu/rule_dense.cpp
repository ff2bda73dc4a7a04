// Matrix products with packed weights.
//
//   parallel for (block of rows, panel of units)
//     for row tile
//       acc[rows][panel] = 0
//       for k: acc[r][:] += broadcast(x[r][k]) * w[panel][k][:]      rows and vectors unrolled
//              prefetch some of the next panel
//       y[rows][panel] = epilogue(acc)
//
// A block's rows of x stay in the second-level cache while all panels pass; a panel is read from memory once
// a block, ahead of time, and from the caches by all other tiles. Where the depth is too large for that, it
// is cut into parts, each a nest of its own that adds to the sums of those before.
#include <algorithm>

#include "host/target/cpu/dense_model.h"
#include "host/target/cpu/rules.h"
#include "host/target/cpu/sum_of_parts.h"
#include "host/target/rewrite.h"

namespace gantry::cpu {
namespace {

constexpr const char *kPartial = "dense_partial", *kOperand = "half_operand";
// Above this many operations an element, the epilogue is not written out for every point of the tile.
constexpr int kUnrolledEpilogueCost = 12;
constexpr int64_t kLineBytes = 64;

bool is_dense(const OperationNode& op) {
  return op.tag == "dense_packed";
}

/// The read of the packed weights.
const ReadNode* weight_read(const OperationNode& dense) {
  const ReadNode* found = nullptr;
  walk(dense.body, [&](const Expr& node) {
    const auto* read = node.as<ReadNode>();
    if (read && read->indices.size() == 3 && read->indices.back().same_as(dense.axes.back()->var))
      found = read;
  });
  return found;
}

int epilogue_cost(const Schedule& schedule) {
  int cost = 0;
  for (const auto& stage : schedule.stages()) {
    if (is_compute(*stage->op) && !is_dense(*stage->op) && stage->op->tag != kOperand)
      cost += element_cost(stage->op->body);
  }
  return cost;
}

DenseWork work_of(const OperationNode& dense, const OperationNode& output, const Target& target) {
  DenseWork work;
  work.half = sums_halves(dense, target);
  std::vector<IterVarPtr> rows(dense.axes.begin(), dense.axes.end() - 2);
  work.rows = constant_volume(rows).value_or(0);
  work.units = constant_extent(output.axes.back()->extent).value_or(1);
  work.depth = constant_volume(dense.reduce_axes).value_or(256);
  work.element_bytes = byte_width(work.half ? DType::kF16 : dense.result_dtypes[0]);
  if (const ReadNode* weight = weight_read(dense)) {
    work.data_depth = constant_extent(weight->op->result_shapes[0][1]).value_or(0);
  }
  return work;
}

/// A panel beyond this is not fetched whole while the one before it is used.
constexpr int64_t kFetchedPanelBytes = 768 << 10, kFetchDistanceBytes = 64 << 10;

/// While a block's rows go past a panel, the next panel comes to the second-level cache, a bit every `step`
/// of the sum.
void prefetch_next_panel(Stage& dense, const IterVarPtr& step, const DenseTile& plan, int64_t depth) {
  const ReadNode* weight = weight_read(*dense.op);
  if (!weight || dense.axes().size() != 3) return;
  const int64_t block = plan.tile.channel_block();
  const int64_t row_share = std::max<int64_t>(1, depth * block / plan.block_rows);
  const int64_t step_share =
      std::max<int64_t>(1, (block * plan.tile.rows + plan.block_rows - 1) / plan.block_rows);
  const int64_t line = kLineBytes / byte_width(weight->type.dtype);
  const Tensor panels(weight->op, weight->result);
  const IterVarPtr& k = dense.reduce_axes().front();
  if (depth * block * byte_width(weight->type.dtype) > kFetchedPanelBytes) {
    // It would not stay there: what comes next in this one instead.
    const int64_t steps =
        std::max<int64_t>(1, kFetchDistanceBytes / (block * byte_width(weight->type.dtype)));
    for (int64_t at = 0; at < block; at += line)
      dense.prefetch(step, panels, {dense.axes()[1]->var, k->var + steps, Expr(at)});
    return;
  }
  const Expr row = mod(dense.axes()[0]->var, plan.block_rows);
  const Expr first = substitute(weight->indices[1], {{k->var.as<VarNode>(), Expr(0)}});
  for (int64_t at = 0; at < step_share; at += line) {
    dense.prefetch(step, panels,
                   {dense.axes()[1]->var + 1, first, row * row_share + k->var * step_share + at});
  }
}

/// The product's loops inside the tile: the sum outside, rows and vectors written out inside. Returns the
/// sum's innermost loop.
IterVarPtr schedule_sums(Stage& dense, bool half, const ProductTile& tile) {
  const auto axes = dense.axes();
  const bool has_rows = axes.size() == 3;
  std::vector<IterVarPtr> order{axes[axes.size() - 2]};
  const auto reduced = half ? sum_in_half(dense) : dense.reduce_axes();
  order.insert(order.end(), reduced.begin(), reduced.end());
  if (has_rows) order.push_back(axes[0]);
  order.push_back(axes.back());
  dense.reorder(order);
  if (has_rows) dense.unroll(axes[0]);
  vectorize_block(dense, axes.back(), tile.channel_block(), tile.lanes);
  return reduced.back();
}

bool worth_threads(const DenseWork& work) {
  return work.rows == 0 ||
         work.rows * work.units * std::max<int64_t>(work.depth, 1) >= kParallelThreshold * 4;
}

/// The loops of the stage that the sums are attached to; `rows`: its leading axes. Returns where to attach.
IterVarPtr schedule_tiles(Stage& owner, const std::vector<IterVarPtr>& rows, const IterVarPtr& panel,
                          const IterVarPtr& unit, const DenseTile& plan, const DenseWork& work,
                          bool unrolled) {
  const bool worth_it = worth_threads(work);
  if (rows.empty()) {
    fuse_and_parallelize(owner, {panel}, worth_it);
    return panel;
  }
  const ProductTile& tile = plan.tile;
  // Axes of one row stay loops of their own: fused, they would hide that the others' digits make up the row.
  std::vector<IterVarPtr> outer, several;
  for (const auto& axis : rows) (constant_extent(axis->extent) == 1 ? outer : several).push_back(axis);
  if (several.empty()) {
    several.push_back(outer.back());
    outer.pop_back();
  }
  std::vector<IterVarPtr> order = outer;
  order.insert(order.end(), several.begin(), several.end());
  owner.reorder(order);
  IterVarPtr row = fuse_and_parallelize(owner, several, false);
  auto [row_tile, row_inner] = owner.split(
      row, tile.rows, work.rows >= tile.rows ? TailStrategy::kShiftInwards : TailStrategy::kGuard);
  IterVarPtr attach = row_tile;
  // Tiles of symbolic rows stay in one loop: only of such a one are the whole tiles known to need no guards.
  if (work.rows != 0 && plan.block_rows < work.rows) {
    auto [row_block, tile_of_block] = owner.split(row_tile, plan.block_rows / tile.rows);
    attach = tile_of_block;
    outer.push_back(row_block);
  }
  outer.push_back(panel);
  order = outer;
  order.insert(order.end(), {attach, row_inner, unit});
  owner.reorder(order);
  fuse_and_parallelize(owner, outer, worth_it);
  if (unrolled) owner.unroll(row_inner);
  return attach;
}

void attach_sums(Stage& dense, Stage& owner, const IterVarPtr& attach, const DenseTile& plan,
                 const DenseWork& work) {
  dense.compute_at(owner, attach);
  dense.scope = StorageScope::kLocal;
  prefetch_next_panel(dense, schedule_sums(dense, work.half, plan.tile), plan, work.depth);
}

/// A heavy epilogue reads the accumulators from a small buffer, in a loop over the tile. Returns the stage of
/// the sums.
Stage& spill_accumulators(Schedule& schedule, Stage& output, Stage& dense, const IterVarPtr& attach,
                          const ProductTile& tile, int lanes) {
  const Operation op = dense.op;
  Stage& sums = schedule[schedule.cache_write(Tensor(op, 0), StorageScope::kLocal)];
  Stage& copy = schedule[op];
  copy.compute_at(output, attach);
  copy.scope = StorageScope::kLocal;
  const auto axes = copy.axes();
  for (size_t i = 0; i + 1 < axes.size(); ++i) copy.unroll(axes[i]);
  vectorize_block(copy, axes.back(), tile.channel_block(), lanes);
  return sums;
}

}  // namespace

std::vector<Tensor> split_dense_depth(const std::vector<Tensor>& outputs, const Target& target) {
  if (outputs.size() != 1 || outputs[0].op()->axes.empty()) return outputs;
  for (const Operation& op : topological_order(outputs)) {
    if (!is_dense(*op) || op->axes.size() != 3 || !constant_volume(op->reduce_axes)) continue;
    const int64_t parts = dense_depth_parts(work_of(*op, *outputs[0].op(), target), target.machine);
    if (parts > 1) return replace_tensors(outputs, {{op.get(), sum_of_parts(*op, parts, kPartial)}});
  }
  return outputs;
}

bool schedule_dense(Schedule& schedule, const Target& target) {
  std::vector<Stage*> products;
  for (const auto& stage : schedule.stages()) {
    if (is_dense(*stage->op)) products.push_back(stage.get());
  }
  if (products.empty() || schedule.outputs().size() != 1) return false;
  Stage& output = schedule[schedule.outputs()[0]];
  if (output.axes().empty()) return false;
  const int64_t block = constant_extent(products[0]->axes().back()->extent).value();
  const DenseWork work = work_of(*products[0]->op, *output.op, target);
  const DenseTile plan = choose_dense_tile(work, target.machine, block);
  const bool heavy = epilogue_cost(schedule) > kUnrolledEpilogueCost;
  const int lanes = work.half ? result_lanes(plan.tile, *output.op, target) : plan.tile.lanes;

  inline_elementwise(schedule);
  for (const auto& stage : schedule.stages())
    if (stage->attach == AttachKind::kRoot && stage->op->tag == kOperand)
      schedule_half_operand(*stage, worth_threads(work), target);
  size_t done = 0;
  for (const auto& stage : schedule.stages()) {
    if (stage->op->tag != kPartial) continue;
    const auto axes = stage->axes();
    IterVarPtr attach = schedule_tiles(*stage, {axes[0]}, axes[1], axes[2], plan, work, true);
    vectorize_block(*stage, axes[2], block, lanes);
    attach_sums(*products[done++], *stage, attach, plan, work);
  }
  const auto axes = output.axes();
  auto [panel, unit] = output.split(axes.back(), block, TailStrategy::kGuard);
  IterVarPtr attach = schedule_tiles(output, {axes.begin(), axes.end() - 1}, panel, unit, plan, work, !heavy);
  vectorize_block(output, unit, block, lanes);
  Stage& last = *products[done];
  Stage& sums = heavy ? spill_accumulators(schedule, output, last, attach, plan.tile, lanes) : last;
  attach_sums(sums, output, attach, plan, work);
  return true;
}

}  // namespace gantry::cpu
