#include "tests/passes/pass_test.h"

namespace gantry {
namespace {

TEST(FoldRightOperands, MatricesAreReadBeforeTheirTransposition) {
  EXPECT_EQ(
      after(R"(fn @main(%q: Tensor[(H, 1, 64), f32], %k: Tensor[(H, T, 64), f32]) -> Tensor[(H, 1, T), f32] {
  %0 = transpose(%k, axes=[0, 2, 1])
  %1 = matmul(%q, %0)
  return %1
})",
            fold_right_operands),
      R"(fn @main(%q: Tensor[(H, 1, 64), f32], %k: Tensor[(H, T, 64), f32]) -> Tensor[(H, 1, T), f32] {
  %2 = matmul(%q, %k, transpose_b=true)
  return %2
}
)");
}

TEST(FoldRightOperands, OtherOrdersOfAxesStay) {
  const std::string text =
      R"(fn @main(%q: Tensor[(H, 1, 64), f32], %k: Tensor[(T, H, 64), f32]) -> Tensor[(H, 1, T), f32] {
  %0 = transpose(%k, axes=[1, 2, 0])
  %1 = matmul(%q, %0)
  return %1
}
)";
  EXPECT_EQ(after(text, fold_right_operands), text);
}

TEST(FoldRightOperands, ProductsAreScaledInsteadOfMatrices) {
  EXPECT_EQ(
      after(R"(fn @main(%q: Tensor[(H, 1, 64), f32], %k: Tensor[(H, T, 64), f32]) -> Tensor[(H, 1, T), f32] {
  %0 = transpose(%k, axes=[0, 2, 1])
  %1 = multiply(const(f32, [], [0.5]), %0)
  %2 = divide(%1, const(f32, [], [3]))
  %3 = matmul(%q, %2)
  return %3
})",
            fold_right_operands),
      R"(fn @main(%q: Tensor[(H, 1, 64), f32], %k: Tensor[(H, T, 64), f32]) -> Tensor[(H, 1, T), f32] {
  %8 = matmul(%q, %k, transpose_b=true)
  %7 = multiply(%8, const(f32, [], [0.5]))
  %5 = divide(%7, const(f32, [], [3]))
  return %5
}
)");
}

TEST(FoldRightOperands, MatricesThatAreScaledEachByItsOwnFactorStay) {
  const std::string text =
      R"(fn @main(%q: Tensor[(H, 1, 64), f32], %k: Tensor[(H, 64, T), f32], %s: Tensor[(H, 1, 1), f32]) -> Tensor[(H, 1, T), f32] {
  %0 = multiply(%k, %s)
  %1 = matmul(%q, %0)
  return %1
}
)";
  EXPECT_EQ(after(text, fold_right_operands), text);
}

/// Products of (B, 6, 1, 64) and (B, 6, T, 64), made from (B, 2, T, 64) with repetition along `axis`.
std::string repeated(const std::string& axes, const std::string& repeats) {
  return "fn @main(%q: Tensor[(B, 6, 1, 64), f32], %k: Tensor[(B, 2, T, 64), f32]) -> "
         "Tensor[(B, 6, 1, T), f32] {\n"
         "  %0 = reshape(%k, shape=" +
         axes + ")\n  %1 = broadcast_to(%0, shape=" + repeats +
         ")\n  %2 = reshape(%1, shape=(B, 6, T, 64))\n"
         "  %3 = matmul(%q, %2, transpose_b=true)\n  return %3\n}\n";
}

TEST(FoldRightOperands, RowsThatShareAMatrixAreMultipliedTogether) {
  EXPECT_THAT(after(repeated("(B, 2, 1, T, 64)", "(B, 2, 3, T, 64)"),
                    [](Graph& graph) {
                      fold_right_operands(graph, fresh_context());
                      simplify_movement(graph, fresh_context());
                      dead_code(graph, fresh_context());
                    }),
              IsGraph("fn @main(%q: Tensor[(B, 6, 1, 64), f32], %k: Tensor[(B, 2, T, 64), f32]) -> "
                      "Tensor[(B, 6, 1, T), f32] {\n"
                      "  %0 = reshape(%q, shape=(B, 2, 3, 64))\n"
                      "  %1 = matmul(%0, %k, transpose_b=true)\n"
                      "  %2 = reshape(%1, shape=(B, 6, 1, T))\n  return %2\n}"));
}

// Head h reads matrix h mod 2 there: no neighbours share one.
TEST(FoldRightOperands, MatricesThatAreRepeatedInTurnStay) {
  const std::string text = repeated("(B, 1, 2, T, 64)", "(B, 3, 2, T, 64)");
  EXPECT_EQ(after(text, fold_right_operands), text);
}

}  // namespace
}  // namespace gantry
