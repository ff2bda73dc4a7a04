#include "host/target/cpu/rules.h"

namespace gantry::cpu {

IterVarPtr fuse_and_parallelize(Stage& stage, std::vector<IterVarPtr> axes, bool worth_it, int64_t rounds) {
  if (axes.empty()) return nullptr;
  IterVarPtr fused = axes.front();
  for (size_t i = 1; i < axes.size(); ++i) fused = stage.fuse(fused, axes[i]);
  if (worth_it) stage.parallel(fused, rounds);
  return fused;
}

TailStrategy tail_for(const IterVarPtr& axis, int64_t factor) {
  auto extent = constant_extent(axis->extent);
  return extent && *extent >= factor ? TailStrategy::kShiftInwards : TailStrategy::kGuard;
}

void vectorize_block(Stage& stage, const IterVarPtr& axis, int64_t block, int lanes) {
  if (lanes <= 1) return;
  if (block == lanes) {
    stage.vectorize(axis);
    return;
  }
  auto [vectors, lane] = stage.split(axis, lanes);
  stage.unroll(vectors);
  stage.vectorize(lane);
}

Operation packed_weights(const Stage& anchor) {
  Operation weights;
  walk(anchor.op->body, [&](const Expr& e) {
    const auto* read = e.as<ReadNode>();
    if (read && read->op->kind == OperationNode::Kind::kPlaceholder && !read->indices.empty() &&
        read->indices.back().same_as(anchor.axes().back()->var))
      weights = read->op;
  });
  return weights;
}

namespace {

// Inlining a producer repeats its work once a read; that is welcome only where it is cheap or read once.
bool should_inline(const Schedule& schedule, const Stage& stage) {
  const OperationNode& op = *stage.op;
  if (!is_compute(op) || is_reduction(op) || op.tag == "pad" || op.tag == "tile_rows" ||
      op.tag == "dense_partial" || op.tag == "matmul_panel" || op.tag == "matmul_partial")
    return false;
  for (const Tensor& output : schedule.outputs()) {
    if (output.op().get() == &op) return false;
  }
  constexpr int kCheap = 24;
  auto readers = readers_of(schedule, op);
  if (element_cost(op.body) <= kCheap) return true;
  // A reduction over an axis that the producer does not have would evaluate it many times.
  for (const OperationNode* reader : readers) {
    if (is_reduction(*reader) && reader->axes.size() + reader->reduce_axes.size() > op.axes.size())
      return false;
  }
  return readers.size() <= 2;
}

}  // namespace

void inline_elementwise(Schedule& schedule, const Stage* kept) {
  for (const auto& stage : schedule.stages()) {
    if (stage.get() != kept && stage->attach == AttachKind::kRoot && should_inline(schedule, *stage))
      stage->compute_inline();
  }
}

}  // namespace gantry::cpu
