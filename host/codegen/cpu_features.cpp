#include "host/codegen/cpu_features.h"

#include <llvm/ADT/SmallVector.h>
#include <llvm/ADT/StringMap.h>
#include <llvm/TargetParser/AArch64TargetParser.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/TargetParser/X86TargetParser.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "host/targets/arm/tile_units.h"
#include "host/targets/x86/tile_units.h"

namespace gantry {
namespace {

using Names = std::vector<std::string_view>;
/// (feature, what it needs), directly.
using Needs = std::vector<std::pair<std::string_view, std::string_view>>;

const Names kX86Features = {"sse3",     "ssse3",    "sse4.1",     "sse4.2",     "popcnt",
                            "avx",      "avx2",     "fma",        "f16c",       "bmi",
                            "bmi2",     "lzcnt",    "avx512f",    "avx512bw",   "avx512cd",
                            "avx512dq", "avx512vl", "avx512vnni", "avx512bf16", "avx512fp16",
                            "avxvnni",  "amx-tile", "amx-int8",   "amx-bf16",   "amx-fp16"};
const Needs kX86Needs = {{"ssse3", "sse3"},
                         {"sse4.1", "ssse3"},
                         {"sse4.2", "sse4.1"},
                         {"avx", "sse4.2"},
                         {"avx2", "avx"},
                         {"fma", "avx"},
                         {"f16c", "avx"},
                         {"avx512f", "avx2"},
                         {"avx512f", "fma"},
                         {"avx512f", "f16c"},
                         {"avx512bw", "avx512f"},
                         {"avx512cd", "avx512f"},
                         {"avx512dq", "avx512f"},
                         {"avx512vl", "avx512f"},
                         {"avx512vnni", "avx512f"},
                         {"avx512bf16", "avx512bw"},
                         {"avx512fp16", "avx512bw"},
                         {"avx512fp16", "avx512dq"},
                         {"avx512fp16", "avx512vl"},
                         {"avxvnni", "avx2"},
                         {"amx-int8", "amx-tile"},
                         {"amx-bf16", "amx-tile"},
                         {"amx-fp16", "amx-tile"}};

const Names kArmFeatures = {"fp-armv8", "neon", "rdm", "fullfp16", "dotprod", "i8mm", "bf16", "sve", "sve2"};
const Needs kArmNeeds = {{"neon", "fp-armv8"}, {"rdm", "neon"},  {"fullfp16", "fp-armv8"},
                         {"dotprod", "neon"},  {"i8mm", "neon"}, {"bf16", "neon"},
                         {"sve", "fullfp16"},  {"sve2", "sve"}};

const Needs& needs_of(Architecture architecture) {
  static const Needs none;
  if (architecture == Architecture::kX86_64) return kX86Needs;
  return architecture == Architecture::kAArch64 ? kArmNeeds : none;
}

/// The relevant ones of `names`, once each, in the fixed order.
template <typename Contains>
std::vector<std::string> select_relevant(Architecture architecture, Contains contains) {
  std::vector<std::string> result;
  for (std::string_view feature : relevant_features(architecture)) {
    if (contains(feature)) result.emplace_back(feature);
  }
  return result;
}

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

std::optional<std::vector<std::string>> features_of_arm_cpu(llvm::StringRef name) {
  // Two names for what has no CPU: the baseline of the architecture.
  if (name == "generic") return std::vector<std::string>{"fp-armv8", "neon"};
  std::optional<llvm::AArch64::CpuInfo> cpu = llvm::AArch64::parseCpu(name);
  if (!cpu) return std::nullopt;
  llvm::AArch64::ExtensionBitset extensions = cpu->DefaultExtensions;
  extensions |= cpu->Arch.DefaultExts;
  std::vector<llvm::StringRef> enabled;
  llvm::AArch64::getExtensionFeatures(extensions, enabled);
  return select_relevant(Architecture::kAArch64, [&](std::string_view feature) {
    return std::ranges::any_of(enabled, [&](llvm::StringRef e) {
      return e.consume_front("+") && e == llvm::StringRef(feature.data(), feature.size());
    });
  });
}

}  // namespace

const std::vector<std::string_view>& relevant_features(Architecture architecture) {
  static const Names none;
  if (architecture == Architecture::kX86_64) return kX86Features;
  return architecture == Architecture::kAArch64 ? kArmFeatures : none;
}

bool has_feature(const std::vector<std::string>& features, std::string_view feature) {
  return std::ranges::find(features, feature) != features.end();
}

std::optional<std::vector<std::string>> features_of_cpu(Architecture architecture, std::string_view cpu) {
  llvm::StringRef name(cpu.data(), cpu.size());
  if (architecture == Architecture::kAArch64) return features_of_arm_cpu(name);
  if (architecture != Architecture::kX86_64) return std::nullopt;
  if (llvm::X86::parseArchX86(name, /*Only64Bit=*/true) == llvm::X86::CK_None) return std::nullopt;
  llvm::SmallVector<llvm::StringRef, 64> enabled;
  llvm::X86::getFeaturesForCPU(name, enabled);
  // LLVM lists only what others do not imply.
  std::vector<std::string> features;
  for (std::string_view feature : kX86Features) {
    if (!llvm::is_contained(enabled, llvm::StringRef(feature.data(), feature.size()))) continue;
    features = add_feature(architecture, std::move(features), feature);
  }
  return features;
}

std::vector<std::string> cpu_names(Architecture architecture) {
  llvm::SmallVector<llvm::StringRef, 128> names;
  if (architecture == Architecture::kX86_64) llvm::X86::fillValidCPUArchList(names, /*Only64Bit=*/true);
  if (architecture == Architecture::kAArch64) llvm::AArch64::fillValidCPUArchList(names);
  std::vector<std::string> result;
  for (llvm::StringRef name : names) result.push_back(name.str());
  std::ranges::sort(result);
  return result;
}

std::vector<std::string> add_feature(Architecture architecture, std::vector<std::string> features,
                                     std::string_view feature) {
  if (has_feature(features, feature)) return features;
  features.emplace_back(feature);
  for (const auto& [dependent, needed] : needs_of(architecture)) {
    if (dependent == feature) features = add_feature(architecture, std::move(features), needed);
  }
  return select_relevant(architecture, [&](std::string_view f) { return has_feature(features, f); });
}

std::vector<std::string> remove_feature(Architecture architecture, std::vector<std::string> features,
                                        std::string_view feature) {
  if (!has_feature(features, feature)) return features;
  std::erase(features, feature);
  for (const auto& [dependent, needed] : needs_of(architecture)) {
    if (needed == feature) features = remove_feature(architecture, std::move(features), dependent);
  }
  return features;
}

std::optional<TileUnit> tile_unit(const Target& target) {
  if (target.architecture == Architecture::kAArch64 && has_feature(target, "bf16")) return arm::kBfmmla;
  if (target.architecture != Architecture::kX86_64) return std::nullopt;
  if (has_feature(target, "amx-bf16")) return x86::kAmx;
  if (has_feature(target, "avx512bf16")) return x86::kVdpbf16ps;
  return std::nullopt;
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
  host.features = select_relevant(host.architecture, [&](std::string_view feature) {
#if defined(__aarch64__)
    // What this program itself is compiled to. LLVM reads /proc/cpuinfo, where an emulator shows the
    // machine's own.
    if (feature == "neon" || feature == "fp-armv8") return true;
#endif
    auto it = detected.find(llvm::StringRef(feature.data(), feature.size()));
    return it != detected.end() && it->second;
  });
  if (has_feature(host.features, "amx-tile") && !may_use_tiles()) {
    host.features = remove_feature(host.architecture, std::move(host.features), "amx-tile");
  }
  return host;
}

}  // namespace gantry
