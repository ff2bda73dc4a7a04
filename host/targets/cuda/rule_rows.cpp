// Kernels that reduce rows (host/targets/cuda/row_form.h), in one launch:
//
//  rows that lie in one piece: a warp or a block a row, lanes along it, reductions over the lanes
//  rows across memory (channels-last images normalised by channel): a block some neighbouring channels, a
//  thread
//    one of them and a part of the rows; partial results meet in shared memory
//  results only, of short rows or many: a thread a result
//
// A row that a block reads several times is kept in shared memory where it fits. A normalisation of rows that
// do not fit reads them twice, in launches of their own (host/targets/cuda/row_moments.h). Few results of long
// rows take two launches, the first of which reduces parts.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "host/graph/shape_guess.h"
#include "host/support/error.h"
#include "host/targets/common/kernel_rules.h"
#include "host/targets/common/rewrite.h"
#include "host/targets/cuda/row_form.h"
#include "host/targets/cuda/row_moments.h"
#include "host/targets/cuda/rules.h"

namespace gantry::cuda {
namespace {

constexpr int64_t kWarp = 32;
/// Shared memory that a kept row may take, so that partial results still fit.
constexpr int64_t kKeptBytes = 40 << 10;
/// … and a chunk of a row that does not fit: small enough that several blocks find room on a multiprocessor.
constexpr int64_t kChunkBytes = 32 << 10, kRowChunkBytes = 16 << 10;
constexpr int64_t kTwiceThreads = 256;  ///< of a block that takes a chunk

enum class Mode : uint8_t { kThread, kRows, kColumns };

}  // namespace

/// The knobs and the form that they are for.
struct RowPlan::Impl {
  RowForm form;
  Mode mode = Mode::kThread;
  int64_t threads = kDefaultThreads;  ///< rows: a row; columns: a block
  int64_t block_rows = 1;             ///< rows: a block
  int64_t block_columns = 32;         ///< columns: neighbouring slices a block
  int64_t parts = 1;                  ///< of a row, reduced by a launch of their own
  bool keep = false;
  Operation owner;  ///< whose stage is scheduled; null: the output
  Tensor tile;      ///< a chunk's elements, kept on the chip
  /// The launches before the elementwise one, of rows that are read twice.
  std::unique_ptr<Impl> chunks, moments;

