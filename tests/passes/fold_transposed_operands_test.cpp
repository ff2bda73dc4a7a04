#include "tests/passes/pass_test.h"

namespace gantry {
namespace {

TEST(FoldTransposedOperands, MatricesAreReadBeforeTheirTransposition) {
  EXPECT_EQ(
      after(R"(fn @main(%q: Tensor[(H, 1, 64), f32], %k: Tensor[(H, T, 64), f32]) -> Tensor[(H, 1, T), f32] {
  %0 = transpose(%k, axes=[0, 2, 1])
  %1 = matmul(%q, %0, transpose_a=false, transpose_b=false, gemm=false)
  return %1
})",
            fold_transposed_operands),
      R"(fn @main(%q: Tensor[(H, 1, 64), f32], %k: Tensor[(H, T, 64), f32]) -> Tensor[(H, 1, T), f32] {
  %2 = matmul(%q, %k, transpose_a=false, transpose_b=true, gemm=false)
  return %2
}
)");
}

TEST(FoldTransposedOperands, OtherOrdersOfAxesStay) {
  const std::string text =
      R"(fn @main(%q: Tensor[(H, 1, 64), f32], %k: Tensor[(T, H, 64), f32]) -> Tensor[(H, 1, T), f32] {
  %0 = transpose(%k, axes=[1, 2, 0])
  %1 = matmul(%q, %0, transpose_a=false, transpose_b=false, gemm=false)
  return %1
}
)";
  EXPECT_EQ(after(text, fold_transposed_operands), text);
}

}  // namespace
}  // namespace gantry
