#include "tests/passes/pass_test.h"

namespace gantry {
namespace {

std::string combined(const std::string& text) {
  return after(text, [](Graph& graph) {
    combine_parallel_batch_matmul(graph, fresh_context());
    fold_constant(graph, fresh_context());
    dead_code(graph, fresh_context());
  });
}

/// The product of %a and the transposed %b.
const std::string kProduct = "  %y = matmul(%a, %b, transpose_b=true, gemm=true)\n  return %y\n}";
const std::string kHead = "fn @main(%x: Tensor[(1, N, 2), f32]) -> Tensor[(1, N, N), f32] {\n";
/// %c in two halves of two columns.
const std::string kColumns =
    "  %a = strided_slice(%c, begin=(0, 0, 0), end=(1, N, 2), strides=[1, 1, 1])\n"
    "  %b = strided_slice(%c, begin=(0, 0, 2), end=(1, N, 4), strides=[1, 1, 1])\n";

std::string of_matrices(const std::string& attrs) {
  return kHead + "  %a = matmul(%x, const(f32, [1, 2, 2], [1, 2, 3, 4]), " + attrs +
         ")\n  %b = matmul(%x, const(f32, [1, 2, 2], [5, 6, 7, 8]), " + attrs + ")\n" + kProduct;
}

TEST(CombineParallelBatchMatmul, ColumnsOfConstantMatricesLieSideBySide) {
  EXPECT_THAT(combined(of_matrices("gemm=true")),
              IsGraph(kHead + "  %c = matmul(%x, const(f32, [1, 2, 4], [1, 2, 5, 6, 3, 4, 7, 8]), gemm=true)\n" +
                      kColumns + kProduct));
}

TEST(CombineParallelBatchMatmul, TransposedMatricesLieBelowEachOther) {
  EXPECT_THAT(combined(of_matrices("transpose_b=true, gemm=true")),
              IsGraph(kHead +
                      "  %c = matmul(%x, const(f32, [1, 4, 2], [1, 2, 3, 4, 5, 6, 7, 8]), transpose_b=true, gemm=true)\n" +
                      kColumns + kProduct));
}

TEST(CombineParallelBatchMatmul, RowsOfConstantMatricesOnTheLeftLieBelowEachOther) {
  const std::string head = "fn @main(%x: Tensor[(1, 2, N), f32]) -> Tensor[(1, 1, 1), f32] {\n";
  EXPECT_THAT(combined(head + "  %a = matmul(const(f32, [1, 1, 2], [1, 2]), %x, gemm=true)\n"
                              "  %b = matmul(const(f32, [1, 1, 2], [3, 4]), %x, gemm=true)\n" +
                       kProduct),
              IsGraph(head + "  %c = matmul(const(f32, [1, 2, 2], [1, 2, 3, 4]), %x, gemm=true)\n"
                             "  %a = strided_slice(%c, begin=(0, 0, 0), end=(1, 1, N), strides=[1, 1, 1])\n"
                             "  %b = strided_slice(%c, begin=(0, 1, 0), end=(1, 2, N), strides=[1, 1, 1])\n" +
                      kProduct));
}

TEST(CombineParallelBatchMatmul, MatricesThatAreDataStayApart) {
  const std::string text =
      "fn @main(%x: Tensor[(1, N, 2), f32], %w: Tensor[(1, 2, 2), f32]) -> Tensor[(1, N, N), f32] {\n"
      "  %a = matmul(%x, %w, gemm=true)\n"
      "  %b = matmul(%x, const(f32, [1, 2, 2], [5, 6, 7, 8]), gemm=true)\n" +
      kProduct;
  EXPECT_THAT(combined(text), IsGraph(text));
}

}  // namespace
}  // namespace gantry
