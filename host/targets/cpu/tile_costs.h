// What instructions on tile registers cost.
#pragma once

#include "host/codegen/target.h"
#include "host/tensor/tile_unit.h"

namespace gantry::cpu {

/// In cycles: an instruction with what it loads; a tile of results with its epilogue; splitting a block of a
/// row of the operand, for each part; a byte of the weights; a byte of the operand and the result; a kernel;
/// a byte of split rows that go through the third-level cache.
struct TileCosts {
  double dot, tile, part, weight_byte, byte = 0, kernel = 0, far_byte = 0;
};

/// What is known of a unit beside its geometry; each target's folder has those of its own.
struct TileModel {
  TileUnit unit;
  TileCosts (*costs)(const MachineModel& machine);
  /// What multiply-adds take in the same networks, by what their models predict.
  double other_slack = 1;
  /// Of weights that blocks of rows read in turn as much goes by at once as the first-level cache holds.
  bool weights_in_first_level = false;
};

TileCosts tile_costs(TileUnit unit, const MachineModel& machine);
double other_slack(TileUnit unit);
bool weights_in_first_level(TileUnit unit);

/// Of products of so many rows, columns and blocks of the depth.
struct TileProduct {
  TileUnit unit{};
  int64_t parts = 1;  ///< of the weights
  int64_t rows = 1, columns = 1, depth_blocks = 1;

  double tiles() const;  ///< of results: full ones, or as much of them as lower ones take
  double dots() const;   ///< instructions
};

}  // namespace gantry::cpu
