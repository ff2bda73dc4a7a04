#include "host/cli/statistics/samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "host/cli/statistics/median_interval.h"
#include "host/support/error.h"
#include "tests/cli/simulated_timings.h"

namespace gantry::cli {
namespace {

/// How often the interval of one process misses that process's own median.
int misses(SimulatedTimings& timings, const Scatter& scatter, int samples, int trials) {
  int missed = 0;
  for (int trial = 0; trial < trials; ++trial) {
    const MedianInterval m = median_interval(timings.processes(scatter, 1, samples));
    missed += m.low_ms > 10 || m.high_ms < 10 ? 1 : 0;
  }
  return missed;
}

TEST(SamplesOfOneProcess, IntervalHoldsWhereNeighboursResembleEachOther) {
  SimulatedTimings timings(1);
  constexpr int kTrials = 600;
  for (double correlation : {0.0, 0.5, 0.8}) {
    for (int samples : {5, 10, 20, 50, 100}) {
      const Scatter scatter{.between = 0, .within = 0.02, .correlation = correlation};
      EXPECT_LE(misses(timings, scatter, samples, kTrials), most_of(kTrials, 0.05))
          << correlation << ", " << samples << " samples";
    }
  }
}

TEST(SamplesOfOneProcess, IntervalOfManyIndependentSamplesIsTight) {
  SimulatedTimings timings(2);
  std::vector<double> widths;
  for (int trial = 0; trial < 101; ++trial) {
    const Scatter scatter{.between = 0, .within = 0.02};
    widths.push_back(median_interval(timings.processes(scatter, 1, 100)).relative_half_width());
  }
  // 1.96 * 1.253 * 0.02 / sqrt(100) = 0.0049 where independence is known.
  EXPECT_LT(median_of(widths), 0.008);
  EXPECT_GT(median_of(widths), 0.0049);
}

TEST(SamplesOfOneProcess, SlowSamplesDoNotHideThatNeighboursResembleEachOther) {
  SimulatedTimings timings(3);
  constexpr int kTrials = 600;
  // Slow samples shift the median as well: by 0.04 deviations for 3 in 100, well within the interval.
  const Scatter scatter{.between = 0, .within = 0.02, .correlation = 0.8, .slow_samples = 0.03};
  for (int samples : {50, 100, 200})
    EXPECT_LE(misses(timings, scatter, samples, kTrials), most_of(kTrials, 0.05)) << samples;
}

TEST(SamplesOfOneProcess, ConstantSamplesHaveAPoint) {
  const Estimate e = log_median_within({std::vector<double>(10, 2.0)}, "the result");
  EXPECT_DOUBLE_EQ(e.value, std::log(2.0));
  EXPECT_EQ(e.variance, 0);
}

TEST(SamplesOfOneProcess, ManyThousandSamplesHaveAnIntervalToo) {
  SimulatedTimings timings(4);
  const MedianInterval m = median_interval(timings.processes({.between = 0}, 1, 20000));
  EXPECT_LT(m.relative_half_width(), 0.001);
  EXPECT_GT(m.relative_half_width(), 0.0001);
}

TEST(SamplesOfOneProcess, TooFewOrImpossibleSamplesAreUserErrorsThatNameTheResult) {
  const auto message = [](const ProcessSamples& samples) -> std::string {
    try {
      log_median_within(samples, "the second result");
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUser);
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message({{1, 1, 1, 1}}), testing::HasSubstr("the second result has 4 samples;"));
  EXPECT_THAT(message({{1}}), testing::HasSubstr("the second result has 1 sample;"));
  EXPECT_THAT(message({{1, 1, 0, 1, 1}}), testing::HasSubstr("the second result: 0 ms"));
  EXPECT_THAT(message({{1, 1, NAN, 1, 1}}), testing::HasSubstr("the second result: nan ms"));
  EXPECT_THROW(log_median({}, "the second result"), Error);
}

}  // namespace
}  // namespace gantry::cli
