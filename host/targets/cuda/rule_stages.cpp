// Kernels that no other rule takes: a launch for every stage that is not inlined.
#include "host/targets/common/kernel_rules.h"
#include "host/targets/cuda/rules.h"

namespace gantry::cuda {

void schedule_rest(Schedule& schedule, const Target& target) {
  for (Stage* stage : root_stages(schedule)) {
    if (!stage->relations().empty() || !stage->kinds().empty()) continue;  // scheduled already
    if (is_reduction(*stage->op())) {
      schedule_reduction(schedule, *stage, target);
    } else {
      schedule_elementwise(schedule, *stage, target);
    }
  }
}

Schedule inlined_schedule(const std::vector<Tensor>& outputs) {
  Schedule schedule(outputs);
  schedule.for_gpu = true;
  inline_elementwise(schedule);
  return schedule;
}

std::optional<Schedule> plain_rule(const std::vector<Tensor>& outputs, const Target& /*target*/) {
  Schedule schedule = inlined_schedule(outputs);
  for (Stage* stage : root_stages(schedule)) bind_flat(*stage, stage->axes(), kDefaultThreads);
  return schedule;
}

std::optional<Schedule> stages_rule(const std::vector<Tensor>& outputs, const Target& target) {
  Schedule schedule = inlined_schedule(outputs);
  schedule_rest(schedule, target);
  return schedule;
}

}  // namespace gantry::cuda
