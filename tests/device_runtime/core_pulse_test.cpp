#include "device_runtime/src/core_pulse.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "device_runtime/src/pulse_log.h"

namespace gantry::runtime {
namespace {

TEST(CorePulse, EveryThreadHasAValueAndTheOuterOnesAreTheBeats) {
  for (int threads : {1, 3}) {
    auto pool = ThreadPool::create(threads, {});
    ASSERT_TRUE(pool.ok());
    auto pulse = CorePulse::create(**pool);
    if (!pulse) GTEST_SKIP() << "emulated, or cores of several kinds: nothing to be seen by pulses";
    for (int i = 0; i < 3; ++i) {
      const auto value = pulse->beat();
      ASSERT_TRUE(value.has_value());
      ASSERT_EQ(pulse->by_thread().size(), static_cast<size_t>(threads));
      double highest = 0, lowest = INFINITY;
      for (double own : pulse->by_thread()) {
        EXPECT_TRUE(std::isfinite(own) && own > 0) << own;
        highest = std::max(highest, own);
        lowest = std::min(lowest, own);
      }
      EXPECT_EQ(value->highest, highest);
      EXPECT_TRUE(value->lowest == lowest || value->lowest == highest);  // cores of several kinds
    }
  }
}

TEST(CorePulse, NoneIsMadeFromInsideOfALoopOfThePool) {
  auto pool = ThreadPool::create(2, {});
  ASSERT_TRUE(pool.ok());
  auto pulse = CorePulse::create(**pool);
  if (!pulse) GTEST_SKIP() << "emulated, or cores of several kinds: nothing to be seen by pulses";
  const auto body = [](void* closure, int64_t, int64_t) {
    return static_cast<CorePulse*>(closure)->beat().has_value() ? int32_t{1} : int32_t{0};
  };
  EXPECT_EQ((*pool)->parallel_for(body, &*pulse, 4), 0);
}

TEST(PulseLog, ThinsOutWhatIsMoreThanAReportHasRoomFor) {
  auto pool = ThreadPool::create(1, {});
  ASSERT_TRUE(pool.ok());
  auto pulse = CorePulse::create(**pool);
  if (!pulse) GTEST_SKIP() << "emulated, or cores of several kinds: nothing to be seen by pulses";
  PulseLog log(*pulse);
  log.begin();
  for (size_t i = 0; i < PulseLog::kMostPulses; ++i) log.finish();
  const std::vector<PulseReading> readings = log.take();
  ASSERT_EQ(readings.size(), PulseLog::kMostPulses / 2 + 1);
  for (size_t i = 1; i < readings.size(); ++i) EXPECT_GT(readings[i].at_ms, readings[i - 1].at_ms);
}

TEST(PulseLog, WithoutAPulseHasNone) {
  PulseLog log;
  log.begin();
  log.look();
  log.finish();
  EXPECT_TRUE(log.take().empty());
}

}  // namespace
}  // namespace gantry::runtime
