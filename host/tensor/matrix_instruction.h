// Instructions that compute the innermost loops of a stage as a product of matrices.
#pragma once

#include <variant>

#include "host/machine/mma_shape.h"
#include "host/machine/tile_unit.h"

namespace gantry {

/// Of a stage at most one: MmaShape for its three innermost leaves (m, n, k), TileUnit for its five.
using MatrixInstruction = std::variant<std::monostate, MmaShape, TileUnit>;

}  // namespace gantry
