#include "host/costs/gpu_costs.h"

#include <algorithm>
#include <string_view>

#include "host/machine/gpu_family.h"
#include "host/support/error.h"

namespace gantry {

// clang-format off
#define GANTRY_CPU_FAMILY(folder)
#define GANTRY_GPU_FAMILY(folder) namespace folder { const costs::GpuCosts& costs(); }
#include "host/targets/common/targets.def"
#undef GANTRY_GPU_FAMILY
// clang-format on

}  // namespace gantry

namespace gantry::costs {
namespace {

struct CostsOfFolder {
  std::string_view folder;
  const GpuCosts& (*costs)();
};

constexpr CostsOfFolder kCosts[] = {
#define GANTRY_GPU_FAMILY(folder) {#folder, folder::costs},
#include "host/targets/common/targets.def"
#undef GANTRY_CPU_FAMILY
#undef GANTRY_GPU_FAMILY
};

}  // namespace

const GpuCosts& gpu_costs(const Target& target) {
  const auto found = std::ranges::find(kCosts, gpu_family_of(target).name, &CostsOfFolder::folder);
  internal_check(found != std::end(kCosts), "target {}: no models of its GPU", target.name);
  return found->costs();
}

}  // namespace gantry::costs
