#include "host/target/cuda/rules.h"

namespace gantry::cuda {

Schedule make_schedule(const std::vector<Tensor>& outputs, const Target& target) {
  ProductPlan products(outputs, target);
  Schedule schedule(products.outputs);
  schedule.for_gpu = true;
  inline_elementwise(schedule);
  products.schedule(schedule);
  for (Stage* stage : root_stages(schedule)) {
    if (!stage->relations.empty()) continue;  // scheduled with a product
    if (is_reduction(*stage->op)) {
      schedule_reduction(schedule, *stage, target);
    } else {
      schedule_elementwise(*stage, target);
    }
  }
  return schedule;
}

}  // namespace gantry::cuda
