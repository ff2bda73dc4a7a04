#include "device_runtime/src/probes_energy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/device_runtime/fake_root.h"

namespace gantry::runtime {
namespace {

using testing::FakeRoot;

const std::string kRapl = "/sys/class/powercap/intel-rapl:";

TEST(Energy, SumsPackagesAndFollowsThemAround) {
  FakeRoot root;
  root.write_all(kRapl + "0",
                 {{"name", "package-0"}, {"energy_uj", "9000000"}, {"max_energy_range_uj", "10000000"}});
  root.write_all(kRapl + "1",
                 {{"name", "package-1"}, {"energy_uj", "100"}, {"max_energy_range_uj", "10000000"}});
  root.write_all("/sys/class/powercap/intel-rapl-mmio:0", {{"name", "package-0"}, {"energy_uj", "9000000"}});
  EnergyProbe energy(root.path());
  EXPECT_EQ(energy.read(0, nullptr).joules, 0);
  root.write(kRapl + "0/energy_uj", "2000000\n");
  root.write(kRapl + "1/energy_uj", "1000100\n");
  const EnergyReading reading = energy.read(500, nullptr);
  EXPECT_DOUBLE_EQ(*reading.joules, 3 + 1) << "one to the end of the range, two from its start";
  EXPECT_DOUBLE_EQ(*reading.watts, 8);
  root.write(kRapl + "0/energy_uj", "1000000\n");
  EXPECT_DOUBLE_EQ(*energy.read(1000, nullptr).joules, 3 + 9 + 1);
  EXPECT_EQ(energy.source(), "RAPL package-0, package-1");
}

TEST(Energy, IsUnknownOnceACounterWentBackForNoReason) {
  FakeRoot root;
  root.write_all(kRapl + "0", {{"name", "package-0"}, {"energy_uj", "9000000"}});
  EnergyProbe energy(root.path());
  EXPECT_TRUE(energy.read(0, nullptr).joules);
  root.write(kRapl + "0/energy_uj", "10\n");
  EXPECT_FALSE(energy.read(100, nullptr).joules);
  root.write(kRapl + "0/energy_uj", "9500000\n");
  EXPECT_FALSE(energy.read(200, nullptr).joules) << "what was missed stays unknown";
}

TEST(Energy, IsAbsentWhereRootAloneMayReadIt) {
  if (geteuid() == 0) GTEST_SKIP() << "root reads everything";
  FakeRoot root;
  root.write_all(kRapl + "0", {{"name", "package-0"}, {"energy_uj", "9000000"}});
  std::filesystem::permissions(root.path() + kRapl + "0/energy_uj", std::filesystem::perms::none);
  EnergyProbe energy(root.path());
  EXPECT_FALSE(energy.read(0, nullptr).joules);
  EXPECT_EQ(energy.source(), "");
}

TEST(Energy, PrefersSocketsToTheirCores) {
  FakeRoot root;
  root.write_all("/sys/class/hwmon/hwmon0", {{"name", "amdgpu"}, {"energy1_input", "77"}});
  root.write_all("/sys/class/hwmon/hwmon1", {{"name", "amd_energy"},
                                             {"energy1_label", "Ecore000"},
                                             {"energy1_input", "100"},
                                             {"energy2_label", "Esocket0"},
                                             {"energy2_input", "1000"}});
  EnergyProbe energy(root.path());
  energy.read(0, nullptr);
  root.write("/sys/class/hwmon/hwmon1/energy1_input", "900100\n");
  root.write("/sys/class/hwmon/hwmon1/energy2_input", "2001000\n");
  EXPECT_DOUBLE_EQ(*energy.read(1000, nullptr).joules, 2);
  EXPECT_EQ(energy.source(), "hwmon amd_energy Esocket0");
}

TEST(Energy, SumsLinesWhereNoneFeedsTheOthers) {
  FakeRoot root;
  root.write_all("/sys/class/hwmon/hwmon0", {{"name", "ina3221"},
                                             {"in1_label", "GPU"},
                                             {"in1_input", "19000"},
                                             {"curr1_input", "100"},
                                             {"in2_label", "CPU"},
                                             {"in2_input", "19000"},
                                             {"curr2_input", "200"}});
  root.write_all("/sys/class/hwmon/hwmon1", {{"name", "ina226"}, {"power1_input", "2500000"}});
  root.write_all("/sys/class/hwmon/hwmon2", {{"name", "BAT0"}, {"power1_input", "9000000"}});
  EnergyProbe energy(root.path());
  EXPECT_DOUBLE_EQ(*energy.read(0, nullptr).watts, 1.9 + 3.8 + 2.5);
  EXPECT_EQ(energy.source(), "ina3221 GPU, ina3221 CPU, ina226");
  root.remove("/sys/class/hwmon/hwmon0");
  EXPECT_EQ(EnergyProbe(root.path()).source(), "ina226");
}

TEST(Energy, KeepsToTheSameLines) {
  FakeRoot root;
  root.write_all("/sys/class/hwmon/hwmon0", {{"name", "ina226"}, {"power1_input", "2000000"}});
  EnergyProbe energy(root.path());
  energy.read(0, nullptr);
  root.write("/sys/class/hwmon/hwmon0/power1_input", "");
  const EnergyReading gap = energy.read(100, nullptr);
  EXPECT_FALSE(gap.joules);
  EXPECT_FALSE(gap.watts);
  root.write("/sys/class/hwmon/hwmon0/power1_input", "4000000\n");
  EXPECT_DOUBLE_EQ(*energy.read(1000, nullptr).joules, 3) << "a straight line over what was missed";
}

TEST(Energy, ReadsJetsonsOfOlderKernels) {
  FakeRoot root;
  root.write_all("/sys/bus/i2c/drivers/ina3221x/6-0040/iio:device0", {{"rail_name_0", "POM_5V_IN"},
                                                                      {"in_power0_input", "3500"},
                                                                      {"rail_name_1", "POM_5V_GPU"},
                                                                      {"in_power1_input", "40"},
                                                                      {"rail_name_2", "POM_5V_CPU"},
                                                                      {"in_power2_input", "900"}});
  EnergyProbe energy(root.path());
  EXPECT_DOUBLE_EQ(*energy.read(0, nullptr).watts, 3.5);
  EXPECT_EQ(energy.source(), "ina3221 POM_5V_IN");
}

TEST(Energy, IntegratesAGpusPowerWhereItCountsNoEnergy) {
  FakeRoot root;
  EnergyProbe energy(root.path());
  EnergyProbe::Gpu gpu{std::nullopt, 100};
  EXPECT_EQ(energy.read(0, &gpu).joules, 0);
  gpu.watts = 200;
  const EnergyReading reading = energy.read(1000, &gpu);
  EXPECT_DOUBLE_EQ(*reading.joules, 150);
  EXPECT_DOUBLE_EQ(*reading.watts, 200);
  EXPECT_EQ(energy.source(), "GPU");
  gpu.watts.reset();
  EXPECT_FALSE(energy.read(2000, &gpu).joules);
}

}  // namespace
}  // namespace gantry::runtime
