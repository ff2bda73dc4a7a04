#include "host/support/random.h"

#include <gtest/gtest.h>

#include <cmath>

namespace gantry {
namespace {

TEST(Random, NormalHasMeanZeroAndDeviationOne) {
  Random random(1, "x");
  constexpr int kCount = 200000;
  double sum = 0, squares = 0, fourth = 0;
  for (int i = 0; i < kCount; ++i) {
    const double v = random.normal();
    sum += v;
    squares += v * v;
    fourth += v * v * v * v;
  }
  EXPECT_NEAR(sum / kCount, 0, 0.01);
  EXPECT_NEAR(squares / kCount, 1, 0.02);
  // A sum of n uniforms has kurtosis 3 - 6/(5n).
  EXPECT_NEAR(fourth / kCount, 3 - 6.0 / 40, 0.1);
}

TEST(Random, UniformStaysInsideItsRangeAndFillsIt) {
  Random random(7, "x");
  double low = 1, high = 0;
  for (int i = 0; i < 10000; ++i) {
    const double v = random.uniform();
    ASSERT_GE(v, 0);
    ASSERT_LT(v, 1);
    low = std::min(low, v);
    high = std::max(high, v);
  }
  EXPECT_LT(low, 0.001);
  EXPECT_GT(high, 0.999);
}

TEST(Random, StreamsOfOneSeedDiffer) {
  EXPECT_NE(Random(1, "a").next(), Random(1, "b").next());
  EXPECT_NE(Random(1, "a").next(), Random(2, "a").next());
  EXPECT_EQ(Random(1, "a").next(), Random(1, "a").next());
}

}  // namespace
}  // namespace gantry
