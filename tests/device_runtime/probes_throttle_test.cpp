#include "device_runtime/src/probes_throttle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/device_runtime/fake_root.h"

namespace gantry::runtime {
namespace {

using ::testing::ElementsAre;
using testing::FakeRoot;
using ::testing::IsEmpty;
using testing::kCpus;

TEST(Throttle, CountsACoreAndAPackageOnce) {
  FakeRoot root;
  // Two packages; CPUs 0 and 1 are siblings of one core and both count its events.
  const char* const packages[] = {"0", "0", "0", "1"};
  const char* const cores[] = {"0", "0", "1", "0"};
  const char* const counts[] = {"10", "10", "20", "40"};
  for (int cpu = 0; cpu < 4; ++cpu) {
    const std::string folder = kCpus + std::to_string(cpu);
    root.write_all(folder + "/topology", {{"physical_package_id", packages[cpu]}, {"core_id", cores[cpu]}});
    root.write_all(folder + "/thermal_throttle",
                   {{"core_throttle_count", counts[cpu]}, {"package_throttle_count", cpu < 3 ? "1" : "2"}});
  }
  const auto events = [&](std::vector<int> cpus) { return ThrottleProbe(root.path(), cpus).read().events; };
  EXPECT_EQ(events({0, 1, 2, 3}), 10 + 20 + 40 + 1 + 2);
  EXPECT_EQ(events({2}), 20 + 1);
  EXPECT_EQ(events({3}), 40 + 2);
  EXPECT_FALSE(events({9}));
}

TEST(Throttle, IsKnownFromCountersOnceTheyHaveBeenReadTwice) {
  FakeRoot root;
  root.write(kCpus + "0/thermal_throttle/core_throttle_count", "3\n");
  const int cpus[] = {0};
  ThrottleProbe probe(root.path(), cpus);
  EXPECT_FALSE(probe.read().throttled);
  EXPECT_EQ(probe.read().throttled, false);
  root.write(kCpus + "0/thermal_throttle/core_throttle_count", "4\n");
  const ThrottleReading reading = probe.read();
  EXPECT_EQ(reading.events, 4);
  EXPECT_EQ(reading.throttled, true);
  EXPECT_EQ(reading.reason, "thermal throttling counted by the CPU");
  EXPECT_EQ(probe.read().throttled, false);
}

TEST(Throttle, NamesTheCoolingDeviceThatCapsTheClock) {
  FakeRoot root;
  root.write_all("/sys/class/thermal/cooling_device0", {{"type", "pwm-fan"}, {"cur_state", "3"}});
  root.write_all("/sys/class/thermal/cooling_device1", {{"type", "thermal-cpufreq-0"}, {"cur_state", "0"}});
  root.write_all("/sys/class/thermal/cooling_device2", {{"type", "thermal-devfreq-0"}, {"cur_state", "5"}});
  root.write_all("/sys/class/thermal/cooling_device10", {{"type", "cpufreq-cpu4"}, {"cur_state", "0"}});
  ThrottleProbe probe(root.path(), {});
  ThrottleReading reading = probe.read();
  EXPECT_EQ(reading.throttled, false) << "fans and memory clocks are not CPUs'";
  EXPECT_EQ(reading.reason, "");
  EXPECT_FALSE(reading.events);
  root.write("/sys/class/thermal/cooling_device1/cur_state", "2\n");
  root.write("/sys/class/thermal/cooling_device10/cur_state", "1\n");
  reading = probe.read();
  EXPECT_EQ(reading.throttled, true);
  EXPECT_EQ(reading.reason, "frequency capped by thermal-cpufreq-0, frequency capped by cpufreq-cpu4");
}

TEST(Throttle, TellsACapThatCameFromOneThatWasChosen) {
  FakeRoot root;
  root.write_all(kCpus + "0/cpufreq", {{"scaling_max_freq", "1800000"}, {"cpuinfo_max_freq", "2400000"}});
  const int cpus[] = {0};
  ThrottleProbe probe(root.path(), cpus);
  EXPECT_THAT(probe.notes(),
              ElementsAre("clock: limited to 1800 of 2400 MHz before the run (scaling_max_freq)"));
  EXPECT_FALSE(probe.read().throttled);
  root.write(kCpus + "0/cpufreq/scaling_max_freq", "600000\n");
  const ThrottleReading reading = probe.read();
  EXPECT_EQ(reading.throttled, true);
  EXPECT_EQ(reading.reason, "frequency capped at 600 MHz (scaling_max_freq)");
}

TEST(Throttle, ShowsTheFirmwaresLimit) {
  FakeRoot root;
  root.write_all(
      kCpus + "0/cpufreq",
      {{"scaling_max_freq", "3600000"}, {"cpuinfo_max_freq", "3600000"}, {"bios_limit", "800000"}});
  const int cpus[] = {0};
  ThrottleProbe probe(root.path(), cpus);
  EXPECT_THAT(probe.notes(), IsEmpty());
  EXPECT_EQ(probe.read().reason, "frequency capped at 800 MHz by the firmware (bios_limit)");
}

TEST(Throttle, TakesTheLackOfBoostForNoLimit) {
  FakeRoot root;
  // acpi-cpufreq: what limits are set in knows no boost, the highest clock of the CPU does.
  root.write_all(kCpus + "0/cpufreq", {{"scaling_available_frequencies", "3400000 2800000 2200000 "},
                                       {"scaling_max_freq", "3400000"},
                                       {"bios_limit", "3400000"},
                                       {"cpuinfo_max_freq", "4900000"}});
  const int cpus[] = {0};
  ThrottleProbe probe(root.path(), cpus);
  EXPECT_THAT(probe.notes(), IsEmpty());
  const ThrottleReading reading = probe.read();
  EXPECT_FALSE(reading.throttled);
  EXPECT_EQ(reading.reason, "");
  root.write(kCpus + "0/cpufreq/bios_limit", "2200000\n");
  EXPECT_EQ(probe.read().reason, "frequency capped at 2200 MHz by the firmware (bios_limit)");
}

TEST(Throttle, NotesALimitBelowTheHighestStep) {
  FakeRoot root;
  root.write_all(kCpus + "0/cpufreq", {{"scaling_available_frequencies", "600000 1200000 1800000 "},
                                       {"scaling_max_freq", "1200000"},
                                       {"cpuinfo_max_freq", "2400000"}});
  const int cpus[] = {0};
  EXPECT_THAT(ThrottleProbe(root.path(), cpus).notes(),
              ElementsAre("clock: limited to 1200 of 1800 MHz before the run (scaling_max_freq)"));
}

TEST(Throttle, BelievesNoStepsThatCannotBeTrue) {
  for (const char* steps : {"", "<unsupported>", "-5", "99999999999999999999", "0"}) {
    FakeRoot root;
    root.write_all(kCpus + "0/cpufreq", {{"scaling_available_frequencies", steps},
                                         {"cpuinfo_max_freq", "3600000"},
                                         {"bios_limit", "800000"}});
    const int cpus[] = {0};
    EXPECT_EQ(ThrottleProbe(root.path(), cpus).read().reason,
              "frequency capped at 800 MHz by the firmware (bios_limit)")
        << steps;
  }
}

TEST(Throttle, SeesWhatHappenedBetweenReadingsOfARaspberryPi) {
  FakeRoot root;
  const std::string file = "/sys/devices/platform/soc/soc:firmware/get_throttled";
  root.write(file, "0x10000\n");  // under-voltage once, long ago
  ThrottleProbe probe(root.path(), {});
  EXPECT_EQ(probe.read().throttled, false);
  root.write(file, "0x50000\n");
  const ThrottleReading reading = probe.read();
  EXPECT_EQ(reading.throttled, true);
  EXPECT_EQ(reading.reason, "Raspberry Pi: throttled");
  EXPECT_EQ(probe.read().throttled, false) << "that was before";
  root.write(file, "0xa000a\n");
  EXPECT_EQ(probe.read().reason, "Raspberry Pi: frequency capped, Raspberry Pi: soft temperature limit");
}

TEST(Throttle, ReadsTheAlarmOfLowVoltageOfMainlineKernels) {
  FakeRoot root;
  root.write_all("/sys/class/hwmon/hwmon1", {{"name", "rpi_volt"}, {"in0_lcrit_alarm", "0"}});
  ThrottleProbe probe(root.path(), {});
  EXPECT_EQ(probe.read().throttled, false);
  root.write("/sys/class/hwmon/hwmon1/in0_lcrit_alarm", "1\n");
  EXPECT_EQ(probe.read().reason, "Raspberry Pi: under-voltage");
}

TEST(Throttle, AsksTheMailboxOfARaspberryPi) {
  FakeRoot root;
  root.write("/dev/vcio", "");
  static uint32_t answer;
  answer = 0x20002;
  const auto mailbox = [](int, unsigned long, void* argument) {
    auto* words = static_cast<uint32_t*>(argument);
    const bool as_documented = words[0] == 28 && words[1] == 0 && words[2] == 0x30046 && words[3] == 4 &&
                               words[4] == 0 && words[5] == 0 && words[6] == 0;
    if (!as_documented) return -1;
    words[1] = 0x80000000, words[4] = 0x80000004, words[5] = answer;
    return 0;
  };
  EXPECT_EQ(RaspberryFirmware(root.path(), mailbox).flags(), 0x20002u);
  const auto refuses = [](int, unsigned long, void*) { return -1; };
  EXPECT_FALSE(RaspberryFirmware(root.path(), refuses).flags());
  const auto knows_no_tag = [](int, unsigned long, void* argument) {
    static_cast<uint32_t*>(argument)[1] = 0x80000001;
    return 0;
  };
  EXPECT_FALSE(RaspberryFirmware(root.path(), knows_no_tag).flags());
  EXPECT_FALSE(RaspberryFirmware(root.path()).flags()) << "a file is no mailbox";
  EXPECT_FALSE(RaspberryFirmware("/nowhere").flags());
}

}  // namespace
}  // namespace gantry::runtime
