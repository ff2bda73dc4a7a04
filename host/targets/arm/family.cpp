#include "host/targets/arm/family.h"

#include <elf.h>

#include "host/machine/cpu_features.h"
#include "host/targets/arm/tile_instructions.h"

namespace gantry::arm {
namespace {

constexpr FeatureAlias kAliases[] = {{"fp16", "fullfp16", true}};

int vector_class(const std::vector<std::string>& features) {
  return has_feature(features, "dotprod") ? 2 : 1;
}

}  // namespace

const CpuFamily& family() {
  static const CpuFamily known{
      .name = "aarch64",
      .elf_machine = EM_AARCH64,
      .code = "AArch64",
      .least = "neon",
      .least_text = "NEON",
      .too_old = {},
      .named = named_cpus(),
      .features = feature_names(),
      .needs = feature_needs(),
      .aliases = kAliases,
      .bf16 = {"add +bf16 to its name where the CPU has FEAT_BF16", "neoverse-n2 or aarch64+bf16"},
      .half = {"fullfp16", "cortex-a76 or aarch64+fp16"},
      .vector_class = vector_class,
      .machine = machine,
      .tile_instructions = tile_instructions(),
      .max_page_bytes = 65536,  // of some boards
      .last_cache_bytes = 16 << 20};
  return known;
}

}  // namespace gantry::arm
