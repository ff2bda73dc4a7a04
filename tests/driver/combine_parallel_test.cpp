// Combined products compute what they did apart. Data and weights are small integers, so that results are equal bit by
// bit; each graph is interpreted as it is and after the pass.
#include <gtest/gtest.h>

#include "host/ops/op.h"
#include "host/passes/passes.h"
#include "tests/driver/graph_evaluation.h"

namespace gantry {
namespace {

using test::interpret_graph;
using test::random_arguments;

/// `count` small integers, none of two seeds alike.
std::string constant(const std::string& shape, int count, int seed) {
  std::string text;
  for (int i = 0; i < count; ++i) text += (i == 0 ? "" : ", ") + std::to_string((i * 7 + seed * 3) % 5 - 2);
  return "const(f32, [" + shape + "], [" + text + "])";
}

void expect_equal_results(const std::string& text, void (*pass)(Graph&, PassContext&)) {
  Graph graph = parse_graph(text, op_set());
  const auto arguments = random_arguments(graph, {});
  const std::vector<float> expected = interpret_graph(graph, arguments);
  PassContext context;
  pass(graph, context);
  EXPECT_EQ(context.rewrites, 1);
  fold_constant(graph, context);
  dead_code(graph, context);
  verify(graph, op_set(), "the pass under test");
  EXPECT_EQ(interpret_graph(graph, arguments), expected);
}

TEST(CombineParallel, ConvolutionsComputeTheSame) {
  const std::string form = "kernel=[1, 1], strides=[1, 1], dilations=[1, 1], padding=(0, 0, 0, 0), "
                           "channels_last=true, algorithm=gemm)\n";
  expect_equal_results("fn @main(%x: Tensor[(2, 3, 3, 4), f32]) -> Tensor[(2, 3, 3, 2), f32] {\n"
                       "  %a = nn.conv(%x, " + constant("4, 3", 12, 1) + ", channels=3, " + form +
                       "  %r = nn.relu(%a)\n"
                       "  %b = nn.conv(%x, " + constant("4, 5", 20, 2) + ", channels=5, " + form +
                       "  %s = add(%b, " + constant("5", 5, 3) + ")\n  %t = nn.relu(%s)\n"
                       "  %c = nn.conv(%r, " + constant("3, 2", 6, 4) + ", channels=2, " + form +
                       "  %d = nn.conv(%t, " + constant("5, 2", 10, 5) + ", channels=2, " + form +
                       "  %y = subtract(%c, %d)\n  return %y\n}\n",
                       combine_parallel_conv2d);
}

TEST(CombineParallel, DenseLayersComputeTheSame) {
  expect_equal_results("fn @main(%x: Tensor[(2, 3, 4), f32]) -> Tensor[(2, 3, 3), f32] {\n"
                       "  %a = nn.dense(%x, " + constant("4, 5", 20, 1) + ", units=5, gemm=true)\n"
                       "  %s = add(%a, " + constant("5", 5, 2) + ")\n"
                       "  %b = nn.dense(%x, " + constant("4, 5", 20, 3) + ", units=5, gemm=true)\n"
                       "  %y = matmul(%s, %b, transpose_b=true, gemm=true)\n  return %y\n}\n",
                       combine_parallel_dense);
}

TEST(CombineParallel, BatchedProductsComputeTheSame) {
  expect_equal_results("fn @main(%x: Tensor[(2, 4, 3), f32]) -> Tensor[(2, 5, 2), f32] {\n"
                       "  %a = matmul(" + constant("2, 5, 4", 40, 1) + ", %x, gemm=true)\n"
                       "  %b = matmul(" + constant("2, 2, 4", 16, 2) + ", %x, gemm=true)\n"
                       "  %y = matmul(%a, %b, transpose_b=true, gemm=true)\n  return %y\n}\n",
                       combine_parallel_batch_matmul);
}

}  // namespace
}  // namespace gantry
