#include "host/target/cpu/tile_costs.h"

#include "host/ops/tiles.h"
#include "host/support/divide.h"
#include "host/target/cpu/tile_blocks.h"

namespace gantry::cpu {
namespace {

// Fitted to 560 convolutions of eleven networks (relative error 14 %); weights come from the third level.
constexpr TileCosts kAmxCosts{23, 85, 11.6, 0.12, 0.023, 2200, 0.1};

/// Of bfmmla, which cores issue as often as multiply-adds (llvm-mca's models of Cortex-A510, A710 and X2,
/// Neoverse N2, V1 and V2): a tile is stored by two instructions and read again; a block of 16 elements is
/// converted twice, from four vectors into halves of four.
TileCosts bfmmla_costs(const MachineModel& machine) {
  constexpr double kShare = 0.9;  // of the peak, in the inner loop
  return {1 / (kShare * machine.bf16_per_cycle), 3, 16.0 / machine.fma_per_cycle,
          1 / machine.memory_bytes_per_cycle};
}

/// Of vdpbf16ps. The share leaves room for weights that come from afar: in first-level data it is 0.95
/// (measured on znver5).
TileCosts vdpbf16ps_costs(const MachineModel& machine) {
  constexpr double kShare = 0.85;  // of the peak, in the inner loop
  return {1 / (kShare * machine.bf16_per_cycle), 3, 8, 1 / machine.memory_bytes_per_cycle};
}

}  // namespace

TileCosts tile_costs(TileUnit unit, const MachineModel& machine) {
  switch (unit) {
    case TileUnit::kBfmmla:
      return bfmmla_costs(machine);
    case TileUnit::kVdpbf16ps:
      return vdpbf16ps_costs(machine);
    default:
      return kAmxCosts;
  }
}

double TileProduct::tiles() const {
  return full_tiles(rows, unit) * double(ceil_div(columns, geometry_of(unit).columns));
}

double TileProduct::dots() const {
  const TileGeometry& tile = geometry_of(unit);
  return tiles() * double(depth_blocks * (tile.block_depth / tile.depth)) *
         double(tile_products(parts).size());
}

}  // namespace gantry::cpu
