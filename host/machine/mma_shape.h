// Instructions of tensor cores: products of matrices that the threads of one warp of a GPU compute together.
// Lowering, emulation, code generation and cost models ask for what is known of one here.
#pragma once

#include <cstdint>
#include <string_view>

#include "host/machine/dtype.h"

namespace gantry {

/// D += A * B with D in f32.
enum class MmaShape : uint8_t {
  kM16N8K8Tf32,   ///< operands f32 rounded to TF32; from sm_80
  kM16N8K16Bf16,  ///< from sm_80
  kM16N8K16F16,   ///< from sm_80
  kM16N8K8F16,    ///< from sm_75
};

/// D has so many rows and columns, whichever instruction it is; each of so many threads holds as many
/// elements of D, A and B as the others.
constexpr int64_t kMmaRows = 16, kMmaColumns = 8, kMmaThreads = 32;
constexpr int64_t kMmaResults = kMmaRows * kMmaColumns / kMmaThreads;  ///< elements of D that a thread holds

struct MmaGeometry {
  std::string_view name;  ///< as printed programs have it
  int64_t depth;          ///< columns of A, rows of B
  DType operand;          ///< of A and B, as threads hold them

  /// That a thread holds.
  int64_t a_elements() const { return kMmaRows * depth / kMmaThreads; }
  int64_t b_elements() const { return kMmaColumns * depth / kMmaThreads; }
  int64_t elements_of_register() const { return 4 / byte_width(operand); }
};

const MmaGeometry& geometry_of(MmaShape shape);

}  // namespace gantry
