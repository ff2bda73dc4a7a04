// Elementwise, broadcasting and data-movement stages: bound by memory, so what counts is that neighbouring
// threads touch neighbouring elements, as many at once as an instruction can.
#include <algorithm>

#include "host/targets/common/memory_order.h"
#include "host/targets/cuda/rules.h"

namespace gantry::cuda {
namespace {

/// Side of a tile that is transposed in shared memory, and the threads that do it.
constexpr int64_t kTransposeTile = 32, kTransposeThreads = 256;

/// A tensor that is contiguous along another axis than the result.
struct Transposed {
  Tensor source;
  IterVarPtr axis;  ///< of the result, along which the source is contiguous
};

bool long_enough(const IterVarPtr& axis) {
  auto extent = constant_extent(simplify(axis->extent));
  return extent && *extent >= kTransposeTile / 2;
}

// Only for stages that move one tensor.
std::optional<Transposed> find_transposed(const OperationNode& op) {
  if (op.axes.size() < 2 || !long_enough(op.axes.back())) return std::nullopt;
  Expr body = inline_all(op.body);
  Tensor source;
  int sources = 0;
  walk(body, [&](const Expr& node) {
    auto* read = node.as<ReadNode>();
    if (!read || read->indices.empty()) return;
    Tensor tensor(read->op, read->result);
    if (!source || !(source == tensor)) ++sources;
    source = tensor;
  });
  if (sources != 1 || source.op()->kind != OperationNode::Kind::kPlaceholder) return std::nullopt;
  if (read_stride(body, op.axes.back()->var)) return std::nullopt;
  for (size_t i = 0; i + 1 < op.axes.size(); ++i) {
    if (long_enough(op.axes[i]) && read_stride(body, op.axes[i]->var) == std::optional<int>(1))
      return Transposed{source, op.axes[i]};
  }
  return std::nullopt;
}

void schedule_transposed(Schedule& schedule, Stage& stage, const Transposed& transposed) {
  const auto axes = stage.axes();
  auto [row_block, row] = stage.split(transposed.axis, kTransposeTile);
  auto [turn, row_thread] = stage.split(row, kTransposeThreads / kTransposeTile);
  auto [column_block, column] = stage.split(axes.back(), kTransposeTile);
  std::vector<IterVarPtr> others;
  for (size_t i = 0; i + 1 < axes.size(); ++i) {
    if (axes[i] != transposed.axis) others.push_back(axes[i]);
  }
  std::vector<IterVarPtr> order = others;
  order.insert(order.end(), {row_block, column_block, turn, row_thread, column});
  stage.reorder(order);
  others.insert(others.end(), {row_block, column_block});
  IterVarPtr block = fuse_all(stage, others);
  stage.bind(block, LoopKind::kBlock);
  stage.bind(row_thread, LoopKind::kThread);
  stage.bind(column, LoopKind::kThread);
  Tensor copy = schedule.cache_read(transposed.source, StorageScope::kShared,
                                    direct_readers(schedule, transposed.source));
  Stage& tile = schedule[copy];
  tile.compute_at(stage, block);
  tile.pad_rows(1);
  bind_cooperative(tile, kTransposeThreads);
}

}  // namespace

void schedule_elementwise(Schedule& schedule, Stage& stage, const Target& target) {
  if (stage.axes().empty()) return;
  if (auto transposed = find_transposed(*stage.op())) {
    schedule_transposed(schedule, stage, *transposed);
    return;
  }
  auto axes = stage.axes();
  int64_t lanes =
      vector_lanes(inline_all(stage.op()->body), axes.back(), byte_width(stage.op()->result_dtypes[0]));
  // Few elements are spread over many threads rather than moved together.
  auto volume = constant_volume(axes);
  if (volume && *volume < busy_threads(target.gpu) / 4) lanes = 1;
  if (lanes > 1) {
    auto [vectors, lane] = stage.split(axes.back(), lanes);
    axes.back() = vectors;
    stage.vectorize(lane);
  }
  bind_flat(stage, axes, kDefaultThreads);
}

}  // namespace gantry::cuda
