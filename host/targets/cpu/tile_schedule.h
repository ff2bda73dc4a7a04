// The loops around tile registers that all products on them share.
#pragma once

#include "host/costs/tile_blocks.h"
#include "host/machine/target.h"
#include "host/tensor/schedule.h"

namespace gantry::cpu {

/// Neighbouring rows of the operand that are written one after the other, at most.
constexpr int64_t kRowGroup = 16;
/// As many that two threads get the same number of groups. `extent`: of the axis of "tile_rows", with its
/// slack.
int64_t even_row_group(const Expr& extent);
/// Of the operand's rows that a block of results needs, as much stays in the second-level cache.
constexpr int64_t kResidentRowBytes = 768 << 10;

/// The packed weights that a "tile_product" reads.
const Operation& tile_weights(const OperationNode& product);
int64_t tile_weight_bytes(const OperationNode& product);
/// Operands are as they are, not sums of parts.
bool is_single_product(const OperationNode& product);
/// What so many rows of "tile_rows" take.
int64_t tile_row_bytes(const OperationNode& tile_rows, int64_t rows);

/// Cuts a "tile_product" ((phases,) rows, columns), attached where a block of rows and columns is needed,
/// into the tiles that are accumulated at once. `operand_bytes`: what one phase of the block reads of
/// "tile_rows".
void schedule_tile_product(Stage& product, const costs::RowBlocks& blocks, int64_t column_unit,
                           int64_t operand_bytes, const TileGeometry& geometry, const MachineModel& machine);

}  // namespace gantry::cpu
