#include "host/targets/x86/codegen.h"

#include "host/machine/cpu_features.h"
#include "host/targets/x86/family.h"
#include "host/targets/x86/tile_instructions.h"
#include "module_generated.h"

namespace gantry::x86 {
namespace {

constexpr TileEmitter kTileEmitters[] = {
    {&kAmx, emit_amx}, {&kVdpbf16ps, emit_vdpbf16ps}, {&kVpdpbusd, emit_vpdpbusd}};

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
  known.saturating_conversions = false;
  return known;
}

/// LLVM's name for "AVX-512 with 512-bit registers", which every CPU with AVX-512 has had, and hints to
/// write, which they have had too.
std::string_view implied(const std::vector<std::string>& features) {
  return has_feature(features, "avx512f") ? "+evex512,+prfchw" : "";
}

}  // namespace

const CpuCodegen& codegen() {
  static const CpuCodegen known{.family = &family(),
                                .in_modules = module_format::Architecture::X86_64,
                                .backend = "X86",
                                .triple = "x86_64-unknown-linux-gnu",
                                .baseline = "x86-64",
                                .features_of_cpu = features_of_cpu,
                                .cpu_names = cpu_names,
                                .tile_emitters = kTileEmitters,
                                .instructions = instructions,
                                .implied = implied,
                                .states_vector_width = true,
                                .assembly_comment = "#",
                                .linker_emulation = "elf_x86_64",
                                .add_passes = nullptr};
  return known;
}

}  // namespace gantry::x86