  void choose(const OperationNode& output, const GpuModel& gpu);
  void choose_rows(const GpuModel& gpu);
  bool choose_columns(const OperationNode& output);
  void schedule_thread(Schedule& schedule) const;
  void schedule_rows(Schedule& schedule) const;
  void schedule_columns(Schedule& schedule) const;
  void place_kept(Schedule& schedule, Stage& stage, const IterVarPtr& at, int64_t block_threads) const;
  Stage& owner_of(Schedule& schedule) const {
    return owner ? schedule[owner] : schedule[schedule.outputs()[0]];
  }
  std::optional<Tensor> read_twice(const Tensor& output);
  const char* name() const {
    return mode == Mode::kThread ? "a thread" : mode == Mode::kRows ? "rows" : "columns";
  }
};

namespace {

int64_t power_of_two_at_least(int64_t value, int64_t low, int64_t high) {
  int64_t power = low;
  while (power < value && power < high) power *= 2;
  return power;
}

// A kept row is rounded up to whole turns of its threads, and to whole lines (of `line` elements) of an
// image.
int64_t bytes_of_row(const RowForm& form, int64_t threads, const Expr& line) {
  int64_t turns = (*form.row_length + threads - 1) / threads;
  return (turns * threads + constant_extent(simplify(line)).value_or(0)) * byte_width(form.kept.dtype());
}

void unroll_short(Stage& stage) {
  auto taps = constant_volume(stage.reduce_axes());
  if (!taps || *taps > 32) return;
  for (const auto& axis : stage.reduce_axes()) stage.unroll(axis);
}

// The reduction's own axis over the threads of its group, a thread every `threads`-th element.
void bind_reduction(Stage& stage, int64_t threads) {
  IterVarPtr flat = fuse_all(stage, stage.reduce_axes());
  auto [turn, thread] = stage.split(flat, threads);
  (void)turn;
  stage.bind(thread, LoopKind::kThread);
}

}  // namespace

void RowPlan::Impl::choose_rows(const GpuModel& gpu) {
  mode = Mode::kRows;
  int64_t length = guess::extent(form.row_length, guess::Extent::kReduced), slices = form.slice_count.value_or(busy_threads(gpu));
  threads = power_of_two_at_least((length + 7) / 8, kWarp, 512);
  // Too few rows to fill the GPU: more threads for each.
  while (threads < 1024 && threads * 2 <= length && slices * threads < busy_threads(gpu)) threads *= 2;
  bool grouped = !form.rows.empty() || form.output_reduces;
  block_rows = threads == kWarp && grouped && slices >= 4 * gpu.multiprocessors ? 4 : 1;
  int64_t room = 1;
  if (form.kept && form.row_length && !form.row_contiguous) {
    // Reduced in another order than memory's, what the last turn's idle threads would read makes a larger
    // box.
    const int64_t even = *form.row_length & -*form.row_length;
    if (even >= 4 * kWarp) {
      threads = std::min(threads, even);
    } else {
      room = 3;
    }
  }
  keep = form.kept && form.row_length &&
         bytes_of_row(form, threads, form.kept.shape().back()) * block_rows * room <= kKeptBytes;
  // What a block keeps must be a box: of one row, or of rows along one axis.
  int64_t axes = 0;
  for (const auto& axis : form.reductions.front()->axes) axes += constant_extent(simplify(axis->extent)) != 1;
  if (keep && axes > 1) block_rows = 1;
}

bool RowPlan::Impl::choose_columns(const OperationNode& output) {
  const auto& last = form.slices.back();
  if (last.split != 1 || last.output_axis + 1 != output.axes.size() || !form.row_length) return false;
  auto columns = constant_extent(simplify(output.axes.back()->extent));
  if (!columns) return false;
  mode = Mode::kColumns;
  threads = *form.row_length >= 512 ? 512 : 256;
  auto fits = [&] {
    if (!form.kept) return false;
    const Expr& line = form.kept.shape()[form.kept.shape().size() - 2];
    // Blocks that end beyond the tensor are given room for another.
    int64_t room = *columns % block_columns == 0 ? block_columns : 2 * block_columns;
    return bytes_of_row(form, threads / block_columns, line) * room <= kKeptBytes;
  };
  block_columns = power_of_two_at_least(*columns, 4, 32);
  while (block_columns > 8 && !fits()) block_columns /= 2;
  keep = fits();
  return true;
}

void RowPlan::Impl::choose(const OperationNode& output, const GpuModel& gpu) {
  if (!form.rows.empty()) {
    if (form.row_contiguous || !form.slice_contiguous || !choose_columns(output)) choose_rows(gpu);
    return;
  }
  int64_t length = guess::extent(form.row_length, guess::Extent::kReduced), slices = form.slice_count.value_or(busy_threads(gpu));
  bool whole_rows = form.row_contiguous && length >= kWarp;
  if (whole_rows && (slices < busy_threads(gpu) || length >= 256)) choose_rows(gpu);
  bool splittable = form.reductions.size() == 1 && form.row_length && form.slice_count;
  if (!splittable) return;
  int64_t each = mode == Mode::kRows ? threads : 1, least = mode == Mode::kRows ? 8 * threads : 32;
  int64_t wanted = std::min(busy_threads(gpu) / std::max<int64_t>(1, slices * each), length / least);
  parts = std::clamp<int64_t>(wanted, 1, 256);
  if (parts < 4) parts = 1;
}

// Plans two reads of the rows, if it is a normalisation; returns the output that is left to an elementwise
// launch.
std::optional<Tensor> RowPlan::Impl::read_twice(const Tensor& output) {
  if (keep || form.rows.empty() || mode == Mode::kThread) return std::nullopt;
  auto found = find_moments(form);
  if (!found) return std::nullopt;
  // Whole blocks of columns only: else a row a block, which reads across memory.
  int64_t width = 1;
  if (mode == Mode::kColumns) {
    const int64_t count = *constant_extent(simplify(output.shape().back()));
    width = power_of_two_at_least(count, 4, 32);
    while (width > 1 && count % width) width /= 2;
  }
  const bool columns = width >= 4;
  const int64_t bytes = byte_width(found->sum->result_dtypes[0]);
  auto later = [](const Tensor& owner, const Tensor& sum, const Tensor& squares) {
    auto launch = std::make_unique<Impl>();
    launch->owner = owner.op();
    launch->form.reductions = {sum.op(), squares.op()};
    launch->form.rows = {0};
    for (size_t axis = 1; axis < owner.shape().size(); ++axis) launch->form.slices.push_back({axis, 1});
    return launch;
  };
  ChunkShape shape{kRowChunkBytes / bytes, columns, 1};
  if (columns) {
    shape.elements = kChunkBytes / bytes / width;
    shape.parts = kTwiceThreads / width;
  }
  SplitMoments split = split_moments(*found, output, shape);
  chunks = later(split.chunks, split.sum, split.square_sum);
  chunks->mode = columns ? Mode::kColumns : Mode::kRows;
  chunks->threads = kTwiceThreads;
  chunks->block_columns = width;
  chunks->tile = split.tile;
  moments = later(split.moments, split.total, split.total_square_sum);
  moments->mode = Mode::kRows;
  moments->threads = kWarp;
  return split.output;
}

RowPlan::RowPlan(std::vector<Tensor> given, const Target& target) : outputs(std::move(given)) {
  auto form = find_rows(outputs);
  if (!form) return;
  impl_ = std::make_unique<Impl>();
  impl_->form = *form;
  impl_->choose(*outputs[0].op(), target.gpu);
  spdlog::debug("{} slices of {}: {} a result, {} threads, {} rows a block, {} columns, {} parts{}",
                form->slice_count.value_or(-1), form->row_length.value_or(-1), impl_->name(), impl_->threads,
                impl_->block_rows, impl_->block_columns, impl_->parts, impl_->keep ? ", kept on chip" : "");
  if (auto output = impl_->read_twice(outputs[0])) {
    outputs = {*output};
  } else if (impl_->parts > 1) {
    auto split = split_reduction(form->reductions[0], Expr(impl_->parts));
    outputs = replace_tensors(outputs, {{form->reductions[0].get(), split.total}});
    impl_->form.reductions = {split.total.op()};
  } else if (impl_->mode == Mode::kColumns) {
    split_columns();
  }
}

RowPlan::~RowPlan() = default;

// Every reduction in parts, whose results meet in shared memory.
void RowPlan::split_columns() {
  int64_t parts = impl_->threads / impl_->block_columns;
  impl_->form.reductions.clear();
  for (bool found = true; found;) {
    found = false;
    for (const Operation& op : topological_order(outputs)) {
      if (!is_reduction(*op) || op->role == Role::kPartialSum || op->role == Role::kTotal) continue;
      auto split = split_reduction(op, Expr(parts), true);
      auto total = std::make_shared<OperationNode>(*split.total.op());
      total->role = Role::kTotal;
      outputs = replace_tensors(outputs, {{op.get(), Tensor(total, 0)}});
      found = true;
      break;
    }
  }
}

void RowPlan::schedule(Schedule& schedule) const {
  if (impl_->chunks) {
    if (impl_->chunks->mode == Mode::kColumns) {
      impl_->chunks->schedule_columns(schedule);
    } else {
      impl_->chunks->schedule_rows(schedule);
    }
    impl_->moments->schedule_rows(schedule);
  } else if (impl_->parts > 1) {
    // The parts first, flat or by rows, then their sums.
    for (Stage* stage : root_stages(schedule)) {
      if (stage->op()->role != Role::kPartialSum) continue;
      if (impl_->mode == Mode::kRows) {
        stage->bind(fuse_all(*stage, stage->axes()), LoopKind::kBlock);
        bind_reduction(*stage, impl_->threads);
      } else {
        bind_flat(*stage, stage->axes(), kDefaultThreads);
      }
    }
    impl_->schedule_thread(schedule);
  } else if (impl_->mode == Mode::kThread) {
    impl_->schedule_thread(schedule);
  } else if (impl_->mode == Mode::kRows) {
    impl_->schedule_rows(schedule);
  } else {
    impl_->schedule_columns(schedule);
  }
}

void RowPlan::Impl::schedule_thread(Schedule& schedule) const {
  Stage& owner = schedule[schedule.outputs()[0]];
  IterVarPtr thread = bind_flat(owner, owner.axes(), kDefaultThreads);
  for (const Operation& op : form.reductions) {
    Stage& stage = schedule[op];
    unroll_short(stage);
    if (&stage == &owner || !thread) continue;
    stage.compute_at(owner, thread);
    stage.set_scope(StorageScope::kLocal);
  }
}

void RowPlan::Impl::place_kept(Schedule& schedule, Stage& stage, const IterVarPtr& at,
                               int64_t block_threads) const {
  if (!keep && !tile) return;
  Tensor copy =
      tile ? tile
           : schedule.cache_read(form.kept, StorageScope::kShared, direct_readers(schedule, form.kept));
  Stage& kept = schedule[copy];
  kept.set_scope(StorageScope::kShared);
  kept.compute_at(stage, at);
  bind_cooperative(kept, block_threads);
}

void RowPlan::Impl::schedule_rows(Schedule& schedule) const {
  Stage& owner = owner_of(schedule);
  const auto axes = owner.axes();
  std::vector<IterVarPtr> slices, rows;
  for (size_t j = 0; j < axes.size(); ++j) {
    auto slice = std::find_if(form.slices.begin(), form.slices.end(),
                              [&](const auto& s) { return s.output_axis == j; });
    if (slice == form.slices.end()) {
      rows.push_back(axes[j]);
    } else if (slice->split == 1) {
      slices.push_back(axes[j]);
    } else {
      auto [outer, inner] = owner.split(axes[j], slice->split);
      slices.push_back(outer);
      rows.push_back(inner);
    }
  }
  std::vector<IterVarPtr> order = slices;
  order.insert(order.end(), rows.begin(), rows.end());
  owner.reorder(order);
  IterVarPtr at = fuse_all(owner, slices);
  if (at) {
    IterVarPtr block = at;
    if (block_rows > 1) {
      std::tie(block, at) = owner.split(at, block_rows);
      owner.bind(at, LoopKind::kThread);
    }
    owner.bind(block, LoopKind::kBlock);
    if (!rows.empty()) place_kept(schedule, owner, block, threads * block_rows);
  }
  if (!rows.empty()) {
    auto [turn, thread] = owner.split(fuse_all(owner, rows), threads);
    (void)turn;
    owner.bind(thread, LoopKind::kThread);
  }
  if (form.output_reduces) bind_reduction(owner, threads);
  for (const Operation& op : form.reductions) {
    Stage& stage = schedule[op];
    if (&stage == &owner) continue;
    bind_reduction(stage, threads);
    if (!at) continue;
    stage.compute_at(owner, at);
    stage.set_scope(StorageScope::kLocal);
  }
}

void RowPlan::Impl::schedule_columns(Schedule& schedule) const {
  Stage& owner = owner_of(schedule);
  const auto axes = owner.axes();
  std::vector<IterVarPtr> outer, rows;
  for (size_t j = 0; j + 1 < axes.size(); ++j) {
    bool slice = std::any_of(form.slices.begin(), form.slices.end(),
                             [&](const auto& s) { return s.output_axis == j; });
    (slice ? outer : rows).push_back(axes[j]);
  }
  auto [column_block, column] = owner.split(axes.back(), block_columns);
  std::vector<IterVarPtr> order = outer;
  order.push_back(column_block);
  order.insert(order.end(), rows.begin(), rows.end());
  order.push_back(column);
  owner.reorder(order);
  if (IterVarPtr batch = fuse_all(owner, outer)) owner.bind(batch, LoopKind::kBlock);
  owner.bind(column_block, LoopKind::kBlock);
  auto [turn, thread] = owner.split(fuse_all(owner, rows), threads / block_columns);
  (void)turn;
  owner.bind(thread, LoopKind::kThread);
  owner.bind(column, LoopKind::kThread);
  place_kept(schedule, owner, column_block, threads);
  for (const auto& stage : schedule.stages()) {
    if (stage->op()->role != Role::kPartialSum && stage->op()->role != Role::kTotal) continue;
    stage->compute_at(owner, column_block);
    stage->set_scope(StorageScope::kShared);
    const bool total = stage->op()->role == Role::kTotal;
    if (total) unroll_short(*stage);
    // No more threads than results: what idle threads would read counts as needed.
    bind_cooperative(*stage, total ? block_columns : threads);
  }
}

std::optional<Schedule> rows_rule(const std::vector<Tensor>& outputs, const Target& target) {
  RowPlan rows(outputs, target);
  if (!rows.applies()) return std::nullopt;
  Schedule schedule = inlined_schedule(rows.outputs);
  rows.schedule(schedule);
  schedule_rest(schedule, target);
  return schedule;
}

}  // namespace gantry::cuda
