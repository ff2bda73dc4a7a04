// What LLVM knows of the CPUs of AArch64.
#include <llvm/ADT/SmallVector.h>
#include <llvm/TargetParser/AArch64TargetParser.h>

#include <algorithm>

#include "host/targets/arm/codegen.h"
#include "host/targets/arm/family.h"

namespace gantry::arm {

std::optional<std::vector<std::string>> features_of_cpu(std::string_view name) {
  // Two names for what has no CPU: the baseline of the architecture.
  if (name == "generic") return std::vector<std::string>{"fp-armv8", "neon"};
  const std::optional<llvm::AArch64::CpuInfo> cpu =
      llvm::AArch64::parseCpu(llvm::StringRef(name.data(), name.size()));
  if (!cpu) return std::nullopt;
  llvm::AArch64::ExtensionBitset extensions = cpu->DefaultExtensions;
  extensions |= cpu->Arch.DefaultExts;
  std::vector<llvm::StringRef> enabled;
  llvm::AArch64::getExtensionFeatures(extensions, enabled);
  std::vector<std::string> result;
  for (std::string_view feature : feature_names()) {
    const bool is_enabled = std::ranges::any_of(enabled, [&](llvm::StringRef e) {
      return e.consume_front("+") && e == llvm::StringRef(feature.data(), feature.size());
    });
    if (is_enabled) result.emplace_back(feature);
  }
  return result;
}

std::vector<std::string> cpu_names() {
  llvm::SmallVector<llvm::StringRef, 128> names;
  llvm::AArch64::fillValidCPUArchList(names);
  std::vector<std::string> result;
  for (llvm::StringRef name : names) result.push_back(name.str());
  std::ranges::sort(result);
  return result;
}

}  // namespace gantry::arm
