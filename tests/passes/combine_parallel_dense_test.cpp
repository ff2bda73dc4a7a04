#include "tests/passes/pass_test.h"

namespace gantry {
namespace {

std::string combined(const std::string& text) {
  return after(text, [](Graph& graph) {
    combine_parallel_dense(graph, fresh_context());
    fold_constant(graph, fresh_context());
    dead_code(graph, fresh_context());
  });
}

std::string attention(const std::string& form, const std::string& between) {
  return "fn @main(%x: Tensor[(N, 8, 3), f32]) -> Tensor[(N, 8, 8), f32] {\n"
         "  %0 = nn.dense(%x, const(f32, [3, 1], [1, 2, 3]), units=1, gemm=" +
         form +
         ")\n"
         "  %1 = add(%0, const(f32, [1], [7]))\n"
         "  %2 = nn.dense(%x, const(f32, [3, 1], [4, 5, 6]), units=1, gemm=" +
         form + ")\n" + between + "  %4 = matmul(%1, %3, gemm=" + form + ")\n  return %4\n}";
}
const std::string kTransposition = "  %3 = transpose(%2, axes=[0, 2, 1])\n";

TEST(CombineParallelDense, QueriesAndKeysComeFromOneProduct) {
  EXPECT_THAT(combined(attention("true", kTransposition)),
              IsGraph("fn @main(%x: Tensor[(N, 8, 3), f32]) -> Tensor[(N, 8, 8), f32] {\n"
                      "  %0 = nn.dense(%x, const(f32, [3, 2], [1, 4, 2, 5, 3, 6]), units=2, gemm=true)\n"
                      "  %1 = add(%0, const(f32, [2], [7, 0]))\n"
                      "  %2 = strided_slice(%1, begin=(0, 0, 0), end=(N, 8, 1), strides=[1, 1, 1])\n"
                      "  %3 = strided_slice(%1, begin=(0, 0, 1), end=(N, 8, 2), strides=[1, 1, 1])\n"
                      "  %4 = transpose(%3, axes=[0, 2, 1])\n"
                      "  %5 = matmul(%2, %4, gemm=true)\n  return %5\n}"));
}

TEST(CombineParallelDense, BiasesOfDifferentRanksStayApartWhereTheFirstProductHasNone) {
  const std::string head = "fn @main(%x: Tensor[(N, 8, 3), f32]) -> Tensor[(N, 8, 2), f32] {\n";
  const std::string value =
      "  %v = nn.dense(%x, const(f32, [3, 2], [0, 1, 0, 1, 0, 1]), units=2, gemm=true)\n"
      "  %b = add(%v, const(f32, [1, 1, 2], [9, 10]))\n";
  const std::string products =
      "  %t = transpose(%k, axes=[0, 2, 1])\n  %s = matmul(%q, %t, gemm=true)\n"
      "  %y = matmul(%s, %b, gemm=true)\n  return %y\n}";
  EXPECT_THAT(
      combined(head +
               "  %q = nn.dense(%x, const(f32, [3, 2], [1, 2, 3, 4, 5, 6]), units=2, gemm=true)\n"
               "  %0 = nn.dense(%x, const(f32, [3, 2], [6, 5, 4, 3, 2, 1]), units=2, gemm=true)\n"
               "  %k = add(%0, const(f32, [2], [7, 8]))\n" +
               value + products),
      IsGraph(head +
              "  %0 = nn.dense(%x, const(f32, [3, 4], [1, 2, 6, 5, 3, 4, 4, 3, 5, 6, 2, 1]), units=4, "
              "gemm=true)\n"
              "  %1 = add(%0, const(f32, [4], [0, 0, 7, 8]))\n"
              "  %q = strided_slice(%1, begin=(0, 0, 0), end=(N, 8, 2), strides=[1, 1, 1])\n"
              "  %k = strided_slice(%1, begin=(0, 0, 2), end=(N, 8, 4), strides=[1, 1, 1])\n" +
              value + products));
}

TEST(CombineParallelDense, ProductsInOtherFormsStayApart) {
  EXPECT_THAT(combined(attention("false", kTransposition)), IsGraph(attention("false", kTransposition)));
}

TEST(CombineParallelDense, ProductsThatArithmeticFollowsStayApart) {
  const std::string text = attention("true", "  %r = nn.relu(%2)\n  %3 = transpose(%r, axes=[0, 2, 1])\n");
  EXPECT_THAT(combined(text), IsGraph(text));
}

// Its channels are the second axis, not the one along which the products are put together.
TEST(CombineParallelDense, BatchNormalisationIsNotCombinedAlongTheFeatures) {
  const std::string norm = ", const(f32, [2], [3, 4]), const(f32, [2], [0.5, 1]), const(f32, [2], [2, 5]), "
                           "const(f32, [2], [0.25, 2]))\n";
  const std::string text =
      "fn @main(%x: Tensor[(N, 2, 3), f32]) -> Tensor[(N, 2, 2), f32] {\n"
      "  %0 = nn.dense(%x, const(f32, [3, 2], [1, 2, 3, 4, 5, 6]), units=2, gemm=true)\n"
      "  %1 = nn.batch_norm(%0" +
      norm +
      "  %2 = nn.dense(%x, const(f32, [3, 2], [6, 5, 4, 3, 2, 1]), units=2, gemm=true)\n"
      "  %3 = nn.batch_norm(%2" +
      norm + "  %4 = transpose(%3, axes=[0, 2, 1])\n  %5 = matmul(%1, %4, gemm=true)\n  return %5\n}";
  EXPECT_THAT(combined(text), IsGraph(text));
}

}  // namespace
}  // namespace gantry
