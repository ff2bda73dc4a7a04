#include "host/cli/statistics/estimate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "host/support/error.h"
#include "tests/cli/simulated_timings.h"

namespace gantry::cli {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

TEST(Estimate, QuantilesOfStudentAreThoseOfPrintedTables) {
  EXPECT_NEAR(t_quantile(0.95, 1), 12.706, 5e-4);
  EXPECT_NEAR(t_quantile(0.95, 4), 2.776, 5e-4);
  EXPECT_NEAR(t_quantile(0.99, 10), 3.169, 5e-4);
  EXPECT_NEAR(t_quantile(0.90, 30), 1.697, 5e-4);
  EXPECT_NEAR(t_quantile(0.95, kInfinite), 1.95996, 5e-6);
  EXPECT_THROW(t_quantile(1, 4), Error);
}

TEST(Estimate, MedianAndDeviationIgnoreAFarValue) {
  EXPECT_DOUBLE_EQ(median_of(std::vector<double>{4, 1, 3, 2}), 2.5);
  EXPECT_DOUBLE_EQ(median_of(std::vector<double>{1e9, 1, 3}), 3);
  // Distances from 3: 2 1 0 1 997, their median 1.
  EXPECT_NEAR(robust_deviation(std::vector<double>{1, 2, 3, 4, 1000}), 1.4826, 1e-4);
}

TEST(Estimate, PercentilesComeOnlyFromEnoughSamples) {
  std::vector<double> values(500);
  std::iota(values.begin(), values.end(), 1);
  EXPECT_NEAR(*percentile(values, 0.99), 495.01, 1e-9);
  EXPECT_NEAR(*percentile(values, 0.9), 450.1, 1e-9);
  const std::span<const double> all(values);
  EXPECT_FALSE(percentile(all.first(499), 0.99));
  EXPECT_TRUE(percentile(all.first(50), 0.9));
  EXPECT_FALSE(percentile(all.first(49), 0.9));
  EXPECT_FALSE(percentile(all.first(49), 0.1));
  EXPECT_TRUE(percentile(all.first(10), 0.5));
  EXPECT_FALSE(percentile({}, 0.5));
}

TEST(Estimate, MeanOfFewValuesIsThatOfTextbooks) {
  const Estimate e = robust_mean(std::vector<double>{1, 2, 3, 4, 10});
  EXPECT_DOUBLE_EQ(e.value, 4);
  EXPECT_DOUBLE_EQ(e.variance, 50.0 / 4 / 5);
  EXPECT_DOUBLE_EQ(e.degrees, 4);
}

// References: scipy 1.17, stats.trim_mean and the standard error in stats.ttest_ind, both with trim=1/6.
TEST(Estimate, MeanOfTwelveValuesIsTrimmedByTwoAtEachEnd) {
  const std::vector<double> values = {10.2, 9.7, 10.1, 9.9, 30.0, 10.4, 9.8, 10.0, 10.3, 2.0, 9.6, 10.6};
  const Estimate e = robust_mean(values);
  EXPECT_NEAR(e.value, 10.05, 1e-9);
  EXPECT_NEAR(std::sqrt(e.variance), 0.127475487839820, 1e-9);
  EXPECT_DOUBLE_EQ(e.degrees, 12 - 4 - 1 - 2);
}

// References: scipy 1.17, stats.ttest_ind(equal_var=False) of the same values.
TEST(Estimate, DifferenceHasTheDegreesOfWelchAndSatterthwaite) {
  const Estimate a = robust_mean(std::vector<double>{20.1, 20.5, 19.8, 21.0});
  const Estimate b = robust_mean(std::vector<double>{18.2, 22.9, 17.5, 24.1, 16.6, 19.9});
  const Estimate d = difference(a, b);
  EXPECT_NEAR(d.value / std::sqrt(d.variance), 0.3813215629561577, 1e-9);
  EXPECT_NEAR(d.degrees, 5.430772617545772, 1e-9);
}

TEST(Estimate, KnownVarianceAddsToTheVarianceAndItsDegrees) {
  const Estimate e = with_known_variance({5, 2, 3}, 2);
  EXPECT_DOUBLE_EQ(e.value, 5);
  EXPECT_DOUBLE_EQ(e.variance, 4);
  EXPECT_DOUBLE_EQ(e.degrees, 16 / (4.0 / 3));
  EXPECT_EQ(with_known_variance({5, 0, 3}, 0).degrees, kInfinite);
}

TEST(Estimate, IntervalsOfFewNormalValuesMissAsOftenAsTheySay) {
  SimulatedTimings timings(1);
  for (int count : {2, 3, 5, 8, 12, 20}) {
    constexpr int kTrials = 4000;
    int missed = 0;
    for (int trial = 0; trial < kTrials; ++trial) {
      std::vector<double> values(count);
      for (double& value : values) value = timings.normal();
      const Interval interval = t_interval(robust_mean(values), 0.95);
      missed += interval.low > 0 || interval.high < 0 ? 1 : 0;
    }
    EXPECT_LE(missed, most_of(kTrials, 0.05)) << count;
    EXPECT_GE(missed, kTrials / 50) << count << ": far too wide";
  }
}

}  // namespace
}  // namespace gantry::cli
