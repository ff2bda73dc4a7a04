#include <algorithm>

#include "host/target/cuda/rules.h"

namespace gantry::cuda {

IterVarPtr fuse_all(Stage& stage, const std::vector<IterVarPtr>& axes) {
  if (axes.empty()) return nullptr;
  IterVarPtr fused = axes.front();
  for (size_t i = 1; i < axes.size(); ++i) fused = stage.fuse(fused, axes[i]);
  return fused;
}

IterVarPtr bind_flat(Stage& stage, const std::vector<IterVarPtr>& axes, int64_t threads) {
  IterVarPtr flat = fuse_all(stage, axes);
  if (!flat) return nullptr;
  auto [block, thread] = stage.split(flat, threads, TailStrategy::kGuard);
  stage.bind(block, LoopKind::kBlock);
  stage.bind(thread, LoopKind::kThread);
  return thread;
}

namespace {

// Reads of a window or of a whole axis repeat the producer's work for every reader; arithmetic is cheap beside
// a trip through memory, functions are not.
constexpr int kCheap = 24;

// Stages that rules have made to be stored stay.
bool is_free(const OperationNode& op) {
  return op.tag != "gemm_tile" && op.tag != "gemm_store" && op.tag != "winograd_input";
}

bool should_inline(const Schedule& schedule, const Stage& stage) {
  const OperationNode& op = *stage.op;
  if (!is_compute(op) || is_reduction(op) || is_output(schedule, op) || !is_free(op)) return false;
  auto readers = readers_of(schedule, op);
  for (const OperationNode* reader : readers) {
    if (!is_compute(*reader)) return false;
  }
  if (element_cost(op.body) <= kCheap) return true;
  for (const OperationNode* reader : readers) {
    if (is_reduction(*reader) && reader->axes.size() + reader->reduce_axes.size() > op.axes.size())
      return false;
  }
  return readers.size() <= 2;
}

}  // namespace

void inline_elementwise(Schedule& schedule) {
  for (const auto& stage : schedule.stages()) {
    if (stage->attach == AttachKind::kRoot && should_inline(schedule, *stage)) stage->compute_inline();
  }
}

std::vector<Stage*> root_stages(Schedule& schedule) {
  std::vector<Stage*> roots;
  for (const auto& stage : schedule.stages()) {
    if (stage->attach == AttachKind::kRoot && is_compute(*stage->op)) roots.push_back(stage.get());
  }
  return roots;
}

}  // namespace gantry::cuda
