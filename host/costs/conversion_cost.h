// What changing the order of a tensor's bytes costs.
#pragma once

#include "host/graph/type.h"
#include "host/machine/target.h"

namespace gantry::costs {

/// Of a kernel that writes a value of that type in another order: the bytes that it reads and writes, at the speed of
/// the second-level cache where that holds them, else of memory. Cycles of one core of a CPU; milliseconds of a GPU,
/// without what launching takes. Extents that are not known are guessed as an image's, (N, C, spatial…).
double transposition_cost(const TensorType& type, const Target& target);

/// Of an image (N, C, spatial…) in the other order of axes, channels first or last: 0 where its elements lie alike in
/// both, as of one point or one channel. On CPUs more than their bytes take where the channels are few: those are written
/// one by one.
double conversion_cost(const TensorType& image, const Target& target);

}  // namespace gantry::costs
