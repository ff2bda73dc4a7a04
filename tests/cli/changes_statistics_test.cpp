#include "host/cli/statistics/changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>

#include "host/support/error.h"
#include "tests/cli/simulated_timings.h"

namespace gantry::cli {
namespace {

using Level = std::function<double(int)>;

Level step(int at, double ratio) {
  return [=](int point) { return point < at ? 1.0 : ratio; };
}

/// Points of 3 processes each; a share of the points is 5 to 35 % slower.
std::vector<SeriesPoint> series(SimulatedTimings& timings, int points, const Level& level,
                                double outliers = 0) {
  std::vector<SeriesPoint> result;
  for (int i = 0; i < points; ++i) {
    const double slow = timings.uniform() < outliers ? 0.05 + 0.3 * timings.uniform() : 0;
    const double ms = 10 * level(i) * std::exp(0.01 * timings.normal() + slow);
    result.push_back({"day " + std::to_string(i), "commit " + std::to_string(i), {ms * 0.999, ms, ms * 1.2}});
  }
  return result;
}

constexpr int kTrials = 100;

TEST(Changes, ALevelSeriesSeldomHasOne) {
  SimulatedTimings timings(1);
  for (double outliers : {0.0, 0.05}) {
    for (int points : {9, 20, 50}) {
      int found = 0;
      for (int trial = 0; trial < 2 * kTrials; ++trial)
        found += find_changes(series(timings, points, step(points, 1), outliers)).empty() ? 0 : 1;
      EXPECT_LE(found, most_of(2 * kTrials, 0.03)) << points << " points, outliers " << outliers;
    }
  }
}

TEST(Changes, ALastingStepIsFoundWhereItIs) {
  SimulatedTimings timings(2);
  // Points from the step on -> the least share of series in which it is found.
  for (const auto& [after, least] : std::map<int, double>{{25, 0.95}, {8, 0.9}, {5, 0.75}}) {
    int found = 0, covered = 0;
    for (int trial = 0; trial < kTrials; ++trial) {
      const auto changes = find_changes(series(timings, 50, step(50 - after, 1.03), 0.03));
      for (const Change& change : changes) {
        if (std::abs(static_cast<int>(change.index) - (50 - after)) > 2) continue;
        ++found;
        covered += change.low <= 1.03 && 1.03 <= change.high ? 1 : 0;
        EXPECT_EQ(change.date, "day " + std::to_string(change.index));
        EXPECT_EQ(change.label, "commit " + std::to_string(change.index));
        EXPECT_LE(change.p_value, 0.03);
        break;
      }
    }
    EXPECT_GE(found, least * kTrials) << after;
    EXPECT_GE(covered, 0.85 * found) << after;
  }
}

TEST(Changes, ARegressionAndItsRepairAreTwoChanges) {
  SimulatedTimings timings(3);
  const auto changes =
      find_changes(series(timings, 60, [](int point) { return point >= 20 && point < 40 ? 1.06 : 1.0; }));
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_EQ(changes[0].index, 20u);
  EXPECT_NEAR(changes[0].ratio, 1.06, 0.015);
  EXPECT_NEAR(changes[0].before_ms, 10, 0.15);
  EXPECT_NEAR(changes[0].after_ms, 10.6, 0.15);
  EXPECT_EQ(changes[1].index, 40u);
  EXPECT_NEAR(changes[1].ratio, 1 / 1.06, 0.015);
  EXPECT_EQ(changes[0].after_ms, changes[1].before_ms);
}

TEST(Changes, ASingleSlowPointIsNone) {
  SimulatedTimings timings(4);
  int found = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    found +=
        find_changes(series(timings, 50, [](int point) { return point == 30 ? 1.5 : 1.0; })).empty() ? 0 : 1;
  }
  EXPECT_LE(found, most_of(kTrials, 0.03));
}

TEST(Changes, ASlowPointDoesNotHideAStep) {
  SimulatedTimings timings(5);
  int found = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    const auto level = [](int point) { return point == 10 ? 3.0 : point < 30 ? 1.0 : 1.03; };
    found += find_changes(series(timings, 50, level)).empty() ? 0 : 1;
  }
  EXPECT_GE(found, 0.95 * kTrials);
}

TEST(Changes, SmallOnesAreNotReported) {
  SimulatedTimings timings(6);
  const auto points = series(timings, 200, step(100, 1.008));
  EXPECT_TRUE(find_changes(points).empty());
  EXPECT_FALSE(find_changes(points, {.smallest_effect = 0.001}).empty());
}

TEST(Changes, ShortAndConstantSeriesHaveNone) {
  SimulatedTimings timings(7);
  EXPECT_TRUE(find_changes({}).empty());
  EXPECT_TRUE(find_changes(series(timings, 8, step(4, 2))).empty());
  EXPECT_EQ(find_changes(series(timings, 9, step(5, 2))).size(), 1u);
  EXPECT_TRUE(find_changes(std::vector<SeriesPoint>(30, {"day", "commit", {5.0}})).empty());
}

TEST(Changes, TheSameSeriesGivesTheSameChanges) {
  SimulatedTimings timings(8);
  const auto points = series(timings, 50, step(40, 1.03), 0.05);
  const auto first = find_changes(points), second = find_changes(points);
  ASSERT_EQ(first.size(), second.size());
  for (size_t i = 0; i < first.size(); ++i) EXPECT_EQ(first[i].p_value, second[i].p_value);
}

TEST(Changes, APointWithoutTimesIsAUserErrorThatNamesIt) {
  SimulatedTimings timings(9);
  auto points = series(timings, 12, step(12, 1));
  points[7].process_medians_ms.clear();
  try {
    find_changes(points);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("day 7 (commit 7)"));
  }
  points[7].process_medians_ms = {1, -1};
  EXPECT_THROW(find_changes(points), Error);
}

}  // namespace
}  // namespace gantry::cli
