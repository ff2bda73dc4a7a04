// Instructions that compute the innermost loops of a stage as a product of matrices.
#pragma once

#include <cstdint>
#include <variant>

#include "host/machine/tile_unit.h"

namespace gantry {

/// Matrix products that the threads of one warp compute together on tensor cores, D += A * B with D in f32.
enum class MmaShape : uint8_t {
  kM16N8K8Tf32,   ///< operands f32 rounded to TF32; from sm_80
  kM16N8K16Bf16,  ///< from sm_80
  kM16N8K16F16,   ///< from sm_80
  kM16N8K8F16,    ///< from sm_75
};

/// Of a stage at most one: MmaShape for its three innermost leaves (m, n, k), TileUnit for its five.
using MatrixInstruction = std::variant<std::monostate, MmaShape, TileUnit>;

}  // namespace gantry
