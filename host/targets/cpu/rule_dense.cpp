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
//
// Weights as integers are summed chunk by chunk of the depth:
//
//       for c: part[rows][panel] = 0
//         for k: part[r][:] += broadcast(x[r][k] * 2^-31) * float(word of w[panel][k][:])
//         acc[r][:] += part[r][:] * range[panel][c][:]
#include <algorithm>

#include "host/costs/dense_model.h"
#include "host/graph/shape_guess.h"
#include "host/support/divide.h"
#include "host/targets/common/kernel_rules.h"
#include "host/targets/common/rewrite.h"
#include "host/targets/cpu/rules.h"
#include "host/targets/cpu/sum_of_parts.h"

namespace gantry::cpu {
namespace {

// Above this many operations an element, the epilogue is not written out for every point of the tile.
constexpr int kUnrolledEpilogueCost = 12;
constexpr int64_t kLineBytes = 64;

bool is_dense(const OperationNode& op) {
  return op.role == Role::kPackedDense;
}

/// The sums over chunks of the depth that the product of weights as integers adds; null of floats.
const OperationNode* chunk_of(const OperationNode& dense) {
  const OperationNode* found = nullptr;
  walk(dense.body, [&](const Expr& node) {
    const auto* read = node.as<ReadNode>();
    if (read && read->op->role == Role::kDenseChunk) found = read->op.get();
  });
  return found;
}

/// The read of the packed weights, or one of those of words that integers share.
const ReadNode* weight_read(const OperationNode& sums) {
  const ReadNode* found = nullptr;
  walk(sums.body, [&](const Expr& node) {
    const auto* read = node.as<ReadNode>();
    if (read && read->indices.size() == 3 && mentions(read->indices.back(), sums.axes.back()->var))
      found = read;
  });
  return found;
}

int epilogue_cost(const Schedule& schedule) {
  int cost = 0;
  for (const auto& stage : schedule.stages()) {
    const Role role = stage->op()->role;
    if (is_compute(*stage->op()) && !is_dense(*stage->op()) && role != Role::kHalfOperand &&
        role != Role::kDenseChunk)
      cost += element_cost(stage->op()->body);
  }
  return cost;
}

costs::DenseWork work_of(const OperationNode& dense, const OperationNode& output, const Target& target) {
  costs::DenseWork work;
  work.half = sums_halves(dense, target);
  std::vector<IterVarPtr> rows(dense.axes.begin(), dense.axes.end() - 2);
  work.rows = constant_volume(rows).value_or(0);
  work.units = guess::extent(constant_extent(output.axes.back()->extent), guess::Extent::kColumns);
  work.depth = guess::extent(constant_volume(dense.reduce_axes), guess::Extent::kDepth);
  work.element_bytes = byte_width(work.half ? DType::kF16 : dense.result_dtypes[0]);
  const OperationNode* chunk = chunk_of(dense);
  if (const ReadNode* weight = weight_read(chunk ? *chunk : dense)) {
    const std::vector<Expr>& shape = weight->op->result_shapes[0];
    work.data_depth = constant_extent(shape[1]).value_or(0);
    if (!chunk) return work;
    work.depth = work.data_depth;
    work.fixed_bits =
        static_cast<int>(32 * *constant_extent(shape[2]) / *constant_extent(dense.axes.back()->extent));
  }
  return work;
}

/// A panel beyond this is not fetched whole while the one before it is used.
constexpr int64_t kFetchedPanelBytes = 768 << 10;
/// Ahead in a panel that is read once: enough for the time that memory takes to answer. Where panels are
/// small, what lies further ahead is read by other threads.
constexpr int64_t kFetchDistanceBytes = 4 << 10;

/// While a block's rows go past a panel, the next panel comes to the second-level cache, a bit every `step`
/// of the sum.
void prefetch_next_panel(Stage& sums, const IterVarPtr& step, const costs::DenseTile& plan,
                         const costs::DenseWork& work) {
  const ReadNode* weight = weight_read(*sums.op());
  if (!weight || sums.axes().size() != (work.fixed_bits > 0 ? 4 : 3)) return;
  const auto axes = sums.axes();
  const int64_t row_elements = constant_extent(weight->op->result_shapes[0][2]).value();
  const int64_t width = byte_width(weight->type.dtype), line = kLineBytes / width;
  const Tensor panels(weight->op, weight->result);
  const Expr &panel = axes[1]->var, &depth = weight->indices[1];
  if (plan.block_rows <= plan.tile.rows || work.depth * row_elements * width > kFetchedPanelBytes) {
    // Read once, or too large to stay there: what comes next in this one, behind whose end the next begins.
    const int64_t steps = std::max<int64_t>(1, kFetchDistanceBytes / (row_elements * width));
    for (int64_t at = 0; at < row_elements; at += line)
      sums.prefetch(step, panels, {panel, depth + steps, Expr(at)});
    return;
  }
  const int64_t row_share = std::max<int64_t>(1, work.depth * row_elements / plan.block_rows);
  const int64_t step_share = std::max<int64_t>(1, ceil_div(row_elements * plan.tile.rows, plan.block_rows));
  const Expr row = mod(axes[0]->var, plan.block_rows);
  // The sum's part of the depth, and where in it.
  const Expr& k = sums.reduce_axes().front()->var;
  const bool chunks = work.fixed_bits > 0;
  const Expr first = chunks ? Expr(0) : substitute(depth, {{k.as<VarNode>(), Expr(0)}});
  const Expr position = chunks ? depth : k;
  for (int64_t at = 0; at < step_share; at += line)
    sums.prefetch(step, panels, {panel + 1, first, row * row_share + position * step_share + at});
}

/// The product's loops inside the tile: the sum outside, rows and vectors written out inside. Returns the
/// sum's innermost loop.
IterVarPtr schedule_sums(Stage& dense, bool half, const costs::ProductTile& tile) {
  const auto axes = dense.axes();
  const bool has_rows = axes.size() == (dense.op()->role == Role::kDenseChunk ? 4 : 3);
  std::vector<IterVarPtr> order(axes.begin() + (has_rows ? 1 : 0), axes.end() - 1);
  const auto reduced = half ? sum_in_half(dense) : sum_in_parts(dense, costs::kExactTerms);
  order.insert(order.end(), reduced.begin(), reduced.end());
  if (has_rows) order.push_back(axes[0]);
  order.push_back(axes.back());
  dense.reorder(order);
  if (has_rows) dense.unroll(axes[0]);
  vectorize_block(dense, axes.back(), tile.channel_block(), tile.lanes);
  return reduced.back();
}

bool worth_threads(const costs::DenseWork& work) {
  return work.rows == 0 ||
         work.rows * work.units * std::max<int64_t>(work.depth, 1) >= kParallelThreshold * 4;
}

/// The loops of the stage that the sums are attached to; `rows`: its leading axes. Returns where to attach.
IterVarPtr schedule_tiles(Stage& owner, const std::vector<IterVarPtr>& rows, const IterVarPtr& panel,
                          const IterVarPtr& unit, const costs::DenseTile& plan, const costs::DenseWork& work,
                          bool unrolled) {
  const bool worth_it = worth_threads(work);
  if (rows.empty()) {
    fuse_and_parallelize(owner, {panel}, worth_it);
    return panel;
  }
  const costs::ProductTile& tile = plan.tile;
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
  auto [row_tile, row_inner] = owner.split(row, tile.rows, tail_of_rows(row, tile.rows));
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

/// `chunk`: the stage whose sums `dense` adds; null if it adds products.
void attach_sums(Stage& dense, Stage* chunk, Stage& owner, const IterVarPtr& attach,
                 const costs::DenseTile& plan, const costs::DenseWork& work) {
  dense.compute_at(owner, attach);
  dense.set_scope(StorageScope::kLocal);
  IterVarPtr step = schedule_sums(dense, work.half, plan.tile);
  if (chunk) {
    chunk->compute_at(dense, step);
    chunk->set_scope(StorageScope::kLocal);
    step = schedule_sums(*chunk, false, plan.tile);
  }
  prefetch_next_panel(chunk ? *chunk : dense, step, plan, work);
}

/// A heavy epilogue reads the accumulators from a small buffer, in a loop over the tile. Returns the stage of
/// the sums.
Stage& spill_accumulators(Schedule& schedule, Stage& output, Stage& dense, const IterVarPtr& attach,
                          const costs::ProductTile& tile, int lanes) {
  const Operation op = dense.op();
  Stage& sums = schedule[schedule.cache_write(Tensor(op, 0), StorageScope::kLocal)];
  Stage& copy = schedule[op];
  copy.compute_at(output, attach);
  copy.set_scope(StorageScope::kLocal);
  const auto axes = copy.axes();
  for (size_t i = 0; i + 1 < axes.size(); ++i) copy.unroll(axes[i]);
  vectorize_block(copy, axes.back(), tile.channel_block(), lanes);
  return sums;
}

/// `outputs` with products of large depth as sums of parts over some of it, where the target computes them
/// faster so.
std::vector<Tensor> split_dense_depth(const std::vector<Tensor>& outputs, const Target& target) {
  if (outputs.size() != 1 || outputs[0].op()->axes.empty()) return outputs;
  for (const Operation& op : topological_order(outputs)) {
    if (!is_dense(*op) || op->axes.size() != 3 || !constant_volume(op->reduce_axes) || chunk_of(*op))
      continue;
    const int64_t parts = costs::dense_depth_parts(work_of(*op, *outputs[0].op(), target), target.machine);
    if (parts > 1) return replace_tensors(outputs, {{op.get(), sum_of_parts(*op, parts)}});
  }
  return outputs;
}

bool schedule_dense(Schedule& schedule, const Target& target) {
  std::vector<Stage*> products;
  for (const auto& stage : schedule.stages()) {
    if (is_dense(*stage->op())) products.push_back(stage.get());
  }
  if (products.empty() || schedule.outputs().size() != 1) return false;
  Stage& output = schedule[schedule.outputs()[0]];
  if (output.axes().empty()) return false;
  const int64_t block = constant_extent(products[0]->axes().back()->extent).value();
  costs::DenseWork work = work_of(*products[0]->op(), *output.op(), target);
  work.given_rows = static_cast<int>(given_knob(*products[0]->op(), "rows"));
  const costs::DenseTile plan = costs::choose_dense_tile(work, target.machine, block);
  if (const auto unfit = costs::unfit_rows(work.given_rows, plan.tile))
    refuse_knob(*products[0]->op(), *unfit);
  const bool heavy = epilogue_cost(schedule) > kUnrolledEpilogueCost;
  const int lanes = work.half ? result_lanes(plan.tile, *output.op(), target) : plan.tile.lanes;

  inline_elementwise(schedule);
  for (const auto& stage : schedule.stages())
    if (stage->attachment().is_root() && stage->op()->role == Role::kHalfOperand)
      schedule_half_operand(*stage, worth_threads(work), target);
  size_t done = 0;
  for (const auto& stage : schedule.stages()) {
    if (stage->op()->role != Role::kSumSoFar) continue;
    const auto axes = stage->axes();
    IterVarPtr attach = schedule_tiles(*stage, {axes[0]}, axes[1], axes[2], plan, work, true);
    vectorize_block(*stage, axes[2], block, lanes);
    attach_sums(*products[done++], nullptr, *stage, attach, plan, work);
  }
  const auto axes = output.axes();
  auto [panel, unit] = output.split(axes.back(), block, TailStrategy::kGuard);
  IterVarPtr attach = schedule_tiles(output, {axes.begin(), axes.end() - 1}, panel, unit, plan, work, !heavy);
  vectorize_block(output, unit, block, lanes);
  Stage& last = *products[done];
  Stage& sums = heavy ? spill_accumulators(schedule, output, last, attach, plan.tile, lanes) : last;
  attach_sums(sums, stage_of(schedule, Role::kDenseChunk), output, attach, plan, work);
  return true;
}

}  // namespace

std::optional<Schedule> dense_rule(const std::vector<Tensor>& outputs, const Target& target) {
  Schedule schedule(split_dense_depth(outputs, target));
  if (!schedule_dense(schedule, target)) return std::nullopt;
  return schedule;
}

}  // namespace gantry::cpu
