// Reductions of windows (pooling, depthwise convolution): a thread sums, in registers, a few results of a row
// of an image for a vector of channels; neighbouring threads have neighbouring channels. What overlapping
// windows share is loaded once.
#include <spdlog/spdlog.h>

#include "host/targets/common/memory_order.h"
#include "host/targets/cuda/rules.h"

namespace gantry::cuda {
namespace {

// Windows up to this many taps are written out.
constexpr int64_t kUnrolledTaps = 25;

void unroll_window(Stage& stage) {
  auto taps = constant_volume(stage.reduce_axes());
  if (!taps || *taps > kUnrolledTaps) return;
  for (const auto& axis : stage.reduce_axes()) stage.unroll(axis);
}

// The elementwise output that follows the reduction point by point, if that is all that reads it.
Stage* fused_consumer(Schedule& schedule, const Stage& reduction) {
  if (schedule.outputs().size() != 1) return nullptr;
  Stage& output = schedule[schedule.outputs()[0]];
  if (&output == &reduction || !is_compute(*output.op()) || is_reduction(*output.op())) return nullptr;
  if (output.axes().size() != reduction.axes().size() || !output.attachment().is_root()) return nullptr;
  for (size_t i = 0; i < output.axes().size(); ++i) {
    if (!structurally_equal(simplify(output.axes()[i]->extent), simplify(reduction.axes()[i]->extent)))
      return nullptr;
  }
  // Everything between the two is inlined: no other stage at root may read the reduction.
  for (Stage* stage : root_stages(schedule)) {
    if (stage != &output && stage != &reduction && is_reduction(*stage->op())) return nullptr;
  }
  for (const auto& stage : schedule.stages()) {
    if (!is_compute(*stage->op())) continue;
    bool same = true;
    walk(stage->op()->body, [&](const Expr& node) {
      auto* read = node.as<ReadNode>();
      if (!read || schedule.find(read->op.get()) != &reduction) return;
      for (size_t d = 0; d < read->indices.size(); ++d)
        same = same && d < stage->op()->axes.size() && is_index_of(read->indices[d], *stage->op()->axes[d]);
    });
    if (!same) return nullptr;
  }
  return &output;
}

}  // namespace

namespace {

/// The knobs.
struct WindowTile {
  int64_t lanes = 1;  ///< channels a thread
  int64_t row = 1;    ///< neighbouring results a thread
};

WindowTile choose_window_tile(const Stage& stage, const GpuModel& gpu) {
  WindowTile tile;
  const auto& axes = stage.axes();
  auto taps = constant_volume(stage.reduce_axes()), volume = constant_volume(axes);
  if (axes.size() < 3 || !taps || *taps > kUnrolledTaps || !volume) return tile;
  Expr value = inline_all(stage.op()->body.as<ReduceNode>()->value);
  auto row_extent = constant_extent(simplify(axes[axes.size() - 2]->extent));
  int64_t threads = *volume;
  auto enough = [&](int64_t factor) { return threads / factor >= busy_threads(gpu) / 2; };
  int64_t lanes = vector_lanes(value, axes.back(), byte_width(stage.op()->result_dtypes[0]));
  while (lanes > 1 && !enough(lanes)) lanes /= 2;
  tile.lanes = lanes;
  threads /= lanes;
  if (*taps < 2 || !row_extent) return tile;
  for (int64_t row : {4, 2}) {
    if (*row_extent % row == 0 && enough(row)) {
      tile.row = row;
      break;
    }
  }
  return tile;
}

// `owner` has the loops and stores, `sums` the registers.
void schedule_window(Stage& owner, Stage& sums, const WindowTile& tile) {
  auto axes = owner.axes();
  std::vector<IterVarPtr> inner;
  if (tile.row > 1) {
    auto [outer, point] = owner.split(axes[axes.size() - 2], tile.row);
    axes[axes.size() - 2] = outer;
    owner.unroll(point);
    inner.push_back(point);
  }
  if (tile.lanes > 1) {
    auto [outer, lane] = owner.split(axes.back(), tile.lanes);
    axes.back() = outer;
    owner.vectorize(lane);
    inner.push_back(lane);
  }
  std::vector<IterVarPtr> order = axes;
  order.insert(order.end(), inner.begin(), inner.end());
  owner.reorder(order);
  IterVarPtr thread = bind_flat(owner, axes, kDefaultThreads);
  sums.compute_at(owner, thread);
  sums.set_scope(StorageScope::kLocal);
  const auto sum_axes = sums.axes();
  order = sums.reduce_axes();
  order.insert(order.begin(), sum_axes.begin(), sum_axes.end() - 2);
  order.insert(order.end(), sum_axes.end() - 2, sum_axes.end());
  sums.reorder(order);
  unroll_window(sums);
  sums.unroll(sum_axes[sum_axes.size() - 2]);
  if (tile.lanes > 1) sums.vectorize(sum_axes.back());
}

}  // namespace

void schedule_reduction(Schedule& schedule, Stage& stage, const Target& target) {
  Stage* consumer = fused_consumer(schedule, stage);
  WindowTile tile = choose_window_tile(stage, target.gpu);
  if (tile.lanes * tile.row > 1) {
    spdlog::debug("window {}: {} channels x {} results a thread", stage.op()->name, tile.lanes, tile.row);
    if (consumer) {
      schedule_window(*consumer, stage, tile);
    } else {
      Tensor sums = schedule.cache_write(Tensor(stage.op(), 0), StorageScope::kLocal);
      schedule_window(stage, schedule[sums], tile);
    }
    return;
  }
  unroll_window(stage);
  IterVarPtr thread = consumer ? bind_flat(*consumer, consumer->axes(), kDefaultThreads) : nullptr;
  if (thread) {
    stage.compute_at(*consumer, thread);
    stage.set_scope(StorageScope::kLocal);
  } else {
    bind_flat(stage, stage.axes(), kDefaultThreads);
  }
}

}  // namespace gantry::cuda
