// Readings of the machine from the board's runtime to the client, through bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "rpc/client/convert.h"
#include "rpc/server/probe_reading.h"

namespace gantry::rpc {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// As the client sees it.
BenchmarkResult received(wire::BenchmarkFinishedT finished) {
  Bytes frame = encode_response(1, make_response(std::move(finished)));
  frame.erase(frame.begin(), frame.begin() + kFrameHeaderSize);
  return from_wire(std::move(*decode_response(frame).body.AsBenchmarkFinished()));
}

runtime::ProbeReading full_reading() {
  runtime::ProbeReading reading;
  reading.at_ms = 104.5;
  reading.clock_mhz = {1500, 1800.25};
  reading.temperature_c = 61.5;
  reading.throttle_count = int64_t{1} << 40;
  reading.throttled = true;
  reading.energy_j = 12.25;
  reading.power_w = 7.5;
  reading.others_share = 0.125;
  reading.steal_share = 0;
  reading.gpu.clock_mhz = 1980;
  reading.gpu.temperature_c = 44;
  reading.gpu.power_watts = 301.5;
  reading.gpu.throttled = false;
  return reading;
}

wire::BenchmarkFinishedT finished_with(const runtime::ProbeReading& reading) {
  runtime::MachineRecord record;
  record.readings = {reading};
  record.reading_cpus = {0, 3};
  record.probe_notes = {"energy: RAPL package-0", "throttled: frequency capped by thermal-cpufreq-0"};
  wire::BenchmarkFinishedT finished;
  add_machine(record, finished);
  return finished;
}

TEST(Readings, ArriveAsTheyWereMade) {
  const BenchmarkResult result = received(finished_with(full_reading()));
  ASSERT_EQ(result.readings.size(), 1u);
  const ProbeReading& reading = result.readings[0];
  EXPECT_EQ(reading.at_ms, 104.5);
  EXPECT_THAT(reading.clock_mhz, ElementsAre(1500, 1800.25));
  EXPECT_EQ(reading.temperature_celsius, 61.5);
  EXPECT_EQ(reading.throttle_events, std::int64_t{1} << 40);
  EXPECT_EQ(reading.throttled, true);
  EXPECT_EQ(reading.energy_joules, 12.25);
  EXPECT_EQ(reading.power_watts, 7.5);
  EXPECT_EQ(reading.others_share, 0.125);
  EXPECT_EQ(reading.steal_share, 0.0);
  EXPECT_EQ(reading.gpu_clock_mhz, 1980);
  EXPECT_EQ(reading.gpu_temperature_celsius, 44);
  EXPECT_EQ(reading.gpu_power_watts, 301.5);
  EXPECT_EQ(reading.gpu_throttled, false);
  EXPECT_THAT(result.reading_cpus, ElementsAre(0, 3));
  EXPECT_THAT(result.probe_notes,
              ElementsAre("energy: RAPL package-0", "throttled: frequency capped by thermal-cpufreq-0"));
}

TEST(Readings, ComeWithTheStatesOfOlderVersions) {
  runtime::MachineRecord record;
  record.before.frequency_mhz = 800;
  record.before.governor = "powersave";
  record.during.temperature_c = 70;
  record.after.throttle_count = 3;
  record.gpu_after.power_watts = 250;
  wire::BenchmarkFinishedT finished;
  add_machine(record, finished);
  const BenchmarkResult result = received(std::move(finished));
  EXPECT_THAT(result.cpu_before.frequency_mhz, ElementsAre(800));
  EXPECT_EQ(result.cpu_before.governor, "powersave");
  EXPECT_FALSE(result.cpu_before.temperature_celsius);
  EXPECT_EQ(result.cpu_during.temperature_celsius, 70);
  EXPECT_TRUE(result.cpu_during.frequency_mhz.empty());
  EXPECT_EQ(result.cpu_after.throttle_events, 3u);
  EXPECT_FALSE(result.gpu_before.power_watts);
  EXPECT_EQ(result.gpu_after.power_watts, 250);
}

TEST(Readings, StayAbsentWhereTheMachineShowsNothing) {
  const BenchmarkResult result = received(finished_with({}));
  ASSERT_EQ(result.readings.size(), 1u);
  const ProbeReading& reading = result.readings[0];
  EXPECT_TRUE(reading.clock_mhz.empty());
  EXPECT_FALSE(reading.temperature_celsius);
  EXPECT_FALSE(reading.throttle_events);
  EXPECT_FALSE(reading.throttled);
  EXPECT_FALSE(reading.energy_joules);
  EXPECT_FALSE(reading.power_watts);
  EXPECT_FALSE(reading.others_share);
  EXPECT_FALSE(reading.steal_share);
  EXPECT_FALSE(reading.gpu_clock_mhz);
  EXPECT_FALSE(reading.gpu_temperature_celsius);
  EXPECT_FALSE(reading.gpu_power_watts);
  EXPECT_FALSE(reading.gpu_throttled);
}

TEST(Readings, AreNoneFromABoardThatDoesNotKnowThem) {
  const BenchmarkResult result = received({});
  EXPECT_TRUE(result.readings.empty());
  EXPECT_TRUE(result.reading_cpus.empty());
  EXPECT_TRUE(result.probe_notes.empty());
}

TEST(Readings, ThatMakeNoSenseAreRefused) {
  const auto refused = [](auto change, const char* why) {
    wire::BenchmarkFinishedT finished = finished_with(full_reading());
    change(finished);
    try {
      from_wire(std::move(finished));
      ADD_FAILURE() << why;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kBug);
      EXPECT_THAT(error.what(), HasSubstr(why));
    }
  };
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  refused([&](auto& f) { f.readings[0]->at_ms = kNan; }, "a reading has no time");
  refused([&](auto& f) { f.readings[0]->temperature_celsius = kInfinity; }, "infinite");
  refused([&](auto& f) { f.readings[0]->gpu_power_watts = -kInfinity; }, "infinite");
  refused([&](auto& f) { f.readings[0]->clock_mhz[1] = kNan; }, "a clock is no number");
  refused([&](auto& f) { f.readings[0]->clock_mhz.push_back(1); }, "the clock of each CPU");
  refused([&](auto& f) { f.reading_cpus.assign(5000, 0); }, "too many readings");
  refused([&](auto& f) { f.probe_notes.resize(1001); }, "too many readings");
  refused(
      [&](auto& f) {
        while (f.readings.size() <= 100'000) f.readings.push_back(std::make_unique<wire::ProbeReadingT>());
      },
      "too many readings");
}

}  // namespace
}  // namespace gantry::rpc
