// What LLVM knows of the CPUs of x86-64, and what may be used of this machine's.
#include <llvm/ADT/SmallVector.h>
#include <llvm/TargetParser/X86TargetParser.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "host/machine/cpu_features.h"
#include "host/targets/x86/codegen.h"
#include "host/targets/x86/family.h"

namespace gantry::x86 {
namespace {

/// Linux lets a process use the tile registers only after it has asked for their state's space, which
/// sandboxes and small signal stacks of its threads can prevent. Asking again is harmless.
bool may_use_tiles() {
#if defined(__x86_64__)
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

}  // namespace

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

bool may_use(std::string_view feature, bool detected) {
  return detected && (!feature.starts_with("amx-") || may_use_tiles());
}

}  // namespace gantry::x86
