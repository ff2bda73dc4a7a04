#include <algorithm>

#include "host/targets/common/memory_order.h"
#include "host/targets/cuda/rules.h"

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

void bind_cooperative(Stage& stage, int64_t threads) {
  IterVarPtr flat = fuse_all(stage, stage.axes());
  if (!flat) return;
  auto [turn, thread] = stage.split(flat, threads);
  (void)turn;
  stage.bind(thread, LoopKind::kThread);
}

int64_t vector_lanes(const Expr& body, const IterVarPtr& axis, int bytes) {
  auto extent = constant_extent(simplify(axis->extent));
  if (!extent || !read_stride(body, axis->var)) return 1;
  // Where the body asks for its position (padding, choices), lanes could differ in what they do.
  bool plain = true;
  walk(body, [&](const Expr& node) {
    auto* test = node.as<CallNode>();
    plain = plain && !(test && test->fn == MathFn::kIfThenElse && mentions(test->args[0], axis->var));
    auto* choice = node.as<SelectNode>();
    plain = plain && !(choice && mentions(choice->condition, axis->var));
  });
  int64_t lanes = plain ? 16 / std::max(bytes, 4) : 1;
  while (lanes > 1 && *extent % lanes) lanes /= 2;
  return lanes;
}

int64_t busy_threads(const GpuModel& gpu) {
  return int64_t{gpu.multiprocessors} * gpu.max_threads / 2;
}

std::vector<Operation> direct_readers(const Schedule& schedule, const Tensor& tensor) {
  std::vector<Operation> readers;
  for (const auto& stage : schedule.stages()) {
    if (!is_compute(*stage->op())) continue;
    bool reads = false;
    walk(stage->op()->body, [&](const Expr& node) {
      auto* read = node.as<ReadNode>();
      reads = reads || (read && read->op.get() == tensor.op().get() && read->result == tensor.result());
    });
    if (reads) readers.push_back(stage->op());
  }
  return readers;
}

namespace {

// Reads of a window or of a whole axis repeat the producer's work for every reader; arithmetic is cheap beside
// a trip through memory, functions are not.
constexpr int kCheap = 24;

// Stages that rules place themselves stay.
bool is_free(Role role) {
  switch (role) {
    case Role::kGemmTile:
    case Role::kGemmStored:
    case Role::kWinogradPatch:
    case Role::kWinogradRows:
    case Role::kWinogradInput:
    case Role::kWinogradColumns:
    case Role::kRowTile:
    case Role::kRowMoments:
      return false;
    default:
      return true;
  }
}

bool should_inline(const Schedule& schedule, const Stage& stage) {
  const OperationNode& op = *stage.op();
  if (!is_compute(op) || is_reduction(op) || is_output(schedule, op) || !is_free(op.role)) return false;
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
    if (stage->attachment().is_root() && should_inline(schedule, *stage)) stage->compute_inline();
  }
}

std::vector<Stage*> root_stages(Schedule& schedule) {
  std::vector<Stage*> roots;
  for (const auto& stage : schedule.stages()) {
    if (stage->attachment().is_root() && is_compute(*stage->op())) roots.push_back(stage.get());
  }
  return roots;
}

}  // namespace gantry::cuda
