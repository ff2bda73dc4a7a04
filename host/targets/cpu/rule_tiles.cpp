// Products on tile registers (host/ops/tiles.h).
//
//   tile_rows: parallel for (phase, row): bf16 parts of a block of elements each, or all by each thread
//   parallel for (block of rows, block of columns)
//     product[rows][columns] on tile registers: for the columns, for the rows accumulated at once: for k
//     output = epilogue(product)
//
// Where only a run tells how many rows there are, as many tiles are computed as hold them, and of the operand
// the rows that these read are made (Stage::read_rows_below). On units of single rows (TileGeometry::rows)
// threads share out the columns where rows may be few, and make the rows that they read:
//
//   parallel for (block of columns)
//     for (block of rows)
//       tile_rows, product[rows][columns], output
//
// Where the depth is divided (tile_depth.h) blocks belong to a part of it, and write their product:
//
//   tile_rows: parallel for (part of the depth, row)
//   parallel for (part of the depth, block of columns): partial = product of the part
//   output = epilogue(sum of partials), row by row
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "host/costs/tile_blocks.h"
#include "host/costs/tile_model.h"
#include "host/graph/shape_guess.h"
#include "host/machine/cpu_features.h"
#include "host/ops/tiles.h"
#include "host/support/divide.h"
#include "host/targets/common/kernel_rules.h"
#include "host/targets/cpu/rules.h"
#include "host/targets/cpu/tile_depth.h"
#include "host/targets/cpu/tile_schedule.h"

