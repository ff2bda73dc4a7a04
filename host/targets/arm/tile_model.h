/// What products on the tile unit of AArch64 cost.
#pragma once

#include "host/targets/arm/tile_units.h"
#include "host/targets/cpu/tile_costs.h"

namespace gantry::arm {

/// Cores issue it as often as multiply-adds (llvm-mca's models of Cortex-A510, A710 and X2, Neoverse N2, V1
/// and V2): a tile is stored by two instructions and read again; a block of 16 elements is converted twice,
/// from four vectors into halves of four.
inline constexpr cpu::TileModel kBfmmlaModel{
    .unit = kBfmmla, .costs = [](const MachineModel& machine) {
      constexpr double kShare = 0.9;  // of the peak, in the inner loop
      return cpu::TileCosts{1 / (kShare * machine.bf16_per_cycle), 3, 16.0 / machine.fma_per_cycle,
                            1 / machine.memory_bytes_per_cycle};
    }};

}  // namespace gantry::arm
