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

TileCosts tile_costs(TileUnit unit, const MachineModel& machine);

/// Of products of so many rows, columns and blocks of the depth.
struct TileProduct {
  TileUnit unit = TileUnit::kAmx;
  int64_t parts = 1;  ///< of the weights
  int64_t rows = 1, columns = 1, depth_blocks = 1;

  double tiles() const;  ///< of results: full ones, or as much of them as lower ones take
  double dots() const;   ///< instructions
};

}  // namespace gantry::cpu
