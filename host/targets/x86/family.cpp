#include "host/targets/x86/family.h"

#include <elf.h>

#include "host/machine/cpu_features.h"
#include "host/targets/x86/tile_instructions.h"

namespace gantry::x86 {
namespace {

/// x86-64 alone is SSE2, without roundings: they would be calls of the C library, which kernels do not have.
constexpr std::string_view kTooOld[] = {"x86-64", "k8"};
constexpr FeatureAlias kAliases[] = {{"sse4_1", "sse4.1"}, {"sse4_2", "sse4.2"}, {"vnni", "avx512vnni"}};

int vector_class(const std::vector<std::string>& features) {
  if (has_feature(features, "avx512f")) return 4;
  return has_feature(features, "avx2") ? 3 : 2;
}

}  // namespace

const CpuFamily& family() {
  static const CpuFamily known{.name = "x86_64",
                               .elf_machine = EM_X86_64,
                               .code = "x86-64",
                               .least = "sse4.2",
                               .least_text = "SSE4.2 (x86-64-v2) or better",
                               .too_old = kTooOld,
                               .named = named_cpus(),
                               .features = feature_names(),
                               .needs = feature_needs(),
                               .aliases = kAliases,
                               .bf16 = {"amx-bf16 or avx512bf16", "sapphirerapids or znver4"},
                               .half = {"avx512fp16", "sapphirerapids"},
                               .vector_class = vector_class,
                               .machine = machine,
                               .tile_instructions = tile_instructions(),
                               .max_page_bytes = 4096,
                               .last_cache_bytes = 64 << 20};
  return known;
}

}  // namespace gantry::x86
