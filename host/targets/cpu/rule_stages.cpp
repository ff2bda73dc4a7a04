// Kernels that no other rule takes: everything at root, each stage by its own kind.
#include "host/targets/common/kernel_rules.h"
#include "host/targets/cpu/rules.h"

namespace gantry::cpu {
namespace {

// A reduction that another one goes on with.
bool is_first_step(const OperationNode& op) {
  return is_partial_sum(op) || is_window_lines(op);
}

// The elementwise output that directly follows a reduction of the same shape, if that is all that reads it.
Stage* fused_consumer(Schedule& schedule, const Stage& reduction) {
  if (schedule.outputs().size() != 1) return nullptr;
  Stage& output = schedule[schedule.outputs()[0]];
  if (&output == &reduction || is_reduction(*output.op()) || !is_compute(*output.op())) return nullptr;
  if (output.axes().size() != reduction.axes().size()) return nullptr;
  int reductions = 0;
  for (const auto& stage : schedule.stages()) {
    if (is_reduction(*stage->op()) && !is_first_step(*stage->op())) ++reductions;
    if (!is_compute(*stage->op()) && stage->op()->kind != OperationNode::Kind::kPlaceholder) return nullptr;
  }
  if (reductions != 1) return nullptr;
  for (size_t i = 0; i < output.axes().size(); ++i) {
    if (!structurally_equal(output.axes()[i]->extent, reduction.axes()[i]->extent)) return nullptr;
  }
  return reads_own_index(*output.op()) ? &output : nullptr;
}

// Padding that one reduction reads is placed by that reduction's rule.
bool pads_reduction(const Schedule& schedule, const Stage& stage) {
  if (stage.op()->role != Role::kPad) return false;
  auto readers = readers_of(schedule, *stage.op());
  return readers.size() == 1 && is_reduction(*readers.front());
}

// Everything at root, each stage by its own kind.
void schedule_stages_at_root(Schedule& schedule, const Target& target) {
  inline_elementwise(schedule);
  std::vector<Operation> roots;
  for (const auto& stage : schedule.stages()) {
    if (stage->attachment().is_root() && is_compute(*stage->op())) roots.push_back(stage->op());
  }
  for (const Operation& op : roots) {
    Stage& stage = schedule[op];
    if (!stage.attachment().is_root() || pads_reduction(schedule, stage)) continue;
    if (is_window_lines(*op)) continue;  // its second step places it
    if (is_partial_sum(*op)) {
      schedule_partial_sum(schedule, stage, target);
    } else if (is_reduction(*op)) {
      Stage* consumer = fused_consumer(schedule, stage);
      if (!schedule_window_columns(schedule, stage, consumer, target))
        schedule_reduction(schedule, stage, consumer, target);
      if (consumer) break;
    } else {
      schedule_elementwise(schedule, stage, target);
    }
  }
}

}  // namespace

std::optional<Schedule> stages_rule(const std::vector<Tensor>& outputs, const Target& target) {
  // After the rules for rows, which want sums whole.
  Schedule schedule(split_windows(split_long_sums(outputs)));
  schedule_stages_at_root(schedule, target);
  return schedule;
}

}  // namespace gantry::cpu
