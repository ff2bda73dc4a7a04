#include "host/costs/gpu_costs.h"
#include "host/support/divide.h"
#include "host/targets/cuda/conv_model.h"
#include "host/targets/cuda/gpu_model.h"

namespace gantry::cuda {
namespace {

double transposition(int64_t bytes, int64_t element_bytes, const GpuModel& gpu) {
  LaunchWork work;
  work.blocks = ceil_div(bytes / element_bytes, work.threads);
  work.l2_bytes = work.memory_bytes = 2 * double(bytes);
  return predicted_seconds(work, gpu);
}

}  // namespace

const costs::GpuCosts& costs() {
  static const costs::GpuCosts known{.convolution = predicted_seconds, .transposition = transposition};
  return known;
}

}  // namespace gantry::cuda
