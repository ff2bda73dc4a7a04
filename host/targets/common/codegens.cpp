// How code is generated for the families of targets, from the one table of them.
#include <algorithm>

#include "host/codegen/gpu_codegen.h"
#include "host/support/error.h"
#include "module_generated.h"

namespace gantry {

// clang-format off
#define GANTRY_CPU_FAMILY(folder) namespace folder { const CpuCodegen& codegen(); }
#define GANTRY_GPU_FAMILY(folder) namespace folder { const GpuCodegen& codegen(); }
#include "host/targets/common/targets.def"
#undef GANTRY_CPU_FAMILY
#undef GANTRY_GPU_FAMILY

std::span<const CpuCodegen* const> cpu_codegens() {
#define GANTRY_CPU_FAMILY(folder) &folder::codegen(),
#define GANTRY_GPU_FAMILY(folder)
  static const CpuCodegen* const kCodegens[] = {
#include "host/targets/common/targets.def"
  };
#undef GANTRY_CPU_FAMILY
#undef GANTRY_GPU_FAMILY
  return kCodegens;
}

std::span<const GpuCodegen* const> gpu_codegens() {
#define GANTRY_CPU_FAMILY(folder)
#define GANTRY_GPU_FAMILY(folder) &folder::codegen(),
  static const GpuCodegen* const kCodegens[] = {
#include "host/targets/common/targets.def"
  };
#undef GANTRY_CPU_FAMILY
#undef GANTRY_GPU_FAMILY
  return kCodegens;
}
// clang-format on

const GpuCodegen& gpu_codegen_of(const Target& target) {
  const GpuFamily& family = gpu_family_of(target);
  const auto codegens = gpu_codegens();
  const auto found = std::ranges::find(codegens, &family, &GpuCodegen::family);
  internal_check(found != codegens.end(), "target {}: no code generation for {}", target.name, family.code);
  return **found;
}

const GpuCodegen* find_gpu_codegen(module_format::Device device) {
  const auto codegens = gpu_codegens();
  const auto found = std::ranges::find_if(codegens, [&](const GpuCodegen* codegen) {
    return codegen->device == device || codegen->emulated == device;
  });
  return found == codegens.end() ? nullptr : *found;
}

module_format::Device device_in_modules(const Target& target) {
  switch (target.device) {
    case DeviceKind::kCpu:
      return module_format::Device::Cpu;
    case DeviceKind::kGpu:
      return gpu_codegen_of(target).device;
    case DeviceKind::kEmulatedGpu:
      return gpu_codegen_of(target).emulated;
  }
  internal_error("unknown device");
}

}  // namespace gantry
