#include "host/machine/mma_shape.h"

#include "host/support/error.h"

namespace gantry {

const MmaGeometry& geometry_of(MmaShape shape) {
  static constexpr MmaGeometry kTf32{"m16n8k8.tf32", 8, DType::kF32},
      kBf16{"m16n8k16.bf16", 16, DType::kBF16}, kF16{"m16n8k16.f16", 16, DType::kF16},
      kShallowF16{"m16n8k8.f16", 8, DType::kF16};
  switch (shape) {
    case MmaShape::kM16N8K8Tf32:
      return kTf32;
    case MmaShape::kM16N8K16Bf16:
      return kBf16;
    case MmaShape::kM16N8K16F16:
      return kF16;
    case MmaShape::kM16N8K8F16:
      return kShallowF16;
  }
  internal_error("unknown matrix instruction");
}

}  // namespace gantry
