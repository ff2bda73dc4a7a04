#include "host/targets/arm/codegen.h"

#include "host/machine/cpu_features.h"
#include "host/targets/arm/family.h"
#include "host/targets/arm/tile_instructions.h"
#include "module_generated.h"

namespace gantry::arm {
namespace {

constexpr TileEmitter kTileEmitters[] = {{&kBfmmla, emit_bfmmla}};

CpuInstructions instructions(const std::vector<std::string>& features) {
  CpuInstructions known;
  known.half_arithmetic = has_feature(features, "fullfp16");
  known.bf16_rounding = has_feature(features, "bf16");
  known.long_conversions = false;  // LLVM has scvtf to doubles and fcvtn for them
  return known;
}

std::string_view implied(const std::vector<std::string>& /*features*/) {
  return "";
}

}  // namespace

const CpuCodegen& codegen() {
  static const CpuCodegen known{.family = &family(),
                                .in_modules = module_format::Architecture::AArch64,
                                .backend = "AArch64",
                                .triple = "aarch64-unknown-linux-gnu",
                                .baseline = "generic",
                                .features_of_cpu = features_of_cpu,
                                .cpu_names = cpu_names,
                                .tile_emitters = kTileEmitters,
                                .instructions = instructions,
                                .implied = implied,
                                .states_vector_width = false,
                                .assembly_comment = "//",
                                .linker_emulation = "aarch64linux",
                                .add_passes = add_passes};
  return known;
}

}  // namespace gantry::arm
