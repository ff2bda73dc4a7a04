// The features of x86-64 that matter here.
#include <llvm/ADT/SmallVector.h>
#include <llvm/TargetParser/X86TargetParser.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "host/codegen/cpu_features.h"
#include "host/targets/x86/x86.h"

namespace gantry::x86 {
namespace {

constexpr std::string_view kFeatures[] = {"sse3",     "ssse3",    "sse4.1",     "sse4.2",     "popcnt",
                                          "avx",      "avx2",     "fma",        "f16c",       "bmi",
                                          "bmi2",     "lzcnt",    "avx512f",    "avx512bw",   "avx512cd",
                                          "avx512dq", "avx512vl", "avx512vnni", "avx512bf16", "avx512fp16",
                                          "avxvnni",  "amx-tile", "amx-int8",   "amx-bf16",   "amx-fp16"};
constexpr FeatureNeed kNeeds[] = {{"ssse3", "sse3"},
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

std::span<const std::string_view> feature_names() {
  return kFeatures;
}

std::span<const FeatureNeed> feature_needs() {
  return kNeeds;
}

std::optional<std::vector<std::string>> features_of_cpu(std::string_view cpu) {
  const llvm::StringRef name(cpu.data(), cpu.size());
  if (llvm::X86::parseArchX86(name, /*Only64Bit=*/true) == llvm::X86::CK_None) return std::nullopt;
  llvm::SmallVector<llvm::StringRef, 64> enabled;
  llvm::X86::getFeaturesForCPU(name, enabled);
  // LLVM lists only what others do not imply.
  std::vector<std::string> features;
  for (std::string_view feature : kFeatures) {
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
