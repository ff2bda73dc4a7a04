#include "host/target/cuda/rules.h"

namespace gantry::cuda {

namespace {

bool has_product(const std::vector<Tensor>& outputs) {
  for (const Operation& op : topological_order(outputs)) {
    if (op->role == Role::kGemm) return true;
  }
  return false;
}

void schedule_rest(Schedule& schedule, const Target& target) {
  for (Stage* stage : root_stages(schedule)) {
    if (!stage->relations.empty() || !stage->annotations.empty()) continue;  // scheduled already
    if (is_reduction(*stage->op)) {
      schedule_reduction(schedule, *stage, target);
    } else {
      schedule_elementwise(schedule, *stage, target);
    }
  }
}

}  // namespace

Schedule make_plain_schedule(const std::vector<Tensor>& outputs) {
  Schedule schedule(outputs);
  schedule.for_gpu = true;
  inline_elementwise(schedule);
  for (Stage* stage : root_stages(schedule)) bind_flat(*stage, stage->axes(), kDefaultThreads);
  return schedule;
}

Schedule make_schedule(const std::vector<Tensor>& outputs, const Target& target) {
  if (has_product(outputs)) {
    ProductPlan products(outputs, target);
    Schedule schedule(products.outputs);
    schedule.for_gpu = true;
    inline_elementwise(schedule);
    products.schedule(schedule);
    schedule_winograd(schedule);
    schedule_rest(schedule, target);
    return schedule;
  }
  RowPlan rows(outputs, target);
  Schedule schedule(rows.outputs);
  schedule.for_gpu = true;
  inline_elementwise(schedule);
  if (rows.applies()) rows.schedule(schedule);
  schedule_rest(schedule, target);
  return schedule;
}

}  // namespace gantry::cuda
