#include "host/codegen/cpu_codegen.h"

#include <algorithm>

#include "host/codegen/gpu_codegen.h"
#include "host/support/error.h"

namespace gantry {

const CpuCodegen& codegen_of(const CpuFamily& family) {
  const auto codegens = cpu_codegens();
  const auto found = std::ranges::find(codegens, &family, &CpuCodegen::family);
  internal_check(found != codegens.end(), "no code generation for {}", family.code);
  return **found;
}

const CpuCodegen& cpu_codegen_of(const Target& target) {
  return codegen_of(family_of(target));
}

std::string triple_of(const Target& target) {
  return std::string(target.family != nullptr ? cpu_codegen_of(target).triple
                                              : gpu_codegen_of(target).triple);
}

CpuInstructions instructions_of(const Target& target) {
  if (target.family != nullptr) return cpu_codegen_of(target).instructions(target.features);
  return gpu_codegen_of(target).instructions(target.gpu);
}

EmitTile tile_emission(const Target& target, TileUnit unit) {
  const TileInstruction* instruction = tile_instruction(target, unit);
  if (instruction == nullptr) return nullptr;
  const auto known = cpu_codegen_of(target).tile_emitters;
  const auto found = std::ranges::find(known, instruction, &TileEmitter::instruction);
  internal_check(found != known.end(), "target {}: nothing writes {}", target.name, name_of(unit));
  return found->emit;
}

}  // namespace gantry
