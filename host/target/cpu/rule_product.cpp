// Convolutions and matrix products over packed weights.
//
// The anchor computes (outer…, row, block…, lane block); the output reads it as (outer…, row, channel). A
// tile of rows x channel block is accumulated in registers:
//
//   parallel for (channel block, outer…)
//     for row tile
//       acc[rows][block] = 0
//       for reduction: acc[r][:] += broadcast(x[r]) * w[:]      rows and vectors unrolled
//       output[rows][block] = epilogue(acc)
#include <algorithm>

#include "host/target/cpu/rules.h"
#include "host/target/cpu/tile_model.h"

namespace gantry::cpu {
namespace {

bool is_packed_product(const OperationNode& op) {
  return op.tag == "conv_packed" || op.tag == "conv_grouped" || op.tag == "dense_packed";
}

// Above this many operations an element, the epilogue is not written out for every point of the tile.
constexpr int kUnrolledEpilogueCost = 12;

Stage* find_anchor(Schedule& schedule) {
  for (const auto& stage : schedule.stages()) {
    if (is_packed_product(*stage->op)) return stage.get();
  }
  return nullptr;
}

// What is read between the anchor and the output, once inlined.
int epilogue_cost(const Schedule& schedule, const Stage& anchor) {
  int cost = 0;
  for (const auto& stage : schedule.stages()) {
    if (stage.get() == &anchor || stage->op->tag == "pad" || !is_compute(*stage->op)) continue;
    cost += element_cost(stage->op->body);
  }
  return cost;
}

ProductWork work_of(const OperationNode& anchor, const OperationNode& output, size_t row_axis) {
  ProductWork work;
  work.channels = constant_extent(output.axes.back()->extent).value_or(1);
  work.row_extent = constant_extent(output.axes[row_axis]->extent).value_or(0);
  std::vector<IterVarPtr> outer(output.axes.begin(), output.axes.begin() + static_cast<long>(row_axis));
  work.row_count = constant_volume(outer).value_or(1);
  work.reduction = constant_volume(anchor.reduce_axes).value_or(256);
  work.element_bytes = byte_width(output.result_dtypes[0]);
  return work;
}

// The anchor's loops inside the tile: reductions outside, rows and vectors written out inside.
void schedule_accumulators(Stage& anchor, size_t row_axis, const ProductTile& tile) {
  const auto axes = anchor.axes();
  std::vector<IterVarPtr> order;
  for (size_t i = 0; i + 1 < axes.size(); ++i) {
    if (i != row_axis) order.push_back(axes[i]);
  }
  for (const auto& axis : anchor.reduce_axes()) order.push_back(axis);
  if (row_axis + 1 < axes.size()) order.push_back(axes[row_axis]);
  order.push_back(axes.back());
  anchor.reorder(order);
  if (row_axis + 1 < axes.size()) anchor.unroll(axes[row_axis]);
  vectorize_block(anchor, axes.back(), tile.channel_block(), tile.lanes);
}

}  // namespace

bool schedule_packed_product(Schedule& schedule, const Target& target) {
  Stage* anchor = find_anchor(schedule);
  if (!anchor || schedule.outputs().size() != 1) return false;
  Stage& output = schedule[schedule.outputs()[0]];
  const auto axes = output.axes();
  if (axes.empty()) return false;
  int64_t block = constant_extent(anchor->axes().back()->extent).value();
  // A single vector of channels has no row axis; its only axis is the channels.
  bool has_rows = axes.size() >= 2;
  size_t row_axis = has_rows ? axes.size() - 2 : 0;

  ProductWork work = work_of(*anchor->op, *output.op, row_axis);
  if (!has_rows) work.row_extent = work.row_count = 1;
  ProductTile tile = choose_product_tile(work, target.machine, block);

  inline_elementwise(schedule);
  for (const auto& stage : schedule.stages()) {
    if (stage->attach == AttachKind::kRoot && stage->op->tag == "pad") schedule_elementwise(*stage, target);
  }
  auto [block_outer, block_inner] = output.split(axes.back(), block, TailStrategy::kGuard);
  std::vector<IterVarPtr> outer{block_outer};
  for (size_t i = 0; i < row_axis; ++i) outer.push_back(axes[i]);
  IterVarPtr attach;
  bool heavy_epilogue = epilogue_cost(schedule, *anchor) > kUnrolledEpilogueCost;
  if (has_rows) {
    auto [row_outer, row_inner] =
        output.split(axes[row_axis], tile.rows, tail_for(axes[row_axis], tile.rows));
    std::vector<IterVarPtr> order = outer;
    order.insert(order.end(), {row_outer, row_inner, block_inner});
    output.reorder(order);
    if (!heavy_epilogue) output.unroll(row_inner);
    attach = row_outer;
  } else {
    output.reorder({block_outer, block_inner});
  }
  vectorize_block(output, block_inner, block, tile.lanes);

  auto volume = constant_volume(axes);
  bool worth_it = !volume || *volume * std::max<int64_t>(work.reduction, 1) >= kParallelThreshold * 4;
  if (has_rows && row_axis == 0) {
    // A plain matrix product: tiles of rows are parallel too.
    outer.push_back(attach);
    attach = nullptr;
  }
  IterVarPtr fused = fuse_and_parallelize(output, outer, worth_it);
  if (!attach) attach = fused;

  anchor->compute_at(output, attach);
  anchor->scope = StorageScope::kLocal;
  schedule_accumulators(*anchor, has_rows ? row_axis : anchor->axes().size(), tile);
  if (heavy_epilogue) {
    // The accumulators leave their registers once, to a small tile that the epilogue reads in a loop.
    for (const auto& stage : schedule.stages()) {
      if (stage->attach != AttachKind::kInline) continue;
      auto readers = readers_of(schedule, *anchor->op);
      if (std::find(readers.begin(), readers.end(), stage->op.get()) == readers.end()) continue;
      stage->compute_at(output, attach);
      stage->scope = StorageScope::kLocal;
      if (has_rows) stage->unroll(stage->axes()[row_axis]);
      vectorize_block(*stage, stage->axes().back(), block, tile.lanes);
      break;
    }
  }
  return true;
}

}  // namespace gantry::cpu
