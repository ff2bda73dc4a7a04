// What LLVM knows of the CPUs of x86-64.
#include <llvm/ADT/SmallVector.h>
#include <llvm/TargetParser/X86TargetParser.h>

#include <algorithm>

#include "host/machine/cpu_features.h"
#include "host/targets/x86/codegen.h"
#include "host/targets/x86/family.h"

namespace gantry::x86 {
std::optional<std::vector<std::string>> features_of_cpu(std::string_view cpu) {
  const llvm::StringRef name(cpu.data(), cpu.size());
  if (llvm::X86::parseArchX86(name, /*Only64Bit=*/true) == llvm::X86::CK_None) return std::nullopt;
  llvm::SmallVector<llvm::StringRef, 64> enabled;
  llvm::X86::getFeaturesForCPU(name, enabled);
  // LLVM lists only what others do not imply.
  std::vector<std::string> features;
  for (std::string_view feature : feature_names()) {
    if (!llvm::is_contained(enabled, llvm::StringRef(feature.data(), feature.size()))) continue;
    features = add_feature(family(), std::move(features), feature);
  }
  return features;
}

std::vector<std::string> cpu_names() {
  llvm::SmallVector<llvm::StringRef, 128> names;
  llvm::X86::fillValidCPUArchList(names, /*Only64Bit=*/true);
  std::vector<std::string> result;
  for (llvm::StringRef name : names) result.push_back(name.str());
  std::ranges::sort(result);
  return result;
}

}  // namespace gantry::x86
