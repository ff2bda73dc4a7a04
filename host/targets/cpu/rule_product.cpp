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
//
// All points of images of unknown width are one row, which may be many megabytes. Where not all weights stay near, the
// tiles of a chunk of them pass a block before the next:
//
//   parallel for (chunk of tiles, channel block)
//     for row tile of the chunk: as above
//
// Small images with many channels would read a block's weights anew for every tile, from far away. There, all
// sums of an image and block are kept in the first-level cache, and the reduction is cut:
//
//   parallel for (image, group of lines)        in rounds, one a channel block
//     acc[rows][block] = 0
//     for part of the reduction                                     whose weights stay near
//       for row tile
//         for reduction in the part: as above
//     output[rows][block] = epilogue(acc)
#include <algorithm>
#include <optional>

#include "host/costs/tile_model.h"
#include "host/graph/shape_guess.h"
#include "host/support/divide.h"
#include "host/targets/common/kernel_rules.h"
#include "host/targets/cpu/rules.h"
#include "host/tensor/conjunction.h"

namespace gantry::cpu {
namespace {

bool is_packed_product(const OperationNode& op) {
  return op.role == Role::kPackedConv || op.role == Role::kGroupedConv || op.role == Role::kPackedDense;
}

// What becomes a stage of its own before the products.
bool is_operand(const OperationNode& op) {
  return op.role == Role::kPad || op.role == Role::kHalfOperand;
}

// Above this many operations an element, the epilogue is not written out for every point of the tile.
constexpr int kUnrolledEpilogueCost = 12;

Stage* find_anchor(Schedule& schedule) {
  for (const auto& stage : schedule.stages()) {
    if (is_packed_product(*stage->op())) return stage.get();
  }
  return nullptr;
}

// What is read between the anchor and the output, once inlined.
int epilogue_cost(const Schedule& schedule, const Stage& anchor) {
  int cost = 0;
  for (const auto& stage : schedule.stages()) {
    if (stage.get() == &anchor || is_operand(*stage->op()) || !is_compute(*stage->op())) continue;
    cost += element_cost(stage->op()->body);
  }
  return cost;
}

// Elements between what neighbouring rows read of the data; 0: unknown.
int64_t row_distance(const OperationNode& anchor, size_t row_axis) {
  if (row_axis >= anchor.axes.size()) return 0;
  const Expr& row = anchor.axes[row_axis]->var;
  int64_t distance = 0;
  walk(anchor.body, [&](const Expr& e) {
    const auto* read = e.as<ReadNode>();
    if (!read) return;
    Expr flat(0);
    for (size_t i = 0; i < read->indices.size(); ++i)
      flat = flat * read->op->result_shapes[static_cast<size_t>(read->result)][i] + read->indices[i];
    auto step = constant_extent(simplify(substitute(flat, {{row.as<VarNode>(), row + 1}}) - flat));
    if (step && *step != 0) distance = *step;
  });
  return distance;
}

// A second-level cache holds all weights beside the data: then rows go by outside of the channel blocks, and
// the data are read once.
bool keeps_all_weights(const costs::ProductWork& work, const MachineModel& machine) {
  return work.channels * work.reduction * work.element_bytes <= machine.l2_bytes / 2;
}

using guess::Extent;

/// Whether the sums are (point, block, lane), which an output (N, spatial…, channel) reads: all points are one row then.
bool joins_points(const OperationNode& anchor) {
  return anchor.role == Role::kPackedConv && anchor.axes.size() == 3;
}

/// Of an output (lines…, row, channel).
void count_rows(const OperationNode& output, bool joined, costs::ProductWork& work) {
  const size_t row_axis = output.axes.size() - 2;
  int64_t lines = 1;
  for (size_t i = 0; i < row_axis; ++i)
    lines *= guess::extent(constant_extent(output.axes[i]->extent), i == 0 ? Extent::kBatch : Extent::kSide);
  const auto row = constant_extent(output.axes[row_axis]->extent);
  work.row_extent = joined ? lines * guess::extent(row, Extent::kSide) : row.value_or(0);
  work.row_count = joined ? 1 : lines;
}

costs::ProductWork work_of(const OperationNode& anchor, const OperationNode& output, const Target& target) {
  costs::ProductWork work;
  work.half = sums_halves(anchor, target);
  work.whole_blocks = anchor.role == Role::kGroupedConv;
  work.channels = work.whole_blocks ? constant_volume({anchor.axes.end()[-2], anchor.axes.back()}).value()
                                    : guess::extent(constant_extent(output.axes.back()->extent), Extent::kChannels);
  const bool joined = joins_points(anchor);
  // A single vector of channels has no row axis; its only axis is the channels.
  if (output.axes.size() >= 2) count_rows(output, joined, work);
  work.reduction = 1;
  for (const IterVarPtr& axis : anchor.reduce_axes)
    work.reduction *= guess::extent(constant_extent(axis->extent), Extent::kChannels);
  work.element_bytes = byte_width(work.half ? DType::kF16 : output.result_dtypes[0]);
  work.row_bytes = row_distance(anchor, joined ? 0 : output.axes.size() - 2) * work.element_bytes;
  work.scattered_rows = joined && work.row_bytes == 0;
  const bool image = anchor.role == Role::kPackedConv && output.axes.size() == 4 &&
                     constant_extent(anchor.reduce_axes.back()->extent).has_value();
  if (image) work.image_points = constant_volume({output.axes[1], output.axes[2]}).value_or(0);
  return work;
}

// The anchor's loops inside the tile: reductions outside, rows and vectors written out inside.
void schedule_accumulators(Stage& anchor, size_t row_axis, bool half, const costs::ProductTile& tile) {
  const auto axes = anchor.axes();
  const auto reduced = half ? sum_in_half(anchor) : sum_in_parts(anchor, costs::kExactTerms);
  std::vector<IterVarPtr> order;
  for (size_t i = 0; i + 1 < axes.size(); ++i) {
    if (i != row_axis) order.push_back(axes[i]);
  }
  for (const auto& axis : reduced) order.push_back(axis);
  if (row_axis + 1 < axes.size()) order.push_back(axes[row_axis]);
  order.push_back(axes.back());
  anchor.reorder(order);
  if (row_axis + 1 < axes.size()) anchor.unroll(axes[row_axis]);
  // A loop over the few channels of an image would mostly count.
  constexpr int64_t kFewChannels = 4;
  if (!anchor.reduce_axes().empty()) {
    const auto& innermost = anchor.reduce_axes().back();
    if (constant_extent(innermost->extent).value_or(guess::kLong) <= kFewChannels)
      anchor.unroll(innermost);
  }
  vectorize_block(anchor, axes.back(), tile.channel_block(), tile.lanes);
}

// Windows that reach beyond the image multiply zeros there. Points along `axis` are left out where they do.
void skip_padding(Stage& anchor, const IterVarPtr& axis) {
  walk(anchor.op()->body, [&](const Expr& e) {
    const auto* read = e.as<ReadNode>();
    if (!read || read->op->role != Role::kPad) return;
    const auto* padded = read->op->body.as<CallNode>();
    const auto* value =
        padded && padded->fn == MathFn::kIfThenElse ? padded->args[2].as<FloatImmNode>() : nullptr;
    if (!value || value->value != 0) return;
    std::vector<std::pair<const VarNode*, Expr>> at;
    for (size_t i = 0; i < read->indices.size(); ++i)
      at.emplace_back(read->op->axes[i]->var.as<VarNode>(), read->indices[i]);
    std::vector<Expr> conditions;
    collect_conjuncts(padded->args[0], conditions);
    for (const Expr& condition : conditions) {
      const Expr here = substitute(condition, at);
      if (mentions(here, axis->var)) anchor.skip_unless(here);
    }
  });
}

// Slices and lines of a volume: no tile of rows meets the taps that are left out. Volumes are few slices
// deep, so that many of the taps are in the padding; of lines of images too few to be seen.
void skip_outer_padding(Stage& anchor, size_t row_axis) {
  constexpr size_t kVolumeAxes = 4;  // depth, height, width, channel
  if (anchor.op()->reduce_axes.size() < kVolumeAxes) return;
  for (size_t axis = 1; axis < row_axis; ++axis) skip_padding(anchor, anchor.op()->axes[axis]);
}

// Groups of lines that threads divide, for what computed the data divided lines too: data from another core's
// cache arrive at a fraction of the speed. One where the weights are what takes time to arrive.
int64_t line_groups(const costs::ProductWork& work, int64_t lines, const MachineModel& machine) {
  const int64_t weights = work.channels * work.reduction * work.element_bytes;
  const int64_t data = work.image_points * work.row_bytes;
  return lines > 1 && (weights <= machine.l2_bytes / 2 || weights <= 4 * data) ? 2 : 1;
}

// The window's axes that a part takes whole, beside the few channels of an image: sums are loaded and stored
// for every part, and one of a tap's channels would be over before.
size_t window_axes_of_part(const std::vector<IterVarPtr>& reduced, const costs::ProductWork& work,
                           const costs::ProductTile& tile, const MachineModel& machine) {
  constexpr int64_t kFewInputs = 16;
  int64_t inputs = *constant_extent(reduced.back()->extent);
  size_t axes = 0;
  while (inputs < kFewInputs && axes + 1 < reduced.size()) {
    const auto taps = constant_extent(reduced[reduced.size() - 2 - axes]->extent);
    if (!taps || costs::reduction_part(inputs * *taps, work, tile, machine) < inputs * *taps) break;
    inputs *= *taps;
    ++axes;
  }
  return axes;
}

/// What a packed product is scheduled with.
struct PackedProduct {
  Stage& anchor;  ///< the sums
  Stage& output;
  costs::ProductWork work;
  costs::ProductTile tile;
  bool joined = false;              ///< all points are one row
  std::optional<size_t> rows = {};  ///< the sums' axis of rows; none of a single vector of channels
  bool worth_it = true, heavy_epilogue = false;
};

void schedule_cut_reduction(const PackedProduct& p, const Target& target) {
  const MachineModel& machine = target.machine;
  Stage &anchor = p.anchor, &output = p.output;
  const costs::ProductWork& work = p.work;
  const costs::ProductTile& tile = p.tile;
  const int64_t block = tile.channel_block();
  const int lanes = result_lanes(tile, *output.op(), target);
  const auto axes = output.axes();
  auto [channels, channel] = output.split(axes[3], block);
  auto [tiles, row] = output.split(axes[2], tile.rows);
  const int64_t lines = *constant_extent(axes[1]->extent);
  auto [group, line] = output.split(axes[1], ceil_div(lines, line_groups(work, lines, machine)));
  output.reorder({channels, axes[0], group, line, tiles, row, channel});
  if (!p.heavy_epilogue) output.unroll(row);
  vectorize_block(output, channel, block, lanes);
  anchor.compute_at(output, fuse_and_parallelize(output, {channels, axes[0], group}, p.worth_it,
                                                 ceil_div(work.channels, block)));
  anchor.set_scope(StorageScope::kLocal);

  const auto sums = anchor.axes(), reduced = anchor.reduce_axes();
  int64_t part = costs::reduction_part(*constant_extent(reduced.back()->extent), work, tile, machine);
  auto [parts, input] = anchor.split(reduced.back(), part);
  auto [row_tiles, row_in_tile] = anchor.split(sums[2], tile.rows);
  const size_t window_axes = work.half ? 0 : window_axes_of_part(reduced, work, tile, machine);
  const auto inside = reduced.end() - 1 - static_cast<std::ptrdiff_t>(window_axes);
  std::vector<IterVarPtr> order{sums[0], sums[3]};
  order.insert(order.end(), reduced.begin(), inside);
  order.insert(order.end(), {parts, sums[1], row_tiles});
  std::vector<IterVarPtr> innermost(inside, reduced.end() - 1);
  part *= *constant_volume(innermost);
  if (work.half) {
    innermost = sum_in_half(anchor, {input}, {part});
  } else {
    innermost.push_back(input);
  }
  order.insert(order.end(), innermost.begin(), innermost.end());
  order.insert(order.end(), {row_in_tile, sums[4]});
  anchor.reorder(order);
  anchor.unroll(row_in_tile);
  vectorize_block(anchor, sums[4], block, tile.lanes);
  if (window_axes < 2) skip_padding(anchor, sums[1]);
  // Of whole lines, taps are written out apart for the points at both ends.
  if (window_axes == 0 && costs::skips_columns(work, tile)) skip_padding(anchor, sums[2]);
  if (const Operation weights = packed_weights(anchor)) anchor.fetch_next(weights, parts, part * block);
}

/// The output's axes before its channels: what is outside of the axis that is tiled, and that one.
struct RowLoops {
  std::vector<IterVarPtr> lines;
  IterVarPtr row;  ///< null of a single vector of channels
};

RowLoops row_loops(const PackedProduct& p) {
  RowLoops loops;
  if (!p.rows) return loops;
  loops.lines = p.output.axes();
  loops.lines.pop_back();
  loops.row = loops.lines.back();
  loops.lines.pop_back();
  // Around the row's end an axis of extent 1 would start anew: a tile there would be of two places, not of neighbours.
  for (; p.joined && constant_volume(loops.lines) != 1; loops.lines.pop_back())
    loops.row = p.output.fuse(loops.lines.back(), loops.row);
  return loops;
}

TailStrategy row_tail(const PackedProduct& p, const IterVarPtr& row) {
  if (p.joined) return tail_of_rows(row, p.tile.rows);
  // Lines of images may be little longer than a tile: shifted, two of them would compute nearly all points
  // twice.
  return p.work.row_extent >= p.tile.rows ? TailStrategy::kShiftInwards : TailStrategy::kGuard;
}

/// One sequence, or a plain matrix product: tiles of rows are what threads share, in rounds of channel blocks.
bool shares_tiles(const RowLoops& loops) {
  constexpr int64_t kFewLines = 4;
  const auto count = constant_volume(loops.lines);
  return loops.row && (loops.lines.empty() || (count && *count < kFewLines));
}

/// Of points that are one row, images of many megabytes perhaps, so many tiles go past all blocks of channels that
/// their data stay in half of the second-level cache, and at least so many that a block's weights, which come from
/// further away each time, are used several times.
int64_t tiles_of_chunk(const PackedProduct& p, const MachineModel& machine) {
  constexpr int64_t kFewestTiles = 8;
  const auto inputs = constant_extent(p.anchor.op()->reduce_axes.back()->extent);
  const int64_t row_bytes = std::max<int64_t>(1, guess::extent(inputs, Extent::kChannels)) * p.work.element_bytes;
  return std::max(kFewestTiles, machine.l2_bytes / 2 / row_bytes / p.tile.rows);
}

/// Of a loop over blocks of channels, of which it has to be a multiple: as many as a group has blocks. Where
/// a block goes over the end of a group into the next, all groups together may have another number: one for
/// each block then.
int64_t rounds_of_blocks(const PackedProduct& p) {
  const int64_t block = p.tile.channel_block(), of_group = ceil_div(p.work.channels, block);
  const auto channels = constant_extent(p.output.axes().back()->extent);
  const int64_t blocks = ceil_div(guess::extent(channels, Extent::kChannels), block);
  return blocks % of_group == 0 ? of_group : blocks;
}

// The output's loops: blocks of channels, lines, tiles of rows. Returns where the sums are attached.
IterVarPtr schedule_output(const PackedProduct& p, const Target& target) {
  Stage& output = p.output;
  const int64_t block = p.tile.channel_block();
  const RowLoops loops = row_loops(p);
  auto [block_outer, block_inner] = output.split(output.axes().back(), block, TailStrategy::kGuard);
  std::vector<IterVarPtr> outer = loops.lines, inner{block_inner};
  IterVarPtr tiles;
  if (loops.row) {
    auto [row_outer, row_inner] = output.split(loops.row, p.tile.rows, row_tail(p, loops.row));
    tiles = row_outer;
    inner.insert(inner.begin(), row_inner);
    if (!p.heavy_epilogue) output.unroll(row_inner);
  }
  const bool keeps = keeps_all_weights(p.work, target.machine), chunked = p.joined && !keeps;
  const bool shared = !chunked && shares_tiles(loops);
  const bool lines_outside = chunked || (keeps && (p.joined || (!shared && !loops.lines.empty())));
  if (chunked) {
    auto [chunk, tile] = output.split(tiles, tiles_of_chunk(p, target.machine), TailStrategy::kGuard);
    outer.push_back(chunk);
    tiles = tile;
  }
  if (shared) outer.push_back(tiles);
  outer.insert(lines_outside ? outer.end() : outer.begin(), block_outer);
  std::vector<IterVarPtr> order = outer;
  if (tiles && !shared) order.push_back(tiles);
  order.insert(order.end(), inner.begin(), inner.end());
  output.reorder(order);
  vectorize_block(output, block_inner, block, result_lanes(p.tile, *output.op(), target));

  const int64_t rounds = lines_outside ? 1 : rounds_of_blocks(p);
  IterVarPtr fused = fuse_and_parallelize(output, outer, p.worth_it, rounds);
  return tiles && !shared ? tiles : fused;
}

// The accumulators leave their registers once, to a small tile that the epilogue reads in a loop.
void spill_accumulators(Schedule& schedule, const PackedProduct& p, const IterVarPtr& attach,
                        const Target& target) {
  for (const auto& stage : schedule.stages()) {
    if (!stage->attachment().is_inline()) continue;
    auto readers = readers_of(schedule, *p.anchor.op());
    if (std::find(readers.begin(), readers.end(), stage->op().get()) == readers.end()) continue;
    stage->compute_at(p.output, attach);
    stage->set_scope(StorageScope::kLocal);
    if (p.rows) stage->unroll(stage->axes()[*p.rows]);
    vectorize_block(*stage, stage->axes().back(), p.tile.channel_block(),
                    result_lanes(p.tile, *p.output.op(), target));
    return;
  }
}

bool schedule_packed_product(Schedule& schedule, const Target& target) {
  Stage* anchor = find_anchor(schedule);
  if (!anchor || schedule.outputs().size() != 1) return false;
  Stage& output = schedule[schedule.outputs()[0]];
  const auto axes = output.axes();
  if (axes.empty()) return false;
  const int64_t block = constant_extent(anchor->axes().back()->extent).value();

  PackedProduct p{*anchor, output, work_of(*anchor->op(), *output.op(), target), {}};
  p.joined = joins_points(*anchor->op());
  if (axes.size() >= 2) p.rows = p.joined ? 0 : axes.size() - 2;
  p.work.given_rows = static_cast<int>(given_knob(*anchor->op(), "rows"));
  p.tile = costs::choose_product_tile(p.work, target.machine, block);
  if (const auto unfit = costs::unfit_rows(p.work.given_rows, p.tile)) refuse_knob(*anchor->op(), *unfit);

  inline_elementwise(schedule);
  auto volume = constant_volume(axes);
  p.worth_it = !volume || *volume * std::max<int64_t>(p.work.reduction, 1) >= kParallelThreshold * 4;
  p.heavy_epilogue = epilogue_cost(schedule, *anchor) > kUnrolledEpilogueCost;
  for (const auto& stage : schedule.stages()) {
    if (!stage->attachment().is_root()) continue;
    if (stage->op()->role == Role::kPad) schedule_elementwise(*stage, target);
    if (stage->op()->role == Role::kHalfOperand) schedule_half_operand(*stage, p.worth_it, target);
  }
  if (costs::cuts_reduction(p.work, p.tile, target.machine)) {
    schedule_cut_reduction(p, target);
    return true;
  }
  const IterVarPtr attach = schedule_output(p, target);
  anchor->compute_at(output, attach);
  anchor->set_scope(StorageScope::kLocal);
  schedule_accumulators(*anchor, p.rows.value_or(axes.size()), p.work.half, p.tile);
  skip_outer_padding(*anchor, p.rows.value_or(0));
  if (p.heavy_epilogue) spill_accumulators(schedule, p, attach, target);
  return true;
}

}  // namespace

std::optional<Schedule> packed_product_rule(const std::vector<Tensor>& outputs, const Target& target) {
  Schedule schedule(outputs);
  if (!schedule_packed_product(schedule, target)) return std::nullopt;
  return schedule;
}

}  // namespace gantry::cpu
