// What products on tile units take, and which of them a target computes so.
#pragma once

#include <optional>

#include "host/machine/target.h"
#include "host/ops/conv.h"

namespace gantry::costs {

/// bf16 parts that the target's precision asks of tile units; 0: it does not use them.
int64_t tile_parts(const Target& target);
/// Parts that are slower than multiply-adds are chosen only by who asks for them: for their arithmetic, not
/// their speed.
bool asks_for_parts(const Target& target);
/// Whether none of its extents is known to be 0. Tile units take no others: there are no blocks of no rows.
bool may_have_elements(const TensorType& type);
/// Convolutions without groups of f32 images of known size that may have elements. `data`, `result`: (N, C,
/// spatial…).
bool fits_tile_unit(const ConvAttrs& attrs, const TensorType& data, const TensorType& result);
/// Parts of the weights of data (…, K) times (K, units), or 0 where multiply-adds are estimated to be faster
/// or there is nothing to multiply.
int64_t dense_tile_parts(const TensorType& data, int64_t units, const Target& target);

/// Cycles on one core of a convolution by attrs.form.algorithm == kTiles; none where extents are not known.
/// `data`, `result`: (N, C, spatial…).
std::optional<double> predicted_tile_cycles(const ConvAttrs& attrs, const TensorType& data,
                                            const TensorType& result, const MachineModel& machine);
/// Of data (…, K) that may have elements, K known, times a weight of so many bf16 parts.
double predicted_tile_cycles(const TensorType& data, int64_t units, TileUnit unit, int64_t parts,
                             const MachineModel& machine);

}  // namespace gantry::costs
