#include "host/targets/cuda/family.h"

#include "host/targets/cuda/gpu_target.h"

namespace gantry::cuda {
namespace {

std::string_view lacks(const GpuModel& gpu, Precision precision) {
  if (precision == Precision::kFp16) return gpu.compute_capability < 75 ? "sm_75 or newer" : "";
  return gpu.compute_capability < 80 ? "sm_80 or newer" : "";
}

}  // namespace

const GpuFamily& family() {
  static const GpuFamily known{.name = "cuda",
                               .code = "CUDA",
                               .has_name = names_gpu_target,
                               .parse = parse_name,
                               .written = written_name,
                               .architecture = architecture_name,
                               .usual_cpu = usual_cpu,
                               .target = gpu_target,
                               .target_names = gpu_target_names,
                               .lacks = lacks};
  return known;
}

}  // namespace gantry::cuda
