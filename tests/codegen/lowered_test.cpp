// Schedules lowered, generated and run on this machine.
#include <gtest/gtest.h>

#include "host/loops/lower.h"
#include "tests/codegen/run_kernel.h"

namespace gantry {
namespace {

/// A matrix product with a register tile of rows x 32, whose tails do not divide.
LoopKernel tiled_product(int64_t m, int64_t n, int64_t depth, int64_t rows) {
  Tensor a = placeholder({m, depth}, DType::kF32, "a"), b = placeholder({depth, n}, DType::kF32, "b");
  auto k = reduce_axis(0, depth, "k");
  Tensor c = compute(
      {m, n},
      [&](auto i) {
        return sum(a({i[0], k->var}) * b({k->var, i[1]}), {k});
      },
      "c");
  Schedule schedule({c});
  Tensor tile = schedule.cache_write(c, StorageScope::kLocal);
  Stage& copy = schedule[c];
  auto [row_block, row] = copy.split(copy.axes()[0], rows);
  auto [column_block, column] = copy.split(copy.axes()[1], 32);
  auto [vector, lane] = copy.split(column, 16);
  copy.reorder({column_block, row_block, row, vector, lane});
  copy.vectorize(lane);
  copy.unroll(row);
  copy.parallel(column_block);
  Stage& product = schedule[tile];
  product.compute_at(copy, row_block);
  auto [tile_vector, tile_lane] = product.split(product.axes()[1], 16);
  product.reorder({product.reduce_axes()[0], product.axes()[0], tile_vector, tile_lane});
  product.unroll(product.axes()[0]);
  product.unroll(tile_vector);
  product.vectorize(tile_lane);
  return run_loop_passes(lower_schedule(schedule, {a, b}, "product"));
}

TEST(LoweredSchedule, OfATiledMatrixProductIsRightForEveryTail) {
  for (auto [m, n] : std::vector<std::pair<int64_t, int64_t>>{{12, 64}, {13, 64}, {12, 50}, {7, 5}}) {
    constexpr int64_t kDepth = 19;
    std::vector<float> a(static_cast<size_t>(m * kDepth)), b(static_cast<size_t>(kDepth * n)),
        c(static_cast<size_t>(m * n));
    for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 7) - 3;
    for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 5) - 2;
    ASSERT_EQ(run_kernel(tiled_product(m, n, kDepth, 6), {a.data(), b.data(), c.data()}), 0);
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        float expected = 0;
        for (int64_t k = 0; k < kDepth; ++k) expected += a[i * kDepth + k] * b[k * n + j];
        ASSERT_EQ(c[i * n + j], expected) << m << "x" << n << " at " << i << ", " << j;
      }
    }
  }
}

}  // namespace
}  // namespace gantry
