// Programs of which a part runs on the CPU beside an emulated GPU.
#include <gtest/gtest.h>

#include "host/ops/op.h"
#include "tests/end_to_end/networks.h"
#include "tests/support/compiled_model.h"

namespace gantry::end_to_end {
namespace {

TEST(Placement, ValuesCrossBetweenTheDevicesAndComeBack) {
  // Rows of unknown length are sorted on the CPU if k may be large.
  const Graph graph = parse_graph(
      R"(fn @main(%x: Tensor[(2, N), f32], %w: Tensor[(K, 3), f32]) -> (Tensor[(2, 3), f32], Tensor[(2, min(10000, N)), i64]) {
  %0 = exp(%x)
  %1, %2 = topk(%0, axis=1, k=10000)
  %3 = log(%1)
  %4 = matmul(%3, %w)
  return %4, %2
}
)",
      op_set());
  const std::vector<ConstantPtr> inputs{testing::random_tensor(DType::kF32, {2, 300}, 1),
                                        testing::random_tensor(DType::kF32, {300, 3}, 2)};
  const std::vector<ConstantPtr> expected = run_here()(graph, inputs);
  const std::vector<ConstantPtr> actual = run_here("cuda-emulated:sm_80+checks")(graph, inputs);
  ASSERT_EQ(actual.size(), 2u);
  EXPECT_LE(testing::relative_error(*actual[0], *expected[0]), kTolerance);
  ASSERT_EQ(actual[1]->size, expected[1]->size);
  for (size_t i = 0; i < 600; ++i) EXPECT_EQ(actual[1]->as<int64_t>()[i], expected[1]->as<int64_t>()[i]) << i;
}

}  // namespace
}  // namespace gantry::end_to_end
