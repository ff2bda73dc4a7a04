/// What products on the tile units of x86-64 cost.
#pragma once

#include "host/targets/cpu/tile_costs.h"
#include "host/targets/x86/tile_units.h"

namespace gantry::x86 {

/// Fitted to 560 convolutions of eleven networks (relative error 14 %); weights come from the third level.
inline constexpr cpu::TileModel kAmxModel{
    .unit = kAmx,
    .costs = [](const MachineModel&) { return cpu::TileCosts{23, 85, 11.6, 0.12, 0.023, 2200, 0.1}; },
    .other_slack = 1.15};

/// The share leaves room for weights that come from afar: in first-level data it is 0.95 (measured on
/// znver5). Vectors want as much of the weights as tiles, with less to do.
inline constexpr cpu::TileModel kVdpbf16psModel{
    .unit = kVdpbf16ps,
    .costs =
        [](const MachineModel& machine) {
          constexpr double kShare = 0.85;  // of the peak, in the inner loop
          return cpu::TileCosts{1 / (kShare * machine.bf16_per_cycle), 3, 8,
                                1 / machine.memory_bytes_per_cycle};
        },
    .other_slack = 0.85,
    .weights_in_first_level = true};

}  // namespace gantry::x86
