#include "host/codegen/cpu_features.h"

#include <llvm/ADT/StringMap.h>
#include <llvm/TargetParser/Host.h>

#include <algorithm>
#include <utility>

#include "host/codegen/cpu_family.h"

namespace gantry {
namespace {

/// The relevant features that `contains` says are there, in the fixed order.
template <typename Contains>
std::vector<std::string> select_relevant(const CpuFamily& family, Contains contains) {
  std::vector<std::string> result;
  for (std::string_view feature : family.features) {
    if (contains(feature)) result.emplace_back(feature);
  }
  return result;
}

}  // namespace

bool has_feature(const std::vector<std::string>& features, std::string_view feature) {
  return std::ranges::find(features, feature) != features.end();
}

std::vector<std::string> add_feature(Architecture architecture, std::vector<std::string> features,
                                     std::string_view feature) {
  if (has_feature(features, feature)) return features;
  features.emplace_back(feature);
  const CpuFamily& family = family_of(architecture);
  for (const auto& [dependent, needed] : family.needs) {
    if (dependent == feature) features = add_feature(architecture, std::move(features), needed);
  }
  return select_relevant(family, [&](std::string_view f) { return has_feature(features, f); });
}

std::vector<std::string> remove_feature(Architecture architecture, std::vector<std::string> features,
                                        std::string_view feature) {
  if (!has_feature(features, feature)) return features;
  std::erase(features, feature);
  for (const auto& [dependent, needed] : family_of(architecture).needs) {
    if (needed == feature) features = remove_feature(architecture, std::move(features), dependent);
  }
  return features;
}

std::optional<TileUnit> tile_unit(const Target& target) {
  if (target.device == DeviceKind::kCuda) return std::nullopt;
  return family_of(target).tile_unit(target.features);
}

CpuInstructions instructions_of(const Target& target) {
  if (target.device != DeviceKind::kCuda) return family_of(target).instructions(target.features);
  CpuInstructions gpu;
  gpu.bf16_rounding = target.gpu.compute_capability >= 80;
  return gpu;
}

HostCpu host_cpu() {
  HostCpu host;
#if defined(__aarch64__)
  host.architecture = Architecture::kAArch64;
#else
  host.architecture = Architecture::kX86_64;
#endif
  host.name = llvm::sys::getHostCPUName().str();
  const llvm::StringMap<bool, llvm::MallocAllocator> detected = llvm::sys::getHostCPUFeatures();
  const CpuFamily& family = family_of(host.architecture);
  host.features = select_relevant(family, [&](std::string_view feature) {
    const auto it = detected.find(llvm::StringRef(feature.data(), feature.size()));
    return family.may_use(feature, it != detected.end() && it->second);
  });
  return host;
}

}  // namespace gantry
