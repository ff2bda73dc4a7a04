// A product of integers whose every use is simplified away: nothing of it is computed, and the zeros come out.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "host/ops/op.h"
#include "tests/support/compiled_model.h"

namespace gantry {
namespace {

class UnreadProduct : public ::testing::TestWithParam<const char*> {};

TEST_P(UnreadProduct, TimesTheIntegerZeroIsZero) {
  const Graph graph = parse_graph(
      "fn @main(%x: Tensor[(9, 9), i64], %w: Tensor[(9, 9), i64]) -> Tensor[(9, 9), i64] {\n"
      "  %0 = matmul(%x, %w, transpose_a=true, transpose_b=true)\n"
      "  %1 = multiply(%0, const(i64, [], [0]))\n  return %1\n}\n",
      op_set(), {});
  const ConstantPtr x = testing::random_tensor(DType::kI64, {9, 9}, 1);
  const ConstantPtr y =
      testing::LocalModel(testing::compile_to_bytes(graph, {.target = GetParam()})).run({x, x}).at(0);
  ASSERT_EQ(y->size, 81 * sizeof(int64_t));
  EXPECT_TRUE(std::all_of(y->bytes, y->bytes + y->size, [](std::byte byte) { return byte == std::byte{0}; }));
}

INSTANTIATE_TEST_SUITE_P(Targets, UnreadProduct, ::testing::Values("native", "x86-64-v2"));

}  // namespace
}  // namespace gantry
