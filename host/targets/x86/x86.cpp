#include "host/targets/x86/x86.h"

#include <elf.h>

#include "host/codegen/cpu_features.h"
#include "host/targets/x86/tile_instructions.h"
#include "module_generated.h"

namespace gantry::x86 {
namespace {

/// x86-64 alone is SSE2, without roundings: they would be calls of the C library, which kernels do not have.
constexpr std::string_view kTooOld[] = {"x86-64", "k8"};
constexpr FeatureAlias kAliases[] = {{"sse4_1", "sse4.1"}, {"sse4_2", "sse4.2"}, {"vnni", "avx512vnni"}};

int vector_class(const std::vector<std::string>& features) {
  if (has_feature(features, "avx512f")) return 4;
  return has_feature(features, "avx2") ? 3 : 2;
}

constexpr const TileInstruction* kTileInstructions[] = {&kAmx, &kVdpbf16ps, &kVpdpbusd};

CpuInstructions instructions(const std::vector<std::string>& features) {
  CpuInstructions known;
  known.multiply_add = has_feature(features, "fma");
  known.half_conversions = has_feature(features, "f16c");
  known.half_arithmetic = has_feature(features, "avx512fp16");
  known.bf16_rounding = has_feature(features, "avx512bf16");
  const bool has_tables = has_feature(features, "avx512f") && has_feature(features, "avx512dq") &&
                          has_feature(features, "avx512vl");
  if (has_tables) known.vector_math = &vector_math();
  known.ordered_min_max = false;
  return known;
}

/// LLVM's name for "AVX-512 with 512-bit registers", which every CPU with AVX-512 has had, and hints to
/// write, which they have had too.
std::string_view implied(const std::vector<std::string>& features) {
  return has_feature(features, "avx512f") ? "+evex512,+prfchw" : "";
}

}  // namespace

const CpuFamily& family() {
  static const CpuFamily known{.name = "x86_64",
                               .elf_machine = EM_X86_64,
                               .in_modules = module_format::Architecture::X86_64,
                               .backend = "X86",
                               .code = "x86-64",
                               .triple = "x86_64-unknown-linux-gnu",
                               .baseline = "x86-64",
                               .least = "sse4.2",
                               .least_text = "SSE4.2 (x86-64-v2) or better",
                               .too_old = kTooOld,
                               .named = named_cpus(),
                               .features = feature_names(),
                               .needs = feature_needs(),
                               .aliases = kAliases,
                               .bf16 = {"amx-bf16 or avx512bf16", "sapphirerapids or znver4"},
                               .half = {"avx512fp16", "sapphirerapids"},
                               .features_of_cpu = features_of_cpu,
                               .cpu_names = cpu_names,
                               .may_use = may_use,
                               .vector_class = vector_class,
                               .machine = machine,
                               .tile_instructions = kTileInstructions,
                               .instructions = instructions,
                               .implied = implied,
                               .states_vector_width = true,
                               .assembly_comment = "#",
                               .linker_emulation = "elf_x86_64",
                               .max_page_bytes = 4096,
                               .last_cache_bytes = 64 << 20,
                               .add_passes = nullptr};
  return known;
}

}  // namespace gantry::x86
