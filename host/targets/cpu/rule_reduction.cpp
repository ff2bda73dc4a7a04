// Reductions. Two shapes of loop nest:
//
//  lanes over data (windows of channels-last images, depthwise convolution, sums over outer axes):
//    parallel for outer: for row tile: for channel block: acc[rows][lanes] over the window, then store
//  lanes over the reduction (the innermost axis is summed):
//    parallel for outer: acc[lanes] over the axis, combined after the loop
#include <algorithm>
#include <tuple>

#include "host/costs/tile_model.h"
#include "host/graph/shape_guess.h"
#include "host/targets/cpu/rules.h"

namespace gantry::cpu {
namespace {

// Windows up to this many taps are written out, so that loads shared by neighbouring columns are seen; of
// larger ones the rows are, up to this many taps.
constexpr int64_t kUnrolledTaps = 9, kUnrolledRowTaps = 16;

// Columns of a window tile: the fewest loads a point, weighed against what the last tile computes twice.
// Their accumulators stay in registers.
int64_t choose_window_columns(int64_t extent, int64_t most) {
  int64_t best = 1;
  double best_cost = 1e30;
  for (int64_t columns = 1; columns <= std::min(most, extent); ++columns) {
    double cost = double((extent + columns - 1) / columns) * (double(columns) + 1.5);
    if (cost < best_cost) {
      best = columns;
      best_cost = cost;
    }
  }
  return best;
}

bool worth_parallel(const OperationNode& op) {
  auto points = constant_volume(op.axes);
  auto taps = constant_volume(op.reduce_axes);
  return !points || !taps || *points * *taps >= kParallelThreshold;
}

void unroll_small_window(Stage& stage) {
  const auto& axes = stage.reduce_axes();
  auto taps = constant_volume(axes);
  auto row = axes.empty() ? std::nullopt : constant_extent(axes.back()->extent);
  for (const auto& axis : axes) {
    if (taps && *taps <= kUnrolledTaps) stage.unroll(axis);
  }
  if (taps && *taps > kUnrolledTaps && row && *row <= kUnrolledRowTaps) stage.unroll(axes.back());
}

// A padded copy of one tile's window is small enough for the stack up to this.
constexpr int64_t kMaxPaddedTileBytes = 16 << 10;

// By how much the window of the reduction grows along `axis` for a tile of `rows`, in elements of the input;
// nothing if the input is not indexed as position * stride + tap * dilation.
std::optional<int64_t> window_extent(const OperationNode& reduction, const OperationNode& pad, size_t axis,
                                     int64_t rows) {
  std::optional<int64_t> extent;
  walk(reduction.body, [&](const Expr& node) {
    auto* read = node.as<ReadNode>();
    if (!read || read->op.get() != &pad || axis >= read->indices.size()) return;
    std::vector<std::pair<const VarNode*, Expr>> first, last;
    for (size_t i = 0; i < reduction.axes.size(); ++i) {
      const auto* var = reduction.axes[i]->var.as<VarNode>();
      first.emplace_back(var, Expr(0));
      last.emplace_back(var, Expr(i + 2 == reduction.axes.size() ? rows - 1 : 0));
    }
    for (const auto& tap : reduction.reduce_axes) {
      auto taps = constant_extent(tap->extent);
      if (!taps) return;
      first.emplace_back(tap->var.as<VarNode>(), Expr(0));
      last.emplace_back(tap->var.as<VarNode>(), Expr(*taps - 1));
    }
    Expr reach = substitute(read->indices[axis], last) - substitute(read->indices[axis], first);
    if (auto constant = constant_extent(simplify(reach))) extent = *constant + 1;
  });
  return extent;
}

// The operation as it reads once what is inlined has become part of it.
OperationNode with_inlined(const Schedule& schedule, const OperationNode& op) {
  OperationNode whole = op;
  // Stages stand in order: a producer's own reads are replaced after it.
  const auto& stages = schedule.stages();
  for (auto stage = stages.rbegin(); stage != stages.rend(); ++stage) {
    if ((*stage)->attachment().is_inline()) whole.body = inline_reads(whole.body, *(*stage)->op());
  }
  return whole;
}

// Padding that does not vanish is done for what a tile reads, where it reads it: the padded input never
// exists as a whole.
void place_padding(Schedule& schedule, Stage& owner, Stage& reduction, const IterVarPtr& attach, int64_t rows,
                   int lanes, const Target& target) {
  Stage* pad = padding_of(schedule, reduction);
  if (!pad) return;
  if (padding_vanishes(*pad->op(), *reduction.op())) {
    pad->compute_inline();
    return;
  }
  int64_t bytes = int64_t{lanes} * byte_width(pad->op()->result_dtypes[0]);
  for (size_t axis = 1; axis + 1 < pad->axes().size(); ++axis) {
    auto extent = window_extent(*reduction.op(), *pad->op(), axis, rows);
    bytes = extent && bytes <= kMaxPaddedTileBytes ? bytes * *extent : kMaxPaddedTileBytes + 1;
  }
  if (bytes > kMaxPaddedTileBytes) {
    schedule_elementwise(*pad, target);
    return;
  }
  pad->compute_at(owner, attach);
  pad->set_scope(StorageScope::kLocal);
  pad->vectorize(pad->axes().back());
}

// Fewer rows than this do not keep the threads busy alone: channel blocks are shared out with them.
constexpr int64_t kManyRows = 24;

struct WindowTile {
  int lanes = 1;
  int64_t columns = 1;  ///< of the axis before the lanes'
};

WindowTile choose_window_tile(const Stage& owner, const Stage& acc, int lanes, const Target& target) {
  const auto& axes = owner.axes();
  auto taps = constant_volume(acc.reduce_axes());
  WindowTile tile{lanes, 1};
  if (axes.size() < 2 || acc.reduce_axes().empty()) return tile;
  auto columns = constant_extent(axes[axes.size() - 2]->extent);
  if (!columns || !taps) return tile;
  // A weight and some elements of the data need registers too.
  tile.columns = choose_window_columns(*columns, target.machine.vector_registers >= 32 ? 14 : 7);
  return tile;
}

// Vectors of lanes that one pass over a long reduction takes: one alone would wait for itself, and of a line
// of the cache it reads the least. With padding on the way, or columns that do the same, one.
int64_t vectors_at_once(const Schedule& schedule, const Stage& owner, const Stage& acc,
                        const WindowTile& tile) {
  constexpr int64_t kLong = 32, kVectors = 4;
  const auto extent = constant_extent(owner.axes().back()->extent);
  const auto taps = constant_volume(acc.reduce_axes());
  const bool fits = extent && *extent % (kVectors * tile.lanes) == 0;
  const bool pays = tile.columns == 1 && tile.lanes > 1 && (!taps || *taps >= kLong);
  return fits && pays && padding_of(schedule, acc) == nullptr ? kVectors : 1;
}

// Lanes over the last data axis; `owner` holds the loops and the result, `acc` the accumulators. `padded`:
// padding is done before.
void schedule_lanes_over_data(Schedule& schedule, Stage& owner, Stage& acc, int lanes, bool worth_it,
                              bool padded, const Target& target) {
  const auto axes = owner.axes();
  const size_t last = axes.size() - 1;
  const WindowTile tile = choose_window_tile(owner, acc, lanes, target);
  const int64_t block = lanes * vectors_at_once(schedule, owner, acc, tile);
  auto [lane_outer, lane_inner] = owner.split(axes[last], block, tail_for(axes[last], block));
  std::vector<IterVarPtr> outer(axes.begin(), axes.begin() + static_cast<long>(last)), inner;
  IterVarPtr column_outer, column_inner;
  if (tile.columns > 1) {
    std::tie(column_outer, column_inner) =
        owner.split(axes[last - 1], tile.columns, TailStrategy::kShiftInwards);
    outer.pop_back();
  }
  // Few outer iterations (a global pool of one image): the channel blocks are what there is to share out.
  auto rows = outer.empty() ? std::optional<int64_t>(1) : constant_volume(outer);
  const bool shares_lanes = rows && *rows < kManyRows;
  if (shares_lanes) outer.push_back(lane_outer);
  if (column_outer) inner.push_back(column_outer);
  if (!shares_lanes) inner.push_back(lane_outer);
  std::vector<IterVarPtr> order = outer;
  order.insert(order.end(), inner.begin(), inner.end());
  if (column_inner) order.push_back(column_inner);
  order.push_back(lane_inner);
  owner.reorder(order);
  if (column_inner) owner.unroll(column_inner);
  vectorize_block(owner, lane_inner, block, lanes);
  IterVarPtr fused = fuse_and_parallelize(owner, outer, worth_it);
  IterVarPtr attach = inner.empty() ? fused : inner.back();

  acc.compute_at(owner, attach);
  acc.set_scope(StorageScope::kLocal);
  const auto acc_axes = acc.axes();
  order.assign(acc_axes.begin(), acc_axes.begin() + static_cast<long>(last));
  if (column_inner) order.pop_back();
  for (const auto& axis : acc.reduce_axes()) order.push_back(axis);
  if (column_inner) order.push_back(acc_axes[last - 1]);
  order.push_back(acc_axes[last]);
  acc.reorder(order);
  unroll_small_window(acc);
  if (column_inner) acc.unroll(acc_axes[last - 1]);
  vectorize_block(acc, acc_axes[last], block, lanes);
  if (!padded) place_padding(schedule, owner, acc, attach, tile.columns, lanes, target);
}

// Lanes over the innermost reduced axis, which is contiguous in every read.
void schedule_lanes_over_reduction(Stage& stage, const IterVarPtr& axis, int lanes, bool worth_it) {
  std::vector<IterVarPtr> data = stage.axes();
  if (!data.empty()) fuse_and_parallelize(stage, data, worth_it);
  if (lanes <= 1) return;
  auto [outer, inner] = stage.split(axis, lanes_at_once(axis, lanes), TailStrategy::kGuard);
  (void)outer;
  stage.vectorize(inner);
}

IterVarPtr contiguous_reduce_axis(const OperationNode& op) {
  for (auto axis = op.reduce_axes.rbegin(); axis != op.reduce_axes.rend(); ++axis) {
    if (read_stride(op, (*axis)->var) == std::optional<int>(1)) return *axis;
  }
  return nullptr;
}

// The elements along both axes lie one after another in everything that is read.
bool is_contiguous_pair(const OperationNode& op, const IterVarPtr& outer, const IterVarPtr& inner) {
  bool found = false, contiguous = true;
  walk(op.body, [&](const Expr& e) {
    const auto* read = e.as<ReadNode>();
    if (!read) return;
    bool mentioned = false;
    for (const Expr& index : read->indices) {
      walk(index,
           [&](const Expr& x) { mentioned = mentioned || x.same_as(outer->var) || x.same_as(inner->var); });
    }
    if (!mentioned) return;
    found = true;
    const size_t rank = read->indices.size();
    const auto& shape = read->op->result_shapes[static_cast<size_t>(read->result)];
    contiguous = contiguous && rank >= 2 && read->indices[rank - 1].same_as(inner->var) &&
                 read->indices[rank - 2].same_as(outer->var) &&
                 structurally_equal(shape[rank - 1], inner->extent);
    for (size_t i = 0; i + 2 < rank && contiguous; ++i) {
      walk(read->indices[i], [&](const Expr& x) {
        contiguous = contiguous && !x.same_as(outer->var) && !x.same_as(inner->var);
      });
    }
  });
  return found && contiguous;
}

struct ReducedRun {
  IterVarPtr axis;
  std::optional<int64_t> extent;
};

// Reduces over the two innermost axes as over one, where they are; `op`: what the stage reads.
ReducedRun fuse_contiguous(Stage& stage, const OperationNode& op, const IterVarPtr& axis) {
  const auto& axes = stage.reduce_axes();
  auto extent = constant_extent(axis->extent);
  if (axes.size() < 2 || axes.back() != axis || !extent) return {axis, extent};
  const IterVarPtr& outer = axes[axes.size() - 2];
  auto rows = constant_extent(outer->extent);
  if (!rows || !is_contiguous_pair(op, outer, axis)) return {axis, extent};
  return {stage.fuse(outer, axis), *rows * *extent};
}

// By how much the last index of every read that depends on `var` grows with it, up to 4; nothing if reads
// differ or depend on it elsewhere.
std::optional<int64_t> lane_step(const OperationNode& op, const Expr& var) {
  std::optional<int64_t> step;
  bool same = true;
  walk(op.body, [&](const Expr& e) {
    const auto* read = e.as<ReadNode>();
    if (!read) return;
    for (size_t i = 0; i < read->indices.size(); ++i) {
      Expr moved = substitute(read->indices[i], {{var.as<VarNode>(), var + 1}});
      auto by = constant_extent(simplify(moved - read->indices[i]));
      if (by == std::optional<int64_t>(0)) continue;
      same = same && by && i + 1 == read->indices.size() && *by >= 1 && *by <= 4 && (!step || *step == *by);
      step = by;
    }
  });
  return same ? step : std::nullopt;
}

void schedule_over_data(Schedule& schedule, Stage& stage, Stage* consumer, int lanes, bool padded,
                        const Target& target) {
  const bool worth_it = worth_parallel(*stage.op());
  if (consumer) return schedule_lanes_over_data(schedule, *consumer, stage, lanes, worth_it, padded, target);
  Operation original = stage.op();
  Tensor cache = schedule.cache_write(Tensor(original, 0), StorageScope::kLocal);
  schedule_lanes_over_data(schedule, stage, schedule[cache], lanes, worth_it, padded, target);
}

}  // namespace

void schedule_reduction(Schedule& schedule, Stage& stage, Stage* consumer, const Target& target) {
  const OperationNode& op = *stage.op();
  int bytes = byte_width(op.result_dtypes[0]);
  auto lanes_of = [&](std::optional<int64_t> extent) {
    return costs::choose_lanes(extent.value_or(guess::kLong), bytes, target.machine);
  };
  Stage* pad = padding_of(schedule, stage);
  const int lanes = op.axes.empty() ? 1 : lanes_of(constant_extent(op.axes.back()->extent));
  // What is inlined may read along other axes; where these lie in no one order, its own loops count.
  const OperationNode whole = with_inlined(schedule, op);
  const bool ordered = (lanes > 1 && lane_step(whole, op.axes.back()->var)) || contiguous_reduce_axis(whole);
  const OperationNode& seen = ordered ? whole : op;
  if (lanes > 1) {
    auto step = lane_step(seen, op.axes.back()->var);
    // Strided lanes cannot be masked well: their padding is done before.
    const bool padded = step && *step > 1;
    if (padded && pad) schedule_elementwise(*pad, target);
    if (step) return schedule_over_data(schedule, stage, consumer, lanes, padded, target);
  }
  if (pad) schedule_elementwise(*pad, target);
  const bool worth_it = worth_parallel(op);
  if (IterVarPtr axis = contiguous_reduce_axis(seen)) {
    ReducedRun run = fuse_contiguous(stage, seen, axis);
    schedule_lanes_over_reduction(stage, run.axis, lanes_of(run.extent), worth_it);
  } else {
    schedule_lanes_over_reduction(stage, nullptr, 1, worth_it);
  }
  if (consumer && is_output(schedule, *consumer->op())) schedule_elementwise(*consumer, target);
}

}  // namespace gantry::cpu
