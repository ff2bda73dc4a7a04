// Programs of which a part runs on the CPU beside an emulated GPU.
#include <gtest/gtest.h>

#include <cstdlib>

#include "host/ops/op.h"
#include "tests/cases/case_pack.h"
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
  const std::vector<ConstantPtr> actual = run_here(testing::gpu_test_target("+checks"))(graph, inputs);
  ASSERT_EQ(actual.size(), 2u);
  EXPECT_LE(testing::relative_error(*actual[0], *expected[0]), kTolerance);
  ASSERT_EQ(actual[1]->size, expected[1]->size);
  for (size_t i = 0; i < 600; ++i) EXPECT_EQ(actual[1]->as<int64_t>()[i], expected[1]->as<int64_t>()[i]) << i;
}

TEST(Placement, WhatATestRunsOnAGpuCanBeRunElsewhere) {
  if (std::getenv("GANTRY_TEST_RECORD") != nullptr) GTEST_SKIP() << "the others are being recorded";
  const testing::TemporaryDirectory folder;
  setenv("GANTRY_TEST_RECORD", folder.path().c_str(), 1);
  const Graph graph = parse_graph(
      "fn @main(%x: Tensor[(2, N), f32]) -> Tensor[(2, N), f32] {\n  %0 = exp(%x)\n  return %0\n}\n",
      op_set());
  const auto inputs = std::vector<ConstantPtr>{testing::random_tensor(DType::kF32, {2, 300}, 1)};
  const auto expected = run_here(testing::gpu_test_target())(graph, inputs);
  unsetenv("GANTRY_TEST_RECORD");
  const std::string name = "Placement.WhatATestRunsOnAGpuCanBeRunElsewhere";
  const auto recorded = conformance::CasePack::read(folder.path() / (name + ".pack")).load(name);
  const auto* bytes = reinterpret_cast<const std::byte*>(recorded.program.data());
  testing::LocalModel model({bytes, bytes + recorded.program.size()}, 1, "cuda-emulated");
  EXPECT_LE(worst_error(model.run(recorded.inputs), recorded.outputs), kTolerance);
  EXPECT_EQ(worst_error(recorded.outputs, expected), 0);
}

}  // namespace
}  // namespace gantry::end_to_end
