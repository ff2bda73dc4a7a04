#include "host/targets/arm/tile_instructions.h"

#include "host/machine/cpu_features.h"
#include "host/targets/arm/tile_units.h"

namespace gantry::arm {
namespace {

/// Cores issue it as often as multiply-adds (llvm-mca's models of Cortex-A510, A710 and X2, Neoverse N2, V1
/// and V2): a tile is stored by two instructions and read again; a block of 16 elements is converted twice,
/// from four vectors into halves of four.
TileCosts bfmmla_costs(const MachineModel& machine) {
  constexpr double kShare = 0.9;  // of the peak, in the inner loop
  return {1 / (kShare * machine.bf16_per_cycle), 3, 16.0 / machine.fma_per_cycle,
          1 / machine.memory_bytes_per_cycle};
}

bool has_bfmmla(const std::vector<std::string>& features) {
  return has_feature(features, "bf16");
}

}  // namespace

const TileInstruction kBfmmla{
    .geometry = &kBfmmlaGeometry, .is_there = has_bfmmla, .costs = {.cycles = bfmmla_costs}};

std::span<const TileInstruction* const> tile_instructions() {
  static constexpr const TileInstruction* kAll[] = {&kBfmmla};
  return kAll;
}

}  // namespace gantry::arm
