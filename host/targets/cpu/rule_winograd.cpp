// Convolutions by Winograd's algorithm (host/ops/conv.h), with the plans of
// host/costs/winograd_model.h.
//
//   [the transformed input of all tiles, tiles in parallel]              either here …
//   parallel for (group, image, chunk of tiles)     in rounds, one a channel block, where the input is first
//     [the transformed input of the chunk and group]                     … or here
//     for channel block
//       products[position][tile][block] = input * weights                a register tile of tiles x block
//       for tile, vector of channels: columns, then output = epilogue(rows), m x m points
//
// Of volumes, the slices of an image are images here, the innermost loop of those in parallel.
//
// A transformation takes a vector of channels of one tile: first all columns, whose sums go to a small
// buffer, then all rows.
#include <algorithm>

#include "host/costs/winograd_model.h"
#include "host/graph/shape_guess.h"
#include "host/machine/cpu_features.h"
#include "host/support/divide.h"
#include "host/targets/common/kernel_rules.h"
#include "host/targets/cpu/rules.h"
#include "host/targets/cpu/tile_schedule.h"

namespace gantry::cpu {
namespace {

struct Stages {
  Stage *input, *rows, *patch, *product, *columns, *transformed;
  Stage* tile_rows = nullptr;  ///< the input in bf16 parts, for products on tile registers
  Stage* root =
      nullptr;  ///< what ends the algorithm: the transformed output, or the epilogue that it is part of
};

// Of the output (N, [slices,] y, x, channel): the first of the last three axes.
size_t line_axis(const Stage& root) {
  return root.axes().size() - 3;
}

// The epilogue's points are the convolution's: it can be computed tile by tile.
bool same_extents(const Stage& a, const Stage& b) {
  if (a.axes().size() != b.axes().size()) return false;
  for (size_t i = 0; i < a.axes().size(); ++i) {
    if (!structurally_equal(a.axes()[i]->extent, b.axes()[i]->extent)) return false;
  }
  return true;
}

using guess::Extent;

costs::WinogradWork work_of(const Stages& stages, const Target& target) {
  const auto& axes = stages.root->axes();
  costs::WinogradWork work;
  work.tile = constant_extent(stages.columns->axes()[0]->extent).value();
  const size_t line = line_axis(*stages.root);
  for (size_t i = 0; i < line; ++i)
    work.batch *= guess::extent(constant_extent(axes[i]->extent), i == 0 ? Extent::kBatch : Extent::kSide);
  const auto height = constant_extent(axes[line]->extent), width = constant_extent(axes[line + 1]->extent);
  work.symbolic = !height || !width;
  work.height = guess::extent(height, Extent::kSide);
  work.width = guess::extent(width, Extent::kSide);
  work.inputs = guess::extent(constant_volume(stages.product->reduce_axes()), Extent::kChannels);
  if (stages.tile_rows == nullptr)
    work.groups = constant_extent(stages.input->axes()[2]->extent).value_or(work.inputs) / work.inputs;
  work.outputs = guess::extent(constant_extent(axes.back()->extent), Extent::kChannels) / work.groups;
  work.element_bytes = byte_width(stages.product->op()->result_dtypes[0]);
  work.half = sums_halves(*stages.product->op(), target);
  if (stages.tile_rows != nullptr) {
    const Operation& weights = tile_weights(*stages.product->op());
    work.tile_parts = constant_extent(weights->result_shapes[0][3]).value();
    work.tile_unit = tile_unit(target, weights->result_dtypes[0]).value_or(TileUnit{});
  }
  return work;
}

// The first pass over the columns of a tile's data, in the loop `at` of `consumer`.
void schedule_passes(Stages& s, Stage& consumer, const IterVarPtr& at, int lanes) {
  s.rows->compute_at(consumer, at);
  s.rows->set_scope(StorageScope::kLocal);
  const auto rows = s.rows->axes();
  s.rows->reorder({rows[1], rows[0], rows[2], rows[3]});
  s.rows->unroll(rows[0]);
  vectorize_block(*s.rows, rows[3], lanes, lanes);

  s.patch->compute_at(*s.rows, rows[1]);
  s.patch->set_scope(StorageScope::kLocal);
  s.patch->unroll(s.patch->axes()[0]);
  vectorize_block(*s.patch, s.patch->axes()[3], lanes, lanes);
}

// (position, tile, channel): both passes for a vector of channels of one tile. Returns the loop over tiles.
IterVarPtr schedule_input(Stages& s, int64_t inputs, const Target& target) {
  const int64_t t = constant_extent(s.rows->axes()[0]->extent).value();
  const int lanes = costs::choose_lanes(inputs, byte_width(s.rows->op()->result_dtypes[0]), target.machine);
  const auto axes = s.input->axes();
  auto [row, column] = s.input->split(axes[0], t);
  auto [vectors, lane] = s.input->split(axes[2], lanes);
  s.input->reorder({axes[1], vectors, row, column, lane});
  s.input->unroll(column);
  if (lanes > 1) s.input->vectorize(lane);

  schedule_passes(s, *s.input, vectors, lanes);
  return axes[1];
}

// The same, and on into the parts of blocks of 32 channels: (part, block, position, tile, lane). Returns the
// loop for threads to share: over tiles, or over blocks and tiles.
IterVarPtr schedule_tile_rows(Stages& s, bool share_blocks) {
  const int64_t t = constant_extent(s.rows->axes()[0]->extent).value();
  Stage& out = *s.tile_rows;
  const auto axes = out.axes();
  // Rows of a tile of the product adjoin in memory, one position's behind another's.
  auto [group, tile] = out.split(axes[3], even_row_group(axes[3]->extent));
  auto [row, column] = out.split(axes[2], t);
  std::vector<IterVarPtr> outer{group, axes[1]};
  if (share_blocks) std::swap(outer[0], outer[1]);
  out.reorder({outer[0], outer[1], tile, row, column, axes[0], axes[4]});
  out.unroll(column);
  out.unroll(axes[0]);
  out.vectorize(axes[4]);

  const int lanes = int(constant_extent(axes[4]->extent).value());
  s.input->compute_at(out, row);
  s.input->set_scope(StorageScope::kLocal);
  s.input->unroll(s.input->axes()[0]);
  vectorize_block(*s.input, s.input->axes()[2], lanes, lanes);
  schedule_passes(s, out, tile, lanes);
  return share_blocks ? out.fuse(outer[0], outer[1]) : group;
}

// (position, tile, block, lane): register tiles along tiles and lanes.
void schedule_product(Stage& product, const Operation& input_op, const costs::WinogradWork& work,
                      const costs::WinogradPlan& plan, const MachineModel& machine) {
  const auto axes = product.axes();
  const costs::ProductTile& tile = plan.product;
  const costs::ProductWork chunk = costs::chunk_product(work, plan);
  const bool shifts = plan.chunk >= tile.rows, cut = costs::cuts_reduction(chunk, tile, machine);
  auto [outer, inner] =
      product.split(axes[1], tile.rows, shifts && !cut ? TailStrategy::kShiftInwards : TailStrategy::kGuard);
  IterVarPtr input = product.reduce_axes()[0], panels = axes[0];
  int64_t panel_inputs = work.inputs;
  std::vector<IterVarPtr> order{axes[2], axes[0]};
  if (cut) {
    // As convolutions of small images are (host/targets/cpu/rule_product.cpp).
    panel_inputs = costs::reduction_part(work.inputs, chunk, tile, machine);
    auto [parts, rest] = product.split(input, panel_inputs);
    input = rest;
    panels = parts;
    order.push_back(parts);
  }
  order.push_back(outer);
  const std::vector<IterVarPtr> summed =
      work.half ? sum_in_half(product, {input}, {panel_inputs})
                : sum_in_parts(product, {input}, {panel_inputs}, costs::kExactWinogradTerms);
  order.insert(order.end(), summed.begin(), summed.end());
  order.insert(order.end(), {inner, axes[3]});
  product.reorder(order);
  product.unroll(inner);
  vectorize_block(product, axes[3], tile.channel_block(), tile.lanes);
  // The next weights: between other layers they come from afar, however few they are. With vectors of 16
  // bytes (measured on none) only where the second-level cache cannot hold them.
  const bool wide = machine.vector_bytes >= 64, wider = machine.vector_bytes > 16;
  const int64_t points = (work.tile + 2) * (work.tile + 2);
  const Operation weights = packed_weights(product);
  if (weights && (wider || points * work.inputs * work.outputs * work.weight_bytes() > machine.l2_bytes))
    product.fetch_next(weights, panels, panel_inputs * tile.channel_block());
  // Rows that another core may have made, where a step's multiply-adds leave time for the hint.
  if (plan.input_at_root && !cut && wide) product.fetch_next(input_op, outer, tile.rows * work.inputs);
}

// (a, column, tile, channel): one pass for a vector of channels of one tile.
void schedule_columns(Stages& s, const IterVarPtr& at, int lanes) {
  s.columns->compute_at(*s.root, at);
  s.columns->set_scope(StorageScope::kLocal);
  const auto axes = s.columns->axes();
  s.columns->reorder({axes[1], axes[0], axes[2], axes[3]});
  s.columns->unroll(axes[0]);
  vectorize_block(*s.columns, axes[3], lanes, lanes);
}

/// The tiles of the output, in chunks that are transformed and multiplied together.
struct TileLoops {
  std::vector<IterVarPtr> chunks, tiles;
  IterVarPtr y_in, x_in;  ///< positions in a tile
};

TileLoops split_tiles(Stage& root, const costs::WinogradWork& work, const costs::WinogradPlan& plan) {
  TileLoops loops;
  const auto axes = root.axes();
  const size_t line = line_axis(root);
  auto [y, y_in] = root.split(axes[line], work.tile);
  auto [x, x_in] = root.split(axes[line + 1], work.tile);
  loops.y_in = y_in;
  loops.x_in = x_in;
  const int64_t columns = ceil_div(work.width, work.tile), rows = ceil_div(work.height, work.tile);
  loops.chunks = {axes[0]};
  if (plan.within_row) {
    auto [x_chunk, x_tile] = root.split(x, plan.chunk);
    loops.chunks.insert(loops.chunks.end(), {y, x_chunk});
    loops.tiles = {x_tile};
  } else if (!work.symbolic && plan.chunk % columns == 0 && rows * columns % plan.chunk == 0) {
    auto [y_chunk, y_tile] = root.split(y, plan.chunk / columns);
    loops.chunks.push_back(y_chunk);
    loops.tiles = {y_tile, x};
  } else {
    root.reorder({y, x, y_in, x_in});
    IterVarPtr all = root.fuse(y, x);
    // Images of unknown size may have fewer tiles than a chunk: it goes on into the next one.
    if (work.symbolic && line == 1 && constant_extent(axes[0]->extent) != 1) {
      all = root.fuse(axes[0], all);
      loops.chunks.clear();
    }
    auto [chunk, tile] = root.split(all, plan.chunk);
    loops.chunks.push_back(chunk);
    loops.tiles = {tile};
  }
  // Neighbouring slices read the same ones: they follow each other.
  for (size_t i = 1; i < line; ++i) loops.chunks.push_back(axes[i]);
  return loops;
}

/// One chunk has no part for each thread: the blocks of channels are what they share.
bool is_one_chunk(const costs::WinogradWork& work, const costs::WinogradPlan& plan) {
  const int64_t columns = ceil_div(work.width, work.tile), rows = ceil_div(work.height, work.tile);
  return !work.symbolic && !plan.within_row && plan.chunk == rows * columns && work.batch == 1;
}

/// How many blocks of channels of a chunk one thread takes: all, but of images of unknown size, which may
/// have fewer chunks than there are threads. There threads share them in parts, each of which transforms the
/// chunk's input for itself: some 4 vector instructions a channel and tile beside one for each output
/// channel. Parts may add 2 % so.
int64_t blocks_of_part(const costs::WinogradWork& work, const costs::WinogradPlan& plan) {
  constexpr int64_t kTransformation = 4, kMostPercent = 2;
  const int64_t blocks = ceil_div(work.outputs, plan.product.channel_block());
  if (!work.symbolic || plan.input_at_root || work.groups > 1 || work.tile_parts > 0 || work.half)
    return blocks;
  int64_t parts = std::min(blocks, 1 + work.outputs * kMostPercent / (100 * kTransformation));
  while (blocks % parts != 0) --parts;
  return blocks / parts;
}

/// Threads share the loops; returns the one that is theirs.
IterVarPtr share_chunks(Stage& root, const std::vector<IterVarPtr>& shared, const costs::WinogradWork& work,
                        const costs::WinogradPlan& plan, bool worth_it) {
  const bool in_rounds = plan.input_at_root && !is_one_chunk(work, plan);
  const int64_t rounds = in_rounds ? ceil_div(work.outputs, plan.product.channel_block()) : 1;
  return fuse_and_parallelize(root, shared, worth_it, rounds);
}

/// The transformed input for every chunk, or once for all; the products for every block of channels.
void attach_operands(Stages& s, const costs::WinogradWork& work, const costs::WinogradPlan& plan,
                     const Target& target, const IterVarPtr& parallel, const IterVarPtr& block,
                     bool worth_it) {
  Stage& root = *s.root;
  const bool on_tiles = s.tile_rows != nullptr;
  Stage& operand = on_tiles ? *s.tile_rows : *s.input;
  // A layer before whose threads shared channels too left each of them in the cache of its core.
  IterVarPtr input_tiles = on_tiles ? schedule_tile_rows(s, plan.input_at_root && is_one_chunk(work, plan))
                                    : schedule_input(s, work.inputs, target);
  // Blocks need not reach as far beyond the last tile as there are rows.
  if (on_tiles && plan.input_at_root) operand.bound_to_reads();
  if (!plan.input_at_root) {
    operand.compute_at(root, parallel);
    operand.set_scope(StorageScope::kLocal);
  } else if (worth_it) {
    operand.parallel(input_tiles);
  }
  s.product->compute_at(root, plan.input_at_root ? parallel : block);
  s.product->set_scope(StorageScope::kLocal);
  if (on_tiles) {
    const TileGeometry& tile = geometry_of(work.tile_unit);
    schedule_tile_product(*s.product, costs::in_tiles(plan.chunk, 1, plan.chunk, tile.unit),
                          tile.column_tiles * tile.columns, plan.chunk * work.inputs * work.data_bytes(),
                          tile, target.machine);
  } else {
    // A last chunk of fewer tiles begins among those of the one before, for itself.
    s.product->shift_region(s.product->axes()[1]);
    schedule_product(*s.product, s.input->op(), work, plan, target.machine);
  }
}

void schedule_root(Stages& s, const costs::WinogradWork& work, const costs::WinogradPlan& plan,
                   const Target& target) {
  Stage& root = *s.root;
  const auto axes = root.axes();
  const int lanes = work.half ? result_lanes(plan.product, *s.product->op(), target) : plan.product.lanes;
  TileLoops loops = split_tiles(root, work, plan);
  IterVarPtr outputs = axes.back();
  if (work.groups > 1) {
    auto [group, inside] = root.split(axes.back(), work.outputs);
    loops.chunks.insert(loops.chunks.begin(), group);
    outputs = inside;
  }
  auto [block, channel] = root.split(outputs, plan.product.channel_block());
  auto [vectors, lane] = root.split(channel, lanes);
  std::vector<IterVarPtr> shared = loops.chunks, order = loops.chunks;
  IterVarPtr inner_block = block;
  if (plan.input_at_root) {
    shared.insert(shared.begin(), block);
    order.insert(order.begin(), block);
  } else {
    const int64_t part_blocks = blocks_of_part(work, plan);
    if (part_blocks < ceil_div(work.outputs, plan.product.channel_block())) {
      auto [part, inside] = root.split(block, part_blocks);
      shared.push_back(part);
      order.push_back(part);
      inner_block = inside;
    }
    order.push_back(inner_block);
  }
  order.insert(order.end(), loops.tiles.begin(), loops.tiles.end());
  order.insert(order.end(), {vectors, loops.y_in, loops.x_in, lane});
  root.reorder(order);
  root.unroll(loops.x_in);
  if (lanes > 1) root.vectorize(lane);

  const auto volume = constant_volume(axes);
  const bool worth_it = !volume || *volume * work.inputs >= kParallelThreshold;
  const IterVarPtr parallel = share_chunks(root, shared, work, plan, worth_it);
  attach_operands(s, work, plan, target, parallel, inner_block, worth_it);
  schedule_columns(s, vectors, lanes);
}

/// The best plan with the knobs that the node's decision gives.
costs::WinogradPlan plan_by_decision(costs::WinogradWork& work, const OperationNode& product, int64_t block,
                                     const MachineModel& machine) {
  work.given = costs::given_plan(product.decision.get());
  const costs::WinogradPlan plan = costs::plan_winograd(work, machine, block);
  if (const auto unfit = costs::unfit_knob(work, plan)) refuse_knob(product, *unfit);
  return plan;
}

bool schedule_winograd(Schedule& schedule, const Target& target) {
  Stages s{stage_of(schedule, Role::kWinogradInput),   stage_of(schedule, Role::kWinogradRows),
           stage_of(schedule, Role::kWinogradPatch),   stage_of(schedule, Role::kWinogradProduct),
           stage_of(schedule, Role::kWinogradColumns), stage_of(schedule, Role::kWinogradOutput),
           stage_of(schedule, Role::kTileRows)};
  if (s.transformed == nullptr) return false;
  if (s.tile_rows != nullptr) s.product = stage_of(schedule, Role::kTileProduct);
  if (s.product == nullptr) return false;
  s.root = s.transformed;
  if (schedule.outputs().size() == 1) {
    Stage& output = schedule[schedule.outputs()[0]];
    if (&output != s.transformed && same_extents(output, *s.transformed)) {
      s.root = &output;
      s.transformed->compute_inline();
    }
  }
  costs::WinogradWork work = work_of(s, target);
  // Weights for tile registers suit blocks of any number of columns.
  const int64_t block = work.tile_parts > 0 ? 0 : constant_extent(s.product->axes()[3]->extent).value();
  schedule_root(s, work, plan_by_decision(work, *s.product->op(), block, target.machine), target);
  inline_elementwise(schedule, s.input);
  for (const auto& stage : schedule.stages()) {
    const bool other = stage.get() != s.root && stage.get() != s.input && stage.get() != s.tile_rows;
    if (other && stage->attachment().is_root() && is_compute(*stage->op()))
      schedule_elementwise(*stage, target);
  }
  return true;
}

}  // namespace

std::optional<Schedule> winograd_rule(const std::vector<Tensor>& outputs, const Target& target) {
  Schedule schedule(outputs);
  if (!schedule_winograd(schedule, target)) return std::nullopt;
  return schedule;
}

}  // namespace gantry::cpu
