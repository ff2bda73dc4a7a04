// Reductions of windows: a result a thread, neighbouring threads at neighbouring channels.
#include "host/target/cuda/rules.h"

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
  if (&output == &reduction || !is_compute(*output.op) || is_reduction(*output.op)) return nullptr;
  if (output.axes().size() != reduction.axes().size() || output.attach != AttachKind::kRoot) return nullptr;
  for (size_t i = 0; i < output.axes().size(); ++i) {
    if (!structurally_equal(simplify(output.axes()[i]->extent), simplify(reduction.axes()[i]->extent)))
      return nullptr;
  }
  // Everything between the two is inlined: no other stage at root may read the reduction.
  for (Stage* stage : root_stages(schedule)) {
    if (stage != &output && stage != &reduction && is_reduction(*stage->op)) return nullptr;
  }
  for (const auto& stage : schedule.stages()) {
    bool same = true;
    walk(stage->op->body, [&](const Expr& node) {
      auto* read = node.as<ReadNode>();
      if (!read || schedule.find(read->op.get()) != &reduction) return;
      for (size_t d = 0; d < read->indices.size(); ++d)
        same = same && d < stage->op->axes.size() && read->indices[d].same_as(stage->op->axes[d]->var);
    });
    if (!same) return nullptr;
  }
  return &output;
}

}  // namespace

void schedule_reduction(Schedule& schedule, Stage& stage, const Target& target) {
  (void)target;
  unroll_window(stage);
  if (Stage* consumer = fused_consumer(schedule, stage)) {
    if (IterVarPtr thread = bind_flat(*consumer, consumer->axes(), kDefaultThreads)) {
      stage.compute_at(*consumer, thread);
      stage.scope = StorageScope::kLocal;
      return;
    }
  }
  bind_flat(stage, stage.axes(), kDefaultThreads);
}

}  // namespace gantry::cuda
