// Instructions that compute the innermost loops of a stage as a product of matrices.
#pragma once

#include <cstdint>
#include <variant>

#include "host/machine/tile_unit.h"
#include "host/tensor/expr.h"

namespace gantry {

/// Matrix products that the threads of one warp compute together on tensor cores, D += A * B with D in f32.
enum class MmaShape : uint8_t {
  kM16N8K8Tf32,   ///< operands f32 rounded to TF32; from sm_80
  kM16N8K16Bf16,  ///< from sm_80
  kM16N8K16F16,   ///< from sm_80
  kM16N8K8F16,    ///< from sm_75
};

/// What a stage on a CPU's tile unit asks of it.
struct TileProducts {
  TileUnit unit;
  Expr rows_end;  ///< see Stage::read_rows_below; null: not said
};

/// Of a stage at most one: MmaShape for its three innermost leaves (m, n, k), TileProducts for its five.
using MatrixInstruction = std::variant<std::monostate, MmaShape, TileProducts>;

}  // namespace gantry
