#include "host/cli/compare_statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "host/support/error.h"

namespace gantry::cli {
namespace {

/// Times as benchmarks have them: a floor and a right-skewed remainder.
std::vector<double> timings(std::mt19937_64& generator, size_t count, double scale) {
  std::lognormal_distribution<double> noise(-3, 0.5);
  std::vector<double> values;
  for (size_t i = 0; i < count; ++i) values.push_back(scale * (1 + noise(generator)));
  return values;
}

TEST(CompareStatistics, IntervalHoldsTheTrueRatioAboutAsOftenAsItSays) {
  std::mt19937_64 generator(1);
  for (size_t count : {20u, 60u}) {
    int covered = 0;
    constexpr int kTrials = 150;
    for (int trial = 0; trial < kTrials; ++trial) {
      const Comparison c = compare_samples(timings(generator, count, 10), timings(generator, count, 12));
      covered += c.low <= 1.2 && 1.2 <= c.high ? 1 : 0;
    }
    // 95 % nominal; a fair binomial of 150 stays above 0.90 but for one time in a hundred.
    EXPECT_GE(covered, static_cast<int>(0.89 * kTrials)) << count;
  }
}

TEST(CompareStatistics, EqualDistributionsSeldomDiffer) {
  std::mt19937_64 generator(2);
  int differences = 0;
  constexpr int kTrials = 150;
  for (int trial = 0; trial < kTrials; ++trial) {
    const Comparison c = compare_samples(timings(generator, 30, 5), timings(generator, 30, 5));
    differences += c.verdict != Verdict::kNoDifference ? 1 : 0;
  }
  EXPECT_LE(differences, static_cast<int>(0.11 * kTrials));
}

TEST(CompareStatistics, VerdictNamesTheDirection) {
  std::mt19937_64 generator(3);
  const auto slow = timings(generator, 30, 10), fast = timings(generator, 30, 8);
  EXPECT_EQ(compare_samples(slow, fast).verdict, Verdict::kFaster);
  EXPECT_EQ(compare_samples(fast, slow).verdict, Verdict::kSlower);
  EXPECT_NEAR(compare_samples(slow, fast).ratio, 0.8, 0.03);
  EXPECT_EQ(compare_samples(slow, slow).verdict, Verdict::kNoDifference);
}

TEST(CompareStatistics, SameSamplesGiveTheSameInterval) {
  std::mt19937_64 generator(4);
  const auto a = timings(generator, 25, 1), b = timings(generator, 25, 1);
  const Comparison first = compare_samples(a, b), second = compare_samples(a, b);
  EXPECT_EQ(first.low, second.low);
  EXPECT_EQ(first.high, second.high);
}

TEST(CompareStatistics, ConstantSamplesHaveAPointInterval) {
  const std::vector<double> a(8, 2.0), b(8, 3.0);
  const Comparison c = compare_samples(a, b);
  EXPECT_DOUBLE_EQ(c.ratio, 1.5);
  EXPECT_DOUBLE_EQ(c.low, 1.5);
  EXPECT_DOUBLE_EQ(c.high, 1.5);
}

TEST(CompareStatistics, TooFewOrImpossibleSamplesAreUserErrors) {
  const std::vector<double> few(4, 1.0), enough(5, 1.0), zero(5, 0.0);
  EXPECT_THROW(compare_samples(few, enough), Error);
  EXPECT_THROW(compare_samples(enough, few), Error);
  EXPECT_THROW(compare_samples(zero, enough), Error);
}

TEST(CompareStatistics, PercentilesInterpolate) {
  const std::vector<double> values = {4, 1, 3, 2};
  EXPECT_DOUBLE_EQ(median_of(values), 2.5);
  EXPECT_DOUBLE_EQ(percentile_of(values, 0), 1);
  EXPECT_DOUBLE_EQ(percentile_of(values, 1), 4);
  EXPECT_DOUBLE_EQ(percentile_of(values, 0.9), 3.7);
}

}  // namespace
}  // namespace gantry::cli
