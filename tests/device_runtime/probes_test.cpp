// Probes, and what memory there is, on machines of other kinds, each a folder of files.
#include "device_runtime/src/probes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>

#include "device_runtime/src/memory.h"
#include "tests/device_runtime/fake_root.h"

namespace gantry::runtime {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using testing::FakeRoot;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kCpus;
using ::testing::Not;

double own_seconds = 0;  // what the process under test "has used"

Probes make_probes(const FakeRoot& root, std::vector<int> cpus) {
  own_seconds = 0;
  return Probes(
      {.root = root.path(), .cpus = std::move(cpus), .own_cpu_seconds = [] { return own_seconds; }});
}

void write_intel(FakeRoot& root) {
  for (int cpu = 0; cpu < 4; ++cpu) {
    const std::string folder = kCpus + std::to_string(cpu);
    root.write_all(folder + "/cpufreq", {{"scaling_cur_freq", cpu == 1 ? "3600000" : "2100000"},
                                         {"scaling_max_freq", "3900000"},
                                         {"cpuinfo_max_freq", "3900000"},
                                         {"scaling_governor", "powersave"}});
    root.write_all(folder + "/topology",
                   {{"physical_package_id", "0"}, {"core_id", cpu % 2 == 0 ? "0" : "1"}});
    root.write_all(folder + "/thermal_throttle",
                   {{"core_throttle_count", cpu % 2 == 0 ? "5" : "2"}, {"package_throttle_count", "7"}});
  }
  root.write_all("/sys/class/hwmon/hwmon0", {{"name", "nvme"}, {"temp1_input", "88000"}});
  root.write_all("/sys/class/hwmon/hwmon1", {{"name", "coretemp"},
                                             {"temp1_input", "61000"},
                                             {"temp1_label", "Package id 0"},
                                             {"temp2_input", "60000"},
                                             {"temp2_label", "Core 0"}});
  root.write_all("/sys/class/thermal/thermal_zone0", {{"type", "acpitz"}, {"temp", "95000"}});
  root.write_all("/sys/class/powercap/intel-rapl:0",
                 {{"name", "package-0"}, {"energy_uj", "1000000"}, {"max_energy_range_uj", "262143328850"}});
  root.write_all("/sys/class/powercap/intel-rapl:0:0", {{"name", "core"}, {"energy_uj", "400000"}});
  root.write_all("/sys/class/powercap/intel-rapl:1", {{"name", "psys"}, {"energy_uj", "900000"}});
  root.write("/proc/stat", "cpu  1000 0 500 8000 100 0 0 0 0 0\ncpu0 1 2 3 4\n");
  root.write("/proc/loadavg", "0.42 0.50 0.60 1/200 1234\n");
}

TEST(Probes, ReadAnIntelLaptop) {
  FakeRoot root;
  write_intel(root);
  Probes probes = make_probes(root, {0, 1});
  const ProbeReading first = probes.read(5000);
  EXPECT_EQ(first.at_ms, 0);
  EXPECT_THAT(first.clock_mhz, ElementsAre(2100, 3600));
  EXPECT_EQ(first.temperature_c, 61);
  EXPECT_EQ(first.throttle_count, 5 + 2 + 7);
  EXPECT_EQ(first.energy_j, 0);
  EXPECT_FALSE(first.power_w);
  EXPECT_FALSE(first.others_share);
  root.write("/sys/class/powercap/intel-rapl:0/energy_uj", "7000000\n");
  root.write("/proc/stat", "cpu  1300 0 600 8500 100 0 0 100 0 0\n");
  own_seconds = 2.5;  // of 100 ticks each, as on every Linux
  const ProbeReading second = probes.read(5400);
  EXPECT_DOUBLE_EQ(second.at_ms, 400);
  EXPECT_DOUBLE_EQ(*second.energy_j, 6);
  EXPECT_DOUBLE_EQ(*second.power_w, 15);
  EXPECT_EQ(second.throttled, false);
  // Of 1000 ticks, 400 were busy, 250 by this process, and 100 stolen.
  EXPECT_DOUBLE_EQ(*second.others_share, 0.15);
  EXPECT_DOUBLE_EQ(*second.steal_share, 0.1);
  EXPECT_THAT(probes.notes(), ElementsAre("temperature: hwmon coretemp", "energy: RAPL package-0",
                                          "load: 0.42 tasks in the minute before the run"));
  const CpuState state = probes.cpu_state(first);
  EXPECT_EQ(state.frequency_mhz, 2850);
  EXPECT_EQ(state.max_frequency_mhz, 3900);
  EXPECT_EQ(state.governor, "powersave");
  EXPECT_EQ(state.temperature_c, 61);
  EXPECT_EQ(state.throttle_count, 14);
}

TEST(Probes, ReadAnAmdDesktop) {
  FakeRoot root;
  for (int cpu = 0; cpu < 2; ++cpu) {
    root.write_all(kCpus + std::to_string(cpu) + "/cpufreq",
                   {{"scaling_cur_freq", "4000000"},
                    {"scaling_max_freq", "4500000"},
                    {"cpuinfo_max_freq", "4500000"},
                    {"scaling_governor", cpu == 0 ? "performance" : "powersave"}});
  }
  // Tctl of this CPU is 20 degrees above the die.
  root.write_all("/sys/class/hwmon/hwmon3", {{"name", "k10temp"},
                                             {"temp1_input", "75000"},
                                             {"temp1_label", "Tctl"},
                                             {"temp2_input", "55000"},
                                             {"temp2_label", "Tdie"},
                                             {"temp3_input", "57000"},
                                             {"temp3_label", "Tccd1"}});
  Probes probes = make_probes(root, {0, 1});
  const ProbeReading reading = probes.read(0);
  EXPECT_THAT(reading.clock_mhz, ElementsAre(4000, 4000));
  EXPECT_EQ(reading.temperature_c, 57);
  EXPECT_FALSE(reading.throttle_count) << "AMD's CPUs count nothing";
  EXPECT_FALSE(reading.throttled) << "nor do they say that all is well";
  EXPECT_FALSE(reading.energy_j);
  EXPECT_EQ(probes.cpu_state(reading).governor, "performance, powersave");
}

TEST(Probes, ReadARaspberryPi) {
  FakeRoot root;
  root.write_all("/sys/devices/system/cpu/cpufreq/policy0", {{"scaling_cur_freq", "1500000"},
                                                             {"scaling_max_freq", "1500000"},
                                                             {"cpuinfo_max_freq", "1500000"},
                                                             {"scaling_governor", "ondemand"}});
  for (int cpu = 0; cpu < 4; ++cpu) root.link(kCpus + std::to_string(cpu) + "/cpufreq", "../cpufreq/policy0");
  root.write_all("/sys/class/hwmon/hwmon0", {{"name", "cpu_thermal"}, {"temp1_input", "68160"}});
  root.write_all("/sys/class/thermal/thermal_zone0", {{"type", "cpu-thermal"}, {"temp", "68160"}});
  root.write("/sys/devices/platform/soc/soc:firmware/get_throttled", "0\n");
  root.write("/proc/cpuinfo", "processor\t: 0\nBogoMIPS\t: 108.00\n");
  Probes probes = make_probes(root, {0, 1, 2, 3});
  ProbeReading reading = probes.read(0);
  EXPECT_THAT(reading.clock_mhz, ElementsAre(1500, 1500, 1500, 1500));
  EXPECT_DOUBLE_EQ(*reading.temperature_c, 68.16);
  EXPECT_EQ(reading.throttled, false);
  root.write("/sys/devices/platform/soc/soc:firmware/get_throttled", "50005\n");
  reading = probes.read(100);
  EXPECT_EQ(reading.throttled, true);
  EXPECT_THAT(probes.notes(), Contains("throttled: Raspberry Pi: under-voltage, Raspberry Pi: throttled"));
}

TEST(Probes, ReadAJetson) {
  FakeRoot root;
  root.write_all("/sys/class/hwmon/hwmon2", {{"name", "ina3221"},
                                             {"in1_label", "VDD_IN"},
                                             {"in1_input", "5000"},
                                             {"curr1_input", "1000"},
                                             {"in2_label", "VDD_CPU_GPU_CV"},
                                             {"in2_input", "5000"},
                                             {"curr2_input", "400"},
                                             {"in3_label", "VDD_SOC"},
                                             {"in3_input", "5000"},
                                             {"curr3_input", "200"},
                                             {"in7_label", "sum of shunt voltages"},
                                             {"in7_input", "3"}});
  root.write_all("/sys/class/thermal/thermal_zone0", {{"type", "CPU-therm"}, {"temp", "41500"}});
  root.write_all("/sys/class/thermal/thermal_zone1", {{"type", "GPU-therm"}, {"temp", "60000"}});
  root.write_all("/sys/class/thermal/thermal_zone2", {{"type", "SOC0-therm"}, {"temp", "-256000"}});
  Probes probes = make_probes(root, {0});
  const ProbeReading first = probes.read(0);
  EXPECT_EQ(first.temperature_c, 41.5) << "not the GPU's, and not that of a zone without power";
  EXPECT_DOUBLE_EQ(*first.power_w, 5);
  EXPECT_EQ(first.energy_j, 0);
  root.write("/sys/class/hwmon/hwmon2/curr1_input", "3000\n");
  const ProbeReading second = probes.read(200);
  EXPECT_DOUBLE_EQ(*second.power_w, 15);
  EXPECT_DOUBLE_EQ(*second.energy_j, 0.2 * (5 + 15) / 2);
  EXPECT_THAT(probes.notes(), Contains("energy: ina3221 VDD_IN"));
}

TEST(Probes, ShowNothingInAVirtualMachineWithoutAnything) {
  FakeRoot root;
  root.write("/proc/cpuinfo",
             "processor\t: 0\nflags\t\t: fpu vme hypervisor\ncpu MHz\t\t: 2596.148\n\n"
             "processor\t: 1\nflags\t\t: fpu vme hypervisor\ncpu MHz\t\t: 2596.148\n");
  Probes probes = make_probes(root, {0, 1});
  for (const double at : {0.0, 100.0}) {
    const ProbeReading reading = probes.read(at, at > 0);
    EXPECT_THAT(reading.clock_mhz, IsEmpty()) << "the rate of time stamps is no clock";
    EXPECT_FALSE(reading.temperature_c);
    EXPECT_FALSE(reading.throttle_count);
    EXPECT_FALSE(reading.throttled);
    EXPECT_FALSE(reading.energy_j);
    EXPECT_FALSE(reading.power_w);
    EXPECT_FALSE(reading.others_share);
    EXPECT_FALSE(reading.steal_share);
    EXPECT_FALSE(reading.gpu.clock_mhz);
  }
  EXPECT_THAT(probes.notes(), ElementsAre("clock: not shown here; 2596 MHz by name"));
  const CpuState state = probes.cpu_state(probes.read(200));
  EXPECT_FALSE(state.frequency_mhz);
  EXPECT_FALSE(state.max_frequency_mhz);
  EXPECT_EQ(state.governor, "");
}

TEST(Probes, ShowNothingWithoutAnyFile) {
  FakeRoot root;
  Probes probes = make_probes(root, {});
  const ProbeReading reading = probes.read(0);
  EXPECT_THAT(reading.clock_mhz, IsEmpty());
  EXPECT_FALSE(reading.temperature_c);
  EXPECT_THAT(probes.notes(), IsEmpty());
}

TEST(Probes, TakeTheClockFromCpuinfoWhereTheCpuMeasuresIt) {
  FakeRoot root;
  root.write("/proc/cpuinfo",
             "processor\t: 0\ncpu MHz\t\t: 3100.5\nflags\t\t: fpu aperfmperf est\n\n"
             "processor\t: 1\ncpu MHz\t\t: 1200.0\nflags\t\t: fpu aperfmperf est\n");
  Probes probes = make_probes(root, {1, 0});
  EXPECT_THAT(probes.read(0).clock_mhz, ElementsAre(1200, 3100.5));
  EXPECT_THAT(make_probes(root, {0, 7}).read(0).clock_mhz, IsEmpty()) << "CPU 7 is not there";
}

TEST(Probes, LoseWhatGoesAway) {
  FakeRoot root;
  write_intel(root);
  Probes probes = make_probes(root, {0});
  EXPECT_FALSE(probes.read(0).clock_mhz.empty());
  root.write(kCpus + "0/cpufreq/scaling_cur_freq", "");
  root.write("/sys/class/hwmon/hwmon1/temp1_input", "");
  root.write(kCpus + "0/thermal_throttle/package_throttle_count", "");
  const ProbeReading reading = probes.read(1000);
  EXPECT_THAT(reading.clock_mhz, IsEmpty());
  EXPECT_FALSE(reading.temperature_c);
  EXPECT_FALSE(reading.throttle_count) << "a sum without one of its parts is none";
  EXPECT_TRUE(reading.energy_j);
}

TEST(Probes, BelieveNothingThatCannotBeTrue) {
  const std::string huge(1 << 20, '9');
  for (const std::string& text : {huge, std::string("99999999999999999999"), std::string("-5000000000"),
                                  std::string("NaN"), std::string("12 34"), std::string("\0\xff\x01", 3),
                                  std::string("0x10"), std::string("12k"), std::string()}) {
    FakeRoot root;
    write_intel(root);
    root.write(kCpus + "0/cpufreq/scaling_cur_freq", text);
    root.write(kCpus + "0/cpufreq/scaling_max_freq", text);
    root.write(kCpus + "0/cpufreq/bios_limit", text);
    root.write(kCpus + "0/thermal_throttle/core_throttle_count", text);
    root.write(kCpus + "0/thermal_throttle/package_throttle_count", text);
    root.write("/sys/class/hwmon/hwmon1/temp1_input", text);
    root.write("/sys/class/hwmon/hwmon1/temp2_input", text);
    root.write("/sys/class/powercap/intel-rapl:0/energy_uj", text);
    root.write("/sys/class/powercap/intel-rapl:0/max_energy_range_uj", text);
    root.write("/sys/devices/platform/soc/soc:firmware/get_throttled", text == "0x10" ? "zz" : "fffffffff");
    root.write("/proc/stat", text);
    root.write("/proc/loadavg", text == huge ? "nan" : "-1");
    Probes probes = make_probes(root, {0});
    const ProbeReading reading = probes.read(0);
    SCOPED_TRACE(text.substr(0, 20));
    EXPECT_THAT(reading.clock_mhz, IsEmpty());
    EXPECT_FALSE(reading.temperature_c);
    EXPECT_FALSE(reading.throttle_count);
    EXPECT_FALSE(reading.throttled);
    EXPECT_FALSE(reading.energy_j);
    EXPECT_FALSE(probes.read(100, true).others_share);
  }
}

TEST(Probes, MakeHostileNamesHarmless) {
  FakeRoot root;
  write_intel(root);
  root.write("/sys/class/powercap/intel-rapl:0/name", "package\x1b[31m" + std::string(500, 'x'));
  Probes probes = make_probes(root, {0});
  probes.read(0);
  for (const std::string& note : probes.notes()) {
    EXPECT_THAT(note, Not(HasSubstr("\x1b")));
    EXPECT_LT(note.size(), 100u);
  }
}

TEST(Probes, DoNotWaitForPipesAndFolders) {
  FakeRoot root;
  write_intel(root);
  for (const std::string file : {"/proc/stat", "/sys/class/hwmon/hwmon1/temp1_input"}) {
    root.remove(file);
    ASSERT_EQ(mkfifo((root.path() + file).c_str(), 0600), 0);
  }
  root.remove("/sys/class/powercap/intel-rapl:0/energy_uj");
  root.make_folder("/sys/class/powercap/intel-rapl:0/energy_uj");
  Probes probes = make_probes(root, {0});
  const ProbeReading reading = probes.read(0, true);
  EXPECT_EQ(reading.temperature_c, 60) << "the core's, as the package shows none";
  EXPECT_FALSE(reading.energy_j);
}

TEST(Probes, ReadAGpuBesideTheCpu) {
  FakeRoot root;
  write_intel(root);
  static double gpu_joules;
  gpu_joules = 1000;
  ProbeOptions options{.root = root.path(), .cpus = {0}, .gpu_bus_id = "0000:01:00.0"};
  options.read_gpu = [](const std::string&) {
    GpuState state;
    state.clock_mhz = 1700, state.power_watts = 120, state.throttled = true, state.energy_j = gpu_joules;
    return state;
  };
  Probes probes(options);
  probes.read(0);
  gpu_joules = 1010;
  root.write("/sys/class/powercap/intel-rapl:0/energy_uj", "3000000\n");
  const ProbeReading reading = probes.read(100);
  EXPECT_EQ(reading.gpu.clock_mhz, 1700);
  EXPECT_DOUBLE_EQ(*reading.energy_j, 2 + 10);
  EXPECT_DOUBLE_EQ(*reading.power_w, 20 + 120);
  EXPECT_THAT(probes.notes(), Contains("energy: RAPL package-0, GPU"));
}

TEST(Load, WaitsUntilTicksSaySomething) {
  FakeRoot root;
  root.write("/proc/stat", "cpu 0 0 0 0 0 0 0 0\n");
  own_seconds = 0;
  LoadProbe load(root.path(), [] { return own_seconds; });
  root.write("/proc/stat", "cpu 30 0 0 30 0 0 0 0\n");
  EXPECT_FALSE(load.read(false).others_share) << "60 ticks are too few";
  own_seconds = 0.2;
  root.write("/proc/stat", "cpu 60 0 0 60 0 0 0 0\n");
  EXPECT_NEAR(*load.read(false).others_share, (60 - 20) / 120.0, 1e-12) << "of both intervals";
  root.write("/proc/stat", "cpu 60 0 0 90 0 0 0 0\n");
  EXPECT_FALSE(load.read(false).others_share);
  own_seconds = 0.9;  // more than Linux has counted: nothing is left for others
  EXPECT_EQ(load.read(true).others_share, 0) << "30 ticks do at the end";
}

constexpr uint64_t kMiB = 1u << 20;

/// That much, or what the machine under this test has.
uint64_t at_most_of_machine(uint64_t bytes) {
  return std::min(bytes, usable_memory_bytes("/nowhere"));
}

/// How often this process has read from files; none where Linux does not say.
std::optional<uint64_t> reads() {
  std::ifstream file("/proc/self/io");
  for (std::string name; file >> name;) {
    if (uint64_t count = 0; name == "syscr:" && file >> count) return count;
  }
  return std::nullopt;
}

TEST(Memory, SmallBuffersAreTakenWithoutAskingWhatThereIs) {
  const auto first = reads(), second = reads();
  if (!second) GTEST_SKIP() << "this system does not count reads";
  AlignedBuffer small;
  ASSERT_TRUE(small.reserve(kMiB, "a test").ok());
  EXPECT_EQ(*reads() - *second, *second - *first);
  EXPECT_EQ(AlignedBuffer().reserve(uint64_t{1} << 60, "a test").code(), GANTRY_OUT_OF_MEMORY);
}

TEST(Memory, IsBoundedByTheControlGroupOfTheProcessAndThoseAroundIt) {
  FakeRoot root;
  root.write("/proc/meminfo", "MemTotal: 67108864 kB\nMemAvailable:   33554432 kB\n");
  root.write("/proc/self/cgroup", "0::/system.slice/gantry.service\n");
  root.write_all("/sys/fs/cgroup/system.slice", {{"memory.max", "max"}, {"memory.current", "8589934592"}});
  root.write_all("/sys/fs/cgroup/system.slice/gantry.service",
                 {{"memory.max", "2147483648"},
                  {"memory.current", "1610612736"},
                  {"memory.stat", "anon 805306368\nfile 805306368\nfile_mapped 7\nshmem 268435456"}});
  root.write("/sys/fs/cgroup/other.slice/memory.max", "1048576\n");
  EXPECT_EQ(usable_memory_bytes(root.path()), at_most_of_machine(2048 * kMiB));
  EXPECT_EQ(available_memory_bytes(root.path()), 1024 * kMiB) << "cached files give way, shared memory stays";
  root.write("/sys/fs/cgroup/system.slice/memory.max", "1073741824\n");
  EXPECT_EQ(usable_memory_bytes(root.path()), at_most_of_machine(1024 * kMiB));
  EXPECT_EQ(available_memory_bytes(root.path()), 0u) << "those beside it have taken it all";
}

TEST(Memory, IsBoundedByControlGroupsOfVersion1) {
  FakeRoot root;
  root.write("/proc/meminfo", "MemAvailable: 33554432 kB\n");
  root.write("/proc/self/cgroup",
             "12:cpu,cpuacct:/cpus\n7:hugetlb,memory:/slurm/job_7\n1:name=systemd:/\n0::/x\n");
  root.write_all("/sys/fs/cgroup/memory",
                 {{"memory.limit_in_bytes", "9223372036854771712"}, {"memory.usage_in_bytes", "8589934592"}});
  root.write_all("/sys/fs/cgroup/memory/slurm/job_7",
                 {{"memory.limit_in_bytes", "1073741824"},
                  {"memory.usage_in_bytes", "805306368"},
                  {"memory.stat", "cache 7\ntotal_cache 536870912\ntotal_shmem 268435456"}});
  EXPECT_EQ(usable_memory_bytes(root.path()), at_most_of_machine(1024 * kMiB));
  EXPECT_EQ(available_memory_bytes(root.path()), 512 * kMiB);
}

TEST(Memory, IsBoundedByTheLimitThatAContainerShowsWhateverItsGroupIsCalled) {
  for (const char* group :
       {"0::/\n", "0::/docker/abc\n", "0::/../../x\n", "", "0::", "::/", "memory", "0::x:"}) {
    FakeRoot root;
    root.write("/proc/self/cgroup", group);
    root.write("/proc/meminfo", "MemAvailable: 33554432 kB\n");
    root.write_all("/sys/fs/cgroup", {{"memory.max", "1073741824"}, {"memory.current", "268435456"}});
    EXPECT_EQ(usable_memory_bytes(root.path()), at_most_of_machine(1024 * kMiB)) << group;
    EXPECT_EQ(available_memory_bytes(root.path()), 768 * kMiB) << group;
  }
}

}  // namespace
}  // namespace gantry::runtime
