#include "device_runtime/src/reading_log.h"

#include <gtest/gtest.h>

namespace gantry::runtime {
namespace {

ProbeReading at(double ms) {
  ProbeReading reading;
  reading.at_ms = ms;
  return reading;
}

TEST(ReadingLog, SumsUpWhatReadingsShow) {
  ReadingLog log(2);
  ProbeReading first = at(0);
  first.clock_mhz = {800, 800};  // idle: it stands for no time of the run
  first.temperature_c = 50, first.throttle_count = 7, first.energy_j = 0;
  log.add(first, 0, 0);
  ProbeReading second = at(100);
  second.clock_mhz = {2000, 3000};
  second.temperature_c = 71, second.throttle_count = 7, second.throttled = false, second.energy_j = 2;
  log.add(second, 100, 100);
  ProbeReading third = at(400);
  third.clock_mhz = {1000, 1000};
  third.temperature_c = 65, third.throttle_count = 10, third.throttled = true, third.energy_j = 9;
  third.others_share = 0.25;
  log.add(third, 400, 400);
  const ReadingSummary summary = log.summary();
  EXPECT_DOUBLE_EQ(*summary.mean_clock_mhz, (2500 * 100 + 1000 * 300) / 400.0);
  EXPECT_EQ(summary.highest_temperature_c, 71);
  EXPECT_EQ(summary.throttle_events, 3);
  EXPECT_EQ(summary.throttled, true);
  EXPECT_EQ(summary.energy_j, 9);
  EXPECT_EQ(summary.others_share, 0.25);
  EXPECT_FALSE(summary.steal_share);
}

TEST(ReadingLog, IsSilentOnWhatNoReadingShows) {
  ReadingLog log(1);
  log.add(at(0), 0, 0);
  log.add(at(100), 100, 100);
  const ReadingSummary summary = log.summary();
  EXPECT_FALSE(summary.mean_clock_mhz);
  EXPECT_FALSE(summary.highest_temperature_c);
  EXPECT_FALSE(summary.throttle_events);
  EXPECT_FALSE(summary.throttled);
  EXPECT_FALSE(summary.energy_j);
  EXPECT_FALSE(summary.others_share);
}

TEST(ReadingLog, LeavesATenthOfASecondBetweenReadingsAndMoreWhereTheyAreSlow) {
  ReadingLog log(1);
  EXPECT_TRUE(log.is_due(5000));
  log.add(at(0), 5000, 5001);
  EXPECT_FALSE(log.is_due(5100));
  EXPECT_TRUE(log.is_due(5101));
  log.add(at(101), 5101, 5131);
  EXPECT_FALSE(log.is_due(5131 + 20 * 30 - 1));
  EXPECT_TRUE(log.is_due(5131 + 20 * 30));
}

TEST(ReadingLog, CoversALongRunWithAsManyReadingsAsAReportHolds) {
  for (const size_t cpus : {size_t{1}, size_t{64}, size_t{4096}}) {
    ReadingLog log(cpus);
    double now = 0;
    int added = 0;
    for (; now < 3.6e6; now += 10) {
      if (!log.is_due(now)) continue;
      ProbeReading reading = at(now);
      reading.others_share = 0.5;
      if (added == 1) reading.throttled = true;
      log.add(reading, now, now);
      ++added;
      ASSERT_LE(log.readings().size(), log.capacity());
    }
    EXPECT_GE(log.readings().size(), log.capacity() / 3);
    EXPECT_LE(log.capacity() * (128 + 8 * cpus), std::max<size_t>(96u << 10, 16 * (128 + 8 * cpus)));
    EXPECT_EQ(log.readings().front().at_ms, 0);
    EXPECT_GT(log.readings().back().at_ms, 3e6);
    bool throttled = false;
    for (size_t i = 1; i < log.readings().size(); ++i) {
      EXPECT_GT(log.readings()[i].at_ms, log.readings()[i - 1].at_ms);
      EXPECT_DOUBLE_EQ(*log.readings()[i].others_share, 0.5);
      throttled = throttled || log.readings()[i].throttled == true;
    }
    EXPECT_TRUE(throttled) << "what was left out has told its neighbour";
    EXPECT_DOUBLE_EQ(*log.summary().others_share, 0.5);
  }
}

}  // namespace
}  // namespace gantry::runtime
