#include "host/driver/usual_sizes.h"

#include <gtest/gtest.h>

#include "host/graph/text.h"
#include "host/ops/op.h"

namespace gantry {
namespace {

/// The sum of rows of a and b, one of which may be repeated, and what `nodes` make of x as %y.
Graph sum_beside(const std::string& nodes, const std::string& result) {
  return parse_graph(
      "fn @main(%a: Tensor[(N, 4), f32], %b: Tensor[(M, 4), f32], %x: Tensor[(K), f32]) -> "
      "(Tensor[(broadcast(M, N), 4), f32], Tensor[(" +
          result +
          "), f32]) {\n"
          "  %0 = broadcast_to(%a, shape=(broadcast(M, N), 4), open=[0])\n"
          "  %1 = broadcast_to(%b, shape=(broadcast(M, N), 4), open=[0])\n"
          "  %2 = add(%0, %1)\n" +
          nodes + "  return %2, %y\n}\n",
      op_set());
}

TEST(UsualSizes, AreThoseOfNamesThatBroadcast) {
  const auto usual = usual_sizes(sum_beside("  %y = nn.relu(%x)\n", "K"));
  ASSERT_TRUE(usual);
  EXPECT_EQ(usual->equal.size(), 1u);
  EXPECT_EQ(usual->graph.main.outputs[0]->type.shape.size(), 2u);
}

TEST(UsualSizes, AreNoneWhereADimensionWouldBeDividedByZero) {
  const Graph graph = sum_beside("  %y = strided_slice(%x, begin=(0), end=(floordiv(K, N-M)), strides=[1])\n",
                                 "max(floordiv(K, N-M), 0)");
  EXPECT_FALSE(usual_sizes(graph));
}

}  // namespace
}  // namespace gantry
