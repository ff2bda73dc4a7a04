// pad by copying, through the checking evaluator, against positions found by walking along the axis.
#include <gtest/gtest.h>

#include <numeric>

#include "host/ops/movement.h"
#include "tests/ops/run_nests.h"

namespace gantry::testing {
namespace {

/// The element that lies `steps` before the first: each step goes on, or turns round at the ends.
int64_t walked(PadMode mode, int64_t position, int64_t extent) {
  if (mode == PadMode::kEdge) return std::min(std::max<int64_t>(position, 0), extent - 1);
  if (mode == PadMode::kWrap) return ((position % extent) + extent) % extent;
  int64_t at = 0, direction = position < 0 ? -1 : 1;
  for (int64_t step = 0; step < std::abs(position); ++step) {
    if (at + direction < 0 || at + direction >= extent) direction = -direction;
    at += direction;
  }
  return at;
}

void check(PadMode mode, int64_t rows, int64_t columns, std::vector<int64_t> before,
           std::vector<int64_t> after) {
  SCOPED_TRACE(::testing::Message() << "mode " << static_cast<int>(mode) << ", " << rows << " x " << columns);
  auto attrs = std::make_shared<PadAttrs>();
  attrs->mode = mode;
  attrs->before = {before[0], before[1]};
  attrs->after = {after[0], after[1]};
  std::vector<float> data(static_cast<size_t>(rows * columns));
  std::iota(data.begin(), data.end(), 1.0F);
  const auto y = values_of<float>(
      run_nests("pad", attrs, {constant_of(DType::kF32, {rows, columns}, data)}, NestKind::kCpu).at(0));
  const int64_t height = rows + before[0] + after[0], width = columns + before[1] + after[1];
  ASSERT_EQ(static_cast<int64_t>(y.size()), height * width);
  for (int64_t i = 0; i < height; ++i) {
    for (int64_t j = 0; j < width; ++j) {
      const int64_t row = walked(mode, i - before[0], rows), column = walked(mode, j - before[1], columns);
      ASSERT_EQ(y[static_cast<size_t>(i * width + j)], data[static_cast<size_t>(row * columns + column)])
          << "at " << i << ", " << j;
    }
  }
}

TEST(Pad, CopiesFromShortAndLongRows) {
  for (PadMode mode : {PadMode::kEdge, PadMode::kReflect, PadMode::kWrap}) {
    for (int64_t columns : {5, 95, 96, 131}) {
      check(mode, 4, columns, {1, 3}, {2, 4});
      check(mode, 4, columns, {0, 4}, {0, 0});
      check(mode, 4, columns, {0, 0}, {3, 1});
      check(mode, 4, columns, {3, 0}, {1, 0});
    }
  }
}

TEST(Pad, WrapsAroundMoreThanOnce) {
  for (int64_t columns : {3, 96}) {
    check(PadMode::kWrap, 2, columns, {5, 0}, {4, 0});
    check(PadMode::kWrap, 2, columns, {0, 2 * columns + 1}, {0, columns + 2});
  }
}

}  // namespace
}  // namespace gantry::testing
