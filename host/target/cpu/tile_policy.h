// When convolutions and matrix products go to tile registers.
#pragma once

#include <optional>

#include "host/codegen/target.h"
#include "host/ops/conv.h"
#include "host/passes/alter_layout.h"

namespace gantry::cpu {

/// bf16 parts that the target's precision asks of tile registers; 0: it does not use them.
int64_t tile_parts(const Target& target);
/// Adds tile registers to a policy, for a target that uses them: where their cost model says that they are
/// faster than multiply-adds. Of a `network` with many such products, unless it is null, some have weights in
/// three bf16 parts instead of two, as errors add up (network_error.h).
void prefer_tiles(LayoutPolicy& policy, const Target& target, const Function* network);

/// Cycles on one core of a convolution by attrs.algorithm == kTiles; none where extents are not known.
/// `data`, `result`: (N, C, spatial…).
std::optional<double> predicted_tile_cycles(const ConvAttrs& attrs, const TensorType& data,
                                            const TensorType& result, const MachineModel& machine);
/// Of data (…, K), K known, times a weight of so many bf16 parts.
double predicted_tile_cycles(const TensorType& data, int64_t units, TileUnit unit, int64_t parts,
                             const MachineModel& machine);

}  // namespace gantry::cpu
