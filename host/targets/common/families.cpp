#include <algorithm>
#include <array>

#include "host/codegen/cpu_family.h"
#include "host/support/error.h"
#include "host/targets/arm/arm.h"
#include "host/targets/x86/x86.h"

namespace gantry {

std::span<const CpuFamily* const> cpu_families() {
  static const std::array families{&x86::family(), &arm::family()};
  return families;
}

const CpuFamily& family_of(Architecture architecture) {
  const auto families = cpu_families();
  const auto found = std::ranges::find(families, architecture, &CpuFamily::architecture);
  internal_check(found != families.end(), "a GPU's code is asked about as a CPU's");
  return **found;
}

const CpuFamily* find_family(std::string_view name) {
  const auto families = cpu_families();
  const auto found = std::ranges::find(families, name, &CpuFamily::name);
  return found == families.end() ? nullptr : *found;
}

}  // namespace gantry
