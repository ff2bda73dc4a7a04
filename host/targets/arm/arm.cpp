#include "host/targets/arm/arm.h"

#include <elf.h>

#include "host/codegen/cpu_features.h"
#include "host/targets/arm/tile_instructions.h"
#include "module_generated.h"

namespace gantry::arm {
namespace {

constexpr FeatureAlias kAliases[] = {{"fp16", "fullfp16", true}};

int vector_class(const std::vector<std::string>& features) {
  return has_feature(features, "dotprod") ? 2 : 1;
}

constexpr const TileInstruction* kTileInstructions[] = {&kBfmmla};

CpuInstructions instructions(const std::vector<std::string>& features) {
  CpuInstructions known;
  known.half_arithmetic = has_feature(features, "fullfp16");
  known.bf16_rounding = has_feature(features, "bf16");
  return known;
}

std::string_view implied(const std::vector<std::string>& /*features*/) {
  return "";
}

}  // namespace

const CpuFamily& family() {
  static const CpuFamily known{
      .name = "aarch64",
      .elf_machine = EM_AARCH64,
      .in_modules = module_format::Architecture::AArch64,
      .backend = "AArch64",
      .code = "AArch64",
      .triple = "aarch64-unknown-linux-gnu",
      .baseline = "generic",
      .least = "neon",
      .least_text = "NEON",
      .too_old = {},
      .named = named_cpus(),
      .features = feature_names(),
      .needs = feature_needs(),
      .aliases = kAliases,
      .bf16 = {"add +bf16 to its name where the CPU has FEAT_BF16", "neoverse-n2 or aarch64+bf16"},
      .half = {"fullfp16", "cortex-a76 or aarch64+fp16"},
      .features_of_cpu = features_of_cpu,
      .cpu_names = cpu_names,
      .may_use = may_use,
      .vector_class = vector_class,
      .machine = machine,
      .tile_instructions = kTileInstructions,
      .instructions = instructions,
      .implied = implied,
      .states_vector_width = false,
      .assembly_comment = "//",
      .linker_emulation = "aarch64linux",
      .max_page_bytes = 65536,  // of some boards
      .last_cache_bytes = 16 << 20,
      .add_passes = add_passes};
  return known;
}

}  // namespace gantry::arm
