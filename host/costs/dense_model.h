// The analytic model of matrix products with packed weights: register tiles, and the blocks of rows whose
// data stays in the second-level cache while all weights stream past.
#pragma once

#include <cstdint>

#include "host/costs/tile_model.h"
#include "host/machine/target.h"

namespace gantry::costs {

/// y (rows, units) = x (rows, depth) * weight.
struct DenseWork {
  int64_t rows = 0;  ///< 0: symbolic
  int64_t depth = 1;
  int64_t units = 1;
  int element_bytes = 4;
  int64_t data_depth = 0;  ///< elements of a row of x where the product reads only some of them; 0: depth
  int fixed_bits = 0;      ///< not 0: weights as integers (host/ops/fixed_point.h), 20 or 24
  bool half = false;       ///< summed in f16 over a few (kHalfChunk), then in f32; element_bytes is 2
  int given_rows = 0;      ///< of the register tile; 0: whatever takes the least
  int64_t row_stride() const { return data_depth != 0 ? data_depth : depth; }
};

struct DenseTile {
  ProductTile tile;
  int64_t block_rows = 1;  ///< a multiple of tile.rows: rows that go past each panel of weights together
};

/// The tile with the fewest predicted cycles; `channel_block` != 0: weights are packed in that block already.
DenseTile choose_dense_tile(const DenseWork& work, const MachineModel& machine, int64_t channel_block = 0);

/// Whether a tile of registers has that block; see has_tile().
bool has_dense_tile(const DenseWork& work, const MachineModel& machine, int64_t channel_block);

/// Its predicted cycles on one core.
double predicted_dense_cycles(const DenseWork& work, const DenseTile& tile, const MachineModel& machine);

/// True if weights as integers of `fixed_bits` bits make the product faster: few rows wait for weights that
/// the second-level cache does not keep, for longer than it takes to make floats of integers.
bool prefers_fixed_point(const DenseWork& work, int fixed_bits, const MachineModel& machine);

/// True if the product's weights take so much longer to arrive from memory than to be used that no algorithm
/// with longer weights is faster.
bool waits_for_weights(const DenseWork& work, const MachineModel& machine);

/// In how many equal parts to sum, so that what all rows read for a part stays in the second-level cache;
/// divides the depth. 1 where rows are few or depth is small.
int64_t dense_depth_parts(const DenseWork& work, const MachineModel& machine);

}  // namespace gantry::costs
