#include "host/target/schedule_rules.h"

#include "host/target/cpu/rules.h"
#include "host/target/cpu/tile_depth.h"
#include "host/target/cuda/rules.h"

namespace gantry {
namespace {

// A reduction that another one goes on with.
bool is_first_step(const OperationNode& op) {
  return cpu::is_partial_sum(op) || cpu::is_window_lines(op);
}

// The elementwise output that directly follows a reduction of the same shape, if that is all that reads it.
Stage* fused_consumer(Schedule& schedule, const Stage& reduction) {
  if (schedule.outputs().size() != 1) return nullptr;
  Stage& output = schedule[schedule.outputs()[0]];
  if (&output == &reduction || cpu::is_reduction(*output.op) || !cpu::is_compute(*output.op)) return nullptr;
  if (output.axes().size() != reduction.axes().size()) return nullptr;
  int reductions = 0;
  for (const auto& stage : schedule.stages()) {
    if (cpu::is_reduction(*stage->op) && !is_first_step(*stage->op)) ++reductions;
    if (!cpu::is_compute(*stage->op) && stage->op->kind != OperationNode::Kind::kPlaceholder) return nullptr;
  }
  if (reductions != 1) return nullptr;
  for (size_t i = 0; i < output.axes().size(); ++i) {
    if (!structurally_equal(output.axes()[i]->extent, reduction.axes()[i]->extent)) return nullptr;
  }
  return cpu::reads_own_index(*output.op) ? &output : nullptr;
}

// Padding that one reduction reads is placed by that reduction's rule.
bool pads_reduction(const Schedule& schedule, const Stage& stage) {
  if (stage.op->role != Role::kPad) return false;
  auto readers = cpu::readers_of(schedule, *stage.op);
  return readers.size() == 1 && cpu::is_reduction(*readers.front());
}

// Everything at root, each stage by its own kind.
void schedule_stages_at_root(Schedule& schedule, const Target& target) {
  cpu::inline_elementwise(schedule);
  std::vector<Operation> roots;
  for (const auto& stage : schedule.stages()) {
    if (stage->attach == AttachKind::kRoot && cpu::is_compute(*stage->op)) roots.push_back(stage->op);
  }
  for (const Operation& op : roots) {
    Stage& stage = schedule[op];
    if (stage.attach != AttachKind::kRoot || pads_reduction(schedule, stage)) continue;
    if (cpu::is_window_lines(*op)) continue;  // its second step places it
    if (cpu::is_partial_sum(*op)) {
      cpu::schedule_partial_sum(schedule, stage, target);
    } else if (cpu::is_reduction(*op)) {
      Stage* consumer = fused_consumer(schedule, stage);
      if (!cpu::schedule_window_columns(schedule, stage, consumer, target))
        cpu::schedule_reduction(schedule, stage, consumer, target);
      if (consumer) break;
    } else {
      cpu::schedule_elementwise(schedule, stage, target);
    }
  }
}

}  // namespace

Schedule make_schedule(const std::vector<Tensor>& outputs, const Target& target) {
  if (target.for_gpu()) return cuda::make_schedule(outputs, target);
  std::vector<Tensor> rewritten = cpu::split_dense_depth(cpu::split_tile_depth(outputs, target), target);
  Schedule schedule(cpu::pack_matmul_panels(rewritten, target));
  if (cpu::schedule_tiles(schedule, target)) return schedule;
  if (cpu::schedule_dense(schedule, target)) return schedule;
  if (cpu::schedule_packed_product(schedule, target)) return schedule;
  if (cpu::schedule_winograd(schedule, target)) return schedule;
  if (cpu::schedule_matmul(schedule, target)) return schedule;
  if (cpu::schedule_rows(schedule, target)) return schedule;
  // After the rules for rows, which want sums whole.
  Schedule rest(cpu::split_windows(cpu::split_long_sums(outputs)));
  schedule_stages_at_root(rest, target);
  return rest;
}

Schedule make_plain_gpu_schedule(const std::vector<Tensor>& outputs) {
  return cuda::make_plain_schedule(outputs);
}

}  // namespace gantry