namespace gantry::cpu {
namespace {

// Rows of a line of an image that is one block, at most.
constexpr int64_t kMaxLineRows = 448;

struct TileStages {
  Stage *rows = nullptr, *product = nullptr, *output = nullptr;
  Stage* partial = nullptr;  ///< where the depth is divided
};

TileStages find_tiles(const Schedule& schedule) {
  return {stage_of(schedule, Role::kTileRows), stage_of(schedule, Role::kTileProduct),
          stage_of(schedule, Role::kTileOutput), stage_of(schedule, Role::kTilePartial)};
}

// The stage whose loops compute the product block by block: the kernel's output if it has the product's axes
// and only elementwise stages lie between.
Stage& owner_of(Schedule& schedule, Stage& tile_output) {
  if (schedule.outputs().size() != 1) return tile_output;
  Stage& output = schedule[schedule.outputs()[0]];
  if (!is_compute(*output.op()) || output.axes().size() != tile_output.axes().size()) return tile_output;
  for (size_t i = 0; i < output.axes().size(); ++i) {
    if (!structurally_equal(simplify(output.axes()[i]->extent), simplify(tile_output.axes()[i]->extent)))
      return tile_output;
  }
  for (const auto& stage : schedule.stages()) {
    bool part = stage->op()->role == Role::kTileRows || stage->op()->role == Role::kTileProduct;
    if (!part && is_compute(*stage->op()) && is_reduction(*stage->op())) return tile_output;
    if (!part && !is_compute(*stage->op()) && stage->op()->kind != OperationNode::Kind::kPlaceholder)
      return tile_output;
  }
  return output;
}

// By how many rows of the product results move that are neighbours along each of the result's row axes.
std::vector<Expr> row_pitches(const OperationNode& tile_output) {
  std::vector<Expr> pitches;
  walk(tile_output.body, [&](const Expr& e) {
    const auto* read = e.as<ReadNode>();
    if (!read || read->op->role != Role::kTileProduct) return;
    for (size_t i = 0; i + 1 < tile_output.axes.size(); ++i) {
      const Expr& var = tile_output.axes[i]->var;
      Expr next = substitute(read->indices[0], {{var.as<VarNode>(), var + Expr(1)}});
      pitches.push_back(simplify(next - read->indices[0]));
    }
  });
  return pitches;
}

// Rows of the product adjoin in the result.
bool is_dense(const OperationNode& tile_output, const std::vector<Expr>& pitches) {
  Expr expected(1);
  for (size_t i = pitches.size(); i-- > 0;) {
    const Expr& extent = tile_output.axes[i]->extent;
    if (constant_extent(simplify(extent)) != 1 && !structurally_equal(pitches[i], simplify(expected)))
      return false;
    expected = expected * extent;
  }
  return true;
}

// The lanes of a row: one vector, or where rows are packed, the sides of each row in vectors of their own.
std::vector<IterVarPtr> schedule_lanes(Stage& rows, const IterVarPtr& lane, const TileGeometry& geometry) {
  if (geometry.row_pack == 1) {
    rows.vectorize(lane);
    return {lane};
  }
  auto [pack, in_pack] = rows.split(lane, geometry.side_by_side * geometry.row_pack);
  auto [packed_row, side] = rows.split(in_pack, geometry.side_by_side);
  rows.unroll(packed_row);
  rows.unroll(pack);
  rows.vectorize(side);
  return {packed_row, pack, side};
}

int64_t row_group(const Stage& rows) {
  const auto phases = constant_extent(simplify(rows.axes()[2]->extent));
  return !phases || *phases % 2 == 0 ? kRowGroup : even_row_group(rows.axes()[3]->extent);
}

/// Who makes the operand's rows.
enum class RowMakers : uint8_t {
  kAll,     ///< all threads together, before any product
  kEach,    ///< each thread all of them
  kBlocks,  ///< each block of results those that it reads
};

// `depth_parts`: who reads one part of the depth makes it.
void schedule_rows(Stage& rows, RowMakers makers, int64_t depth_parts, const TileGeometry& geometry) {
  const auto axes = rows.axes();  // part, kc, phase, row, lane
  rows.unroll(axes[0]);
  const std::vector<IterVarPtr> lanes = schedule_lanes(rows, axes[4], geometry);
  auto reorder = [&](std::vector<IterVarPtr> order) {
    order.insert(order.end(), lanes.begin(), lanes.end());
    rows.reorder(order);
  };
  if (makers == RowMakers::kBlocks) {
    reorder({axes[2], axes[3], axes[1], axes[0]});
    return;
  }
  // Rows of a tile adjoin in memory: written one after the other they touch few pages and sets of the cache.
  auto [tile, row] = rows.split(axes[3], row_group(rows));
  std::vector<IterVarPtr> shared{axes[2], tile};
  IterVarPtr block = axes[1];
  if (depth_parts > 1) {
    auto [part, in_part] = rows.split(block, *constant_extent(block->extent) / depth_parts);
    shared.insert(shared.begin(), part);
    block = in_part;
  }
  std::vector<IterVarPtr> order = shared;
  order.insert(order.end(), {block, row, axes[0]});
  reorder(order);
  auto volume = constant_volume(axes);
  fuse_and_parallelize(rows, shared,
                       makers == RowMakers::kAll && (!volume || *volume >= 4 * kParallelThreshold));
}

// How many rows the last tap lies beyond the first.
int64_t product_reach(const OperationNode& product) {
  int64_t reach = 0;
  walk(product.body, [&](const Expr& e) {
    const auto* read = e.as<ReadNode>();
    if (!read || read->op->role != Role::kTileRows) return;
    std::vector<std::pair<const VarNode*, Expr>> first, last;
    for (const auto& tap : product.reduce_axes) {
      first.emplace_back(tap->var.as<VarNode>(), Expr(0));
      last.emplace_back(tap->var.as<VarNode>(), tap->extent - Expr(1));
    }
    Expr distance = substitute(read->indices[3], last) - substitute(read->indices[3], first);
    reach = constant_extent(simplify(distance)).value_or(0);
  });
  return reach;
}

/// How the owner's rows may be cut.
struct RowAxes {
  std::vector<IterVarPtr> outer;  ///< of no interest for cutting
  IterVarPtr cut;                 ///< rows that adjoin, or lines of an image
  std::vector<IterVarPtr> inner;  ///< results of a line
  TailStrategy tail = TailStrategy::kShiftInwards;
  std::vector<costs::RowBlocks> choices;
  Expr count;  ///< of rows that adjoin, where only a run tells how many there are; else null
};

RowAxes dense_rows(Stage& owner, const TileGeometry& geometry) {
  const auto axes = owner.axes();
  RowAxes rows;
  // Axes of one element stay out of the fused one: an index without their remainders stays an interval.
  std::vector<IterVarPtr> fused;
  for (size_t i = 0; i + 1 < axes.size(); ++i)
    (constant_extent(simplify(axes[i]->extent)) == 1 ? rows.outer : fused).push_back(axes[i]);
  if (fused.empty()) {
    fused = {rows.outer.back()};
    rows.outer.pop_back();
  }
  std::vector<IterVarPtr> order = rows.outer;
  order.insert(order.end(), fused.begin(), fused.end());
  order.push_back(axes.back());
  owner.reorder(order);
  rows.cut = fused[0];
  for (size_t i = 1; i < fused.size(); ++i) rows.cut = owner.fuse(rows.cut, fused[i]);
  if (auto extent = constant_volume(fused)) {
    rows.choices = costs::row_blocks(*extent, geometry.unit);
  } else {
    int64_t known = 1;
    Expr count(1);
    for (const IterVarPtr& axis : fused) {
      known *= constant_extent(simplify(axis->extent)).value_or(1);
      count = count * axis->extent;
    }
    rows.count = simplify(count);
    rows.choices = {costs::open_row_blocks(known, geometry.unit)};
    rows.tail = TailStrategy::kGuard;
  }
  return rows;
}

RowAxes part_rows(Stage& partial, const TileGeometry& geometry) {
  RowAxes rows;
  rows.outer = {partial.axes()[0]};
  rows.cut = partial.axes()[1];
  // As few blocks as there can be: the threads share out parts and columns.
  rows.choices = {costs::row_blocks(constant_extent(rows.cut->extent).value(), geometry.unit).front()};
  return rows;
}

/// `owner`: (N, lines, results, O) of images; of sequences (N, results, O), where N are the lines of one
/// image. `pitch`: rows from one line to the next.
RowAxes line_rows(Stage& owner, int64_t pitch, const TileGeometry& geometry) {
  const auto axes = owner.axes();
  const auto line = axes.end() - 3, result = axes.end() - 2;
  const int64_t images = line == axes.begin() ? 1 : guess::extent(constant_extent(axes[0]->extent), guess::Extent::kBatch);
  const auto lines = constant_extent((*line)->extent);
  const int64_t results = constant_extent((*result)->extent).value();
  RowAxes rows;
  rows.outer = {axes.begin(), line};
  if (!lines || results > kMaxLineRows) {
    rows.outer.push_back(*line);
    rows.cut = *result;
    rows.choices = costs::row_blocks(results, geometry.unit);
    for (costs::RowBlocks& choice : rows.choices)
      choice.count *= images * guess::extent(lines, guess::Extent::kSide);
    return rows;
  }
  rows.cut = *line;
  rows.inner = {*result};
  rows.choices = costs::line_blocks(images, *lines, results, pitch, geometry.unit);
  return rows;
}

/// The stage whose loops compute the product; all elementwise stages before it are inlined.
Stage& place_output(Schedule& schedule, const TileStages& tiles) {
  inline_elementwise(schedule, tiles.partial);
  if (tiles.partial) return *tiles.partial;
  Stage& owner = owner_of(schedule, *tiles.output);
  if (&owner != tiles.output && !tiles.output->attachment().is_inline()) tiles.output->compute_inline();
  if (&owner == tiles.output) tiles.output->compute_root();
  return owner;
}

RowAxes row_axes(const TileStages& tiles, Stage& owner, const TileGeometry& geometry) {
  if (tiles.partial) return part_rows(owner, geometry);
  const std::vector<Expr> pitches = row_pitches(*tiles.output->op());
  if (is_dense(*tiles.output->op(), pitches)) return dense_rows(owner, geometry);
  return line_rows(owner, constant_extent(pitches.end()[-2]).value(), geometry);
}

/// Where threads divide the columns each of them needs all rows, and half of what it would read lies in the
/// cache of another core. To fetch that, and then to take the lines back for the next product, takes longer
/// than to make them twice, as long as they stay in the second-level cache beside weights that pass through.
///
/// Of rows that may be few each block makes its own, again for every block of columns: each element is read
/// by tens of products, beside which it takes little to make.
RowMakers row_makers(const costs::TileBlocks& blocks, const Stage& rows, int64_t depth_parts,
                     const MachineModel& machine) {
  if (blocks.own_rows || (blocks.rows.few && blocks.rows.small_operand)) return RowMakers::kBlocks;
  const bool columns_divided = depth_parts == 1 && (blocks.weights_first || blocks.rows.count == 1);
  const auto elements = constant_volume(rows.axes());
  const bool stay = elements && *elements * byte_width(rows.op()->result_dtypes[0]) <= machine.l2_bytes / 2;
  return columns_divided && stay ? RowMakers::kEach : RowMakers::kAll;
}

/// Places the operand's rows before the products of the owner's loop `block`.
void place_rows(Stage& rows, Stage& owner, const IterVarPtr& block, RowMakers makers) {
  switch (makers) {
    case RowMakers::kBlocks:
      rows.compute_at(owner, block);
      rows.set_scope(StorageScope::kLocal);
      return;
    case RowMakers::kEach:
      return rows.compute_once_a_thread(owner, block);
    case RowMakers::kAll:
      return rows.bound_to_reads();  // blocks need not reach as far beyond the last result as there are rows
  }
}

/// Leaves out tiles without a row before `count`. Of the operand all rows are made that the tiles accumulated
/// at once with the last of them may read.
void leave_out_unread_rows(const TileStages& tiles, const Expr& count, const costs::RowBlocks& blocks,
                           int64_t reach) {
  const Expr unit(blocks.unit_rows);
  tiles.product->read_rows_below(count);
  tiles.rows->read_rows_below(floordiv(count + unit - Expr(1), unit) * unit + Expr(reach));
}

/// The loops of the owner: those shared among threads, then the block's. Returns where a block begins, and
/// where its product is computed.
std::pair<IterVarPtr, IterVarPtr> schedule_owner(Stage& owner, const RowAxes& rows,
                                                 const costs::TileBlocks& blocks, int64_t depth_parts,
                                                 const Target& target) {
  const IterVarPtr channels = owner.axes().back();
  auto [cut_outer, cut] = owner.split(rows.cut, blocks.rows.size, rows.tail);
  auto [channel_outer, channel] = owner.split(channels, blocks.columns);
  const bool columns_shared = blocks.rows.few && !blocks.own_rows;
  std::vector<IterVarPtr> shared = rows.outer;
  shared.push_back(columns_shared ? channel_outer : cut_outer);
  if (!blocks.own_rows && !columns_shared)
    shared.insert(blocks.weights_first ? shared.begin() + (depth_parts > 1 ? 1 : 0) : shared.end(),
                  channel_outer);
  std::vector<IterVarPtr> order = shared;
  if (blocks.own_rows) order.push_back(channel_outer);
  if (columns_shared) order.push_back(cut_outer);
  order.push_back(cut);
  order.insert(order.end(), rows.inner.begin(), rows.inner.end());
  order.push_back(channel);
  owner.reorder(order);
  vectorize_block(owner, channel, blocks.columns, costs::choose_lanes(blocks.columns, 4, target.machine));
  IterVarPtr at = fuse_and_parallelize(owner, shared, true);
  if (columns_shared) return {cut_outer, cut_outer};
  return {at, blocks.own_rows ? channel_outer : at};
}

/// The best blocks with the knobs that the node's decision gives.
costs::TileBlocks blocks_by_decision(costs::TileProductWork& work, const OperationNode& product) {
  const auto refuse_first_of = [&](const std::string& why) {
    for (const char* name : {"rows", "columns", "own_rows"}) {
      if (const int64_t value = given_knob(product, name, -1); value >= 0) refuse_knob(product, name, value, why);
    }
  };
  work.given_rows = given_knob(product, "rows");
  work.given_columns = given_knob(product, "columns");
  work.given_own_rows = static_cast<int>(given_knob(product, "own_rows", -1));
  const auto blocks = costs::choose_tile_blocks(work);
  if (!blocks) {
    std::vector<int64_t> sizes;
    for (const costs::RowBlocks& choice : work.choices) sizes.push_back(choice.size);
    refuse_first_of(fmt::format("there are blocks of {} rows or lines, columns in multiples of {} up to {} that divide these "
                                "and stay in a cache, and own rows where what a block reads does",
                                fmt::join(sizes, ", "), work.column_unit, work.columns));
  }
  return blocks.value_or(costs::TileBlocks());
}

bool schedule_tiles(Schedule& schedule, const Target& target) {
  const TileStages tiles = find_tiles(schedule);
  if (!tiles.product || !tiles.rows || !tiles.output) return false;
  const DType element = tile_weights(*tiles.product->op())->result_dtypes[0];
  const TileGeometry& geometry = geometry_of(tile_unit(target, element).value_or(TileUnit{}));
  Stage& owner = place_output(schedule, tiles);
  const RowAxes rows = row_axes(tiles, owner, geometry);
  const int64_t reach = product_reach(*tiles.product->op());
  const int64_t depth_parts = tiles.partial ? kDepthParts : 1;
  costs::TileProductWork work;
  work.unit = geometry.unit;
  work.columns = constant_extent(simplify(tiles.product->axes().back()->extent)).value();
  work.column_unit = std::min<int64_t>(work.columns, geometry.column_tiles * geometry.columns);
  work.weight_bytes = tile_weight_bytes(*tiles.product->op()) / depth_parts;
  work.choices = rows.choices;
  for (costs::RowBlocks& choice : work.choices) {
    // Of one part, as everything that a block reads.
    choice.resident_operand =
        tile_row_bytes(*tiles.rows->op(), choice.rows + reach) <= kResidentRowBytes * depth_parts;
    choice.small_operand =
        choice.resident_operand && !tiles.partial && !costs::reaches_far(reach, choice.rows);
  }
  const costs::TileBlocks blocks = blocks_by_decision(work, *tiles.product->op());

  auto [block, product_at] = schedule_owner(owner, rows, blocks, depth_parts, target);
  tiles.product->compute_at(owner, product_at);
  tiles.product->set_scope(StorageScope::kLocal);
  const OperationNode& product = *tiles.product->op();
  const auto depth = constant_volume(product.reduce_axes);
  const int64_t columns = depth && is_single_product(product)
                              ? costs::unit_columns(work, blocks, *depth, target.machine)
                              : work.column_unit;
  schedule_tile_product(*tiles.product, blocks.rows, columns,
                        tile_row_bytes(*tiles.rows->op(), blocks.rows.rows + reach) / depth_parts, geometry,
                        target.machine);
  if (rows.count) leave_out_unread_rows(tiles, rows.count, blocks.rows, reach);
  const RowMakers makers = row_makers(blocks, *tiles.rows, depth_parts, target.machine);
  place_rows(*tiles.rows, owner, block, makers);
  schedule_rows(*tiles.rows, makers, depth_parts, geometry);
  for (const auto& stage : schedule.stages()) {
    bool done = stage.get() == &owner || stage.get() == tiles.rows || stage.get() == tiles.product;
    if (!done && stage->attachment().is_root() && is_compute(*stage->op()) && !is_reduction(*stage->op()))
      schedule_elementwise(*stage, target);
  }
  return true;
}

}  // namespace

std::optional<Schedule> tiles_rule(const std::vector<Tensor>& outputs, const Target& target) {
  Schedule schedule(split_tile_depth(outputs, target));
  if (!schedule_tiles(schedule, target)) return std::nullopt;
  return schedule;
}

}  // namespace gantry::cpu
