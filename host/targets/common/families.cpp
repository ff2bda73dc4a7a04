// The families of targets, from the one table of them.
#include <algorithm>

#include "host/machine/cpu_family.h"
#include "host/machine/gpu_family.h"
#include "host/support/error.h"

namespace gantry {

// clang-format off
#define GANTRY_CPU_FAMILY(folder) namespace folder { const CpuFamily& family(); }
#define GANTRY_GPU_FAMILY(folder) namespace folder { const GpuFamily& family(); }
#include "host/targets/common/targets.def"
#undef GANTRY_CPU_FAMILY
#undef GANTRY_GPU_FAMILY

std::span<const CpuFamily* const> cpu_families() {
#define GANTRY_CPU_FAMILY(folder) &folder::family(),
#define GANTRY_GPU_FAMILY(folder)
  static const CpuFamily* const kFamilies[] = {
#include "host/targets/common/targets.def"
  };
#undef GANTRY_CPU_FAMILY
#undef GANTRY_GPU_FAMILY
  return kFamilies;
}

std::span<const GpuFamily* const> gpu_families() {
#define GANTRY_CPU_FAMILY(folder)
#define GANTRY_GPU_FAMILY(folder) &folder::family(),
  static const GpuFamily* const kFamilies[] = {
#include "host/targets/common/targets.def"
  };
#undef GANTRY_CPU_FAMILY
#undef GANTRY_GPU_FAMILY
  return kFamilies;
}
// clang-format on

const CpuFamily& family_of(const Target& target) {
  internal_check(target.family != nullptr, "target {}: a GPU's code is asked about as a CPU's", target.name);
  return *target.family;
}

const CpuFamily* find_family(std::string_view name) {
  const auto families = cpu_families();
  const auto found = std::ranges::find(families, name, &CpuFamily::name);
  return found == families.end() ? nullptr : *found;
}

const GpuFamily& gpu_family_of(const Target& target) {
  internal_check(target.gpu_family != nullptr, "target {}: has no GPU", target.name);
  return *target.gpu_family;
}

}  // namespace gantry
