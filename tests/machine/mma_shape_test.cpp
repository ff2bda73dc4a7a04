#include "host/machine/mma_shape.h"

#include <gtest/gtest.h>

namespace gantry {
namespace {

/// 32-bit registers of a thread, by the PTX ISA's tables "Matrix Fragments for mma.m16n8k8" and "…
/// mma.m16n8k16".
struct Registers {
  MmaShape shape;
  DType operand;
  int64_t depth, a, b;
};
constexpr Registers kOfPtx[] = {{MmaShape::kM16N8K8Tf32, DType::kF32, 8, 4, 2},
                                {MmaShape::kM16N8K16Bf16, DType::kBF16, 16, 4, 2},
                                {MmaShape::kM16N8K16F16, DType::kF16, 16, 4, 2},
                                {MmaShape::kM16N8K8F16, DType::kF16, 8, 2, 1}};

TEST(MmaShapes, HaveTheFragmentsOfThePtxIsa) {
  for (const Registers& known : kOfPtx) {
    const MmaGeometry& geometry = geometry_of(known.shape);
    EXPECT_EQ(geometry.operand, known.operand) << geometry.name;
    EXPECT_EQ(geometry.depth, known.depth) << geometry.name;
    EXPECT_EQ(geometry.a_elements() / geometry.elements_of_register(), known.a) << geometry.name;
    EXPECT_EQ(geometry.b_elements() / geometry.elements_of_register(), known.b) << geometry.name;
  }
  EXPECT_EQ(kMmaResults, 4);
}

}  // namespace
}  // namespace gantry
