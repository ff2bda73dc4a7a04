// What instructions on tile registers cost.
#pragma once

#include "host/machine/cpu_family.h"
#include "host/machine/tile_unit.h"

namespace gantry::costs {

/// What is known of a unit beside its geometry; its target's folder says it.
const TileCostModel& cost_model_of(TileUnit unit);
inline TileCosts tile_costs(TileUnit unit, const MachineModel& machine) {
  return cost_model_of(unit).cycles(machine);
}
inline double other_slack(TileUnit unit) {
  return cost_model_of(unit).other_slack;
}
inline bool weights_in_first_level(TileUnit unit) {
  return cost_model_of(unit).weights_in_first_level;
}

/// Of products of so many rows, columns and blocks of the depth.
struct TileProduct {
  TileUnit unit{};
  int64_t parts = 1;  ///< of the weights
  int64_t rows = 1, columns = 1, depth_blocks = 1;

  double tiles() const;  ///< of results: full ones, or as much of them as lower ones take
  double dots() const;   ///< instructions
};

}  // namespace gantry::costs
