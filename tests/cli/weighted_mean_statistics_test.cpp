#include "host/cli/statistics/weighted_mean.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/cli/simulated_timings.h"

namespace gantry::cli {
namespace {

// References: statsmodels 0.15, robust.norms.estimate_location with TukeyBiweight(6) and the normalised
// median deviation as scale; of the error and the degrees the definitions in NumPy, with a numeric
// derivative.
TEST(WeightedMean, OfEquallyGoodValuesIsTheBiweight) {
  const std::vector<double> values = {10.2, 9.7, 10.1, 9.9, 30.0, 10.4, 9.8, 10.0, 10.3, 2.0, 9.6, 10.6};
  const Estimate e = weighted_mean(values, std::vector<double>(values.size(), 0.04));
  EXPECT_NEAR(e.value, 10.0586053602239, 1e-9);
  EXPECT_NEAR(std::sqrt(e.variance), 0.103216985877743, 1e-7);
  EXPECT_NEAR(e.degrees, 8.2382146, 1e-5);
}

// Reference: the root of the estimating equation by SciPy's brentq, the rest from the definitions in NumPy.
TEST(WeightedMean, ValuesWhoseMeasurementScattersCountLess) {
  const std::vector<double> values = {0.031, 0.019, 0.035, 0.031, 0.014, 0.043, 0.02, 0.05, -0.12, 0.023};
  std::vector<double> variances;
  for (double error : {8, 8, 5, 3, 1, 8, 19, 32, 19, 12}) variances.push_back(error * error * 1e-6);
  const Estimate e = weighted_mean(values, variances);
  EXPECT_NEAR(e.value, 0.027307869781374, 1e-9);
  EXPECT_NEAR(std::sqrt(e.variance), 0.004171278437207, 1e-8);
  EXPECT_NEAR(e.degrees, 5.1758169, 1e-5);
}

TEST(WeightedMean, EqualValuesAreAnEstimateToo) {
  const std::vector<double> values(8, 3.0), variances(8, 0.0);
  const Estimate e = weighted_mean(values, variances);
  EXPECT_DOUBLE_EQ(e.value, 3);
  EXPECT_DOUBLE_EQ(e.variance, 0);
}

TEST(WeightedMean, TwoHeapsOfValuesHaveAFiniteIntervalThatHoldsBoth) {
  const std::vector<double> values = {1, 1, 1, 1, 2, 2, 2, 2}, variances(8, 0.0);
  const Interval interval = t_interval(weighted_mean(values, variances), 0.95);
  EXPECT_LT(interval.low, 1.1);
  EXPECT_GT(interval.high, 1.9);
  EXPECT_TRUE(std::isfinite(interval.low) && std::isfinite(interval.high));
}

TEST(WeightedMean, IntervalsOfNormalValuesMissAsOftenAsTheySay) {
  SimulatedTimings timings(1);
  // Measurements that are equally good, and such that are not, as a machine that is disturbed at times makes
  // them.
  for (const bool equal : {true, false}) {
    for (int count : {8, 12, 20}) {
      constexpr int kTrials = 4000;
      int missed = 0;
      for (int trial = 0; trial < kTrials; ++trial) {
        std::vector<double> values, variances;
        for (int i = 0; i < count; ++i) {
          const double within = equal ? 1 : std::exp(timings.normal());
          values.push_back(0.5 * timings.normal() + within * timings.normal());
          variances.push_back(within * within);
        }
        const Interval interval = t_interval(weighted_mean(values, variances), 0.95);
        missed += interval.low > 0 || interval.high < 0 ? 1 : 0;
      }
      EXPECT_LE(missed, most_of(kTrials, 0.055)) << count << (equal ? ", alike" : ", unlike");
      EXPECT_GE(missed, kTrials / 100) << count << ": far too wide";
    }
  }
}

}  // namespace
}  // namespace gantry::cli
