#include "device_runtime/src/benchmark.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <cmath>
#include <thread>

#include "tests/device_runtime/fake_root.h"
#include "tests/device_runtime/ready_session.h"

namespace gantry::runtime {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::ready_session;

TEST(Statistics, AgreesWithHandComputedValues) {
  const double samples[] = {4, 1, 3, 2, 10};
  const Statistics s = summarize(samples);
  EXPECT_DOUBLE_EQ(s.min, 1);
  EXPECT_DOUBLE_EQ(s.max, 10);
  EXPECT_DOUBLE_EQ(s.median, 3);
  EXPECT_DOUBLE_EQ(s.mean, 4);
  EXPECT_NEAR(s.p90, 4 + 0.6 * 6, 1e-12);
  EXPECT_NEAR(s.stddev, 3.5355339059327378, 1e-12);  // sqrt(50 / 4)
  EXPECT_DOUBLE_EQ(summarize({}).mean, 0);
}

TEST(Benchmark, ReturnsEverySampleAndEveryStep) {
  auto session = ready_session();
  BenchmarkOptions options{.warmup = 1, .number = 2, .repeat = 7, .profile = true};
  double last = 0;
  bool rises = true;
  options.progress = [&](double done) {
    rises = rises && done >= last && done <= 1;
    last = done;
    return true;
  };
  auto result = run_benchmark(*session, options);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->samples_ms.size(), 7u);
  EXPECT_EQ(result->number, 2);
  EXPECT_TRUE(result->complete);
  EXPECT_TRUE(rises);
  EXPECT_DOUBLE_EQ(last, 1);
  ASSERT_EQ(result->kernels.size(), 2u);
  EXPECT_EQ(result->kernels[1].ops, "test.parallel_square");
  EXPECT_EQ(result->kernels[1].symbol, "parallel_square");
  EXPECT_EQ(result->kernels[1].step, 1u);
  EXPECT_EQ(result->kernels[1].origin, "Mul_1, Mul_2");
  EXPECT_EQ(result->kernels[1].calls, 7);
  EXPECT_EQ(result->kernels[1].flops, 100);
  ASSERT_TRUE(result->timeline);
  EXPECT_EQ(result->timeline->steps.size(), 2u);
  EXPECT_EQ(result->timeline->threads.size(), 1u);
  EXPECT_GE(result->timeline->spans.size(), 2u);
  EXPECT_EQ(result->memory.workspace_bytes, 80u);
  EXPECT_GT(result->peak_resident_bytes, 0u);
}

TEST(Benchmark, PulsesStandBeforeTheFirstSampleAndAfterTheLast) {
  auto session = ready_session();
  if (!CorePulse::create(session->pool())) GTEST_SKIP() << "this machine shows nothing by pulses";
  for (double min_repeat_ms : {0.0, 1.0}) {  // also where the first samples were too short, and do not count
    auto result =
        run_benchmark(*session, {.warmup = 0, .repeat = 5, .min_repeat_ms = min_repeat_ms, .cooldown_ms = 5});
    ASSERT_TRUE(result.ok()) << result.status().message();
    ASSERT_GE(result->pulses.size(), 2u);
    EXPECT_LE(result->pulses[0].at_ms, 0);
    EXPECT_GT(result->pulses[1].at_ms, 0);
    EXPECT_GT(result->pulses.back().at_ms, result->started_ms.back());
    for (const PulseReading& pulse : result->pulses)
      EXPECT_TRUE(std::isfinite(pulse.value.highest) && pulse.value.lowest > 0);
  }
}

TEST(Benchmark, GrowsNumberUntilASampleIsLongEnough) {
  auto session = ready_session();
  auto result = run_benchmark(*session, {.warmup = 0, .number = 1, .repeat = 2, .min_repeat_ms = 2});
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->samples_ms.size(), 2u);
  for (double sample : result->samples_ms) EXPECT_GE(sample * result->number, 2);
}

TEST(Benchmark, StopsWhenCancelledOrLate) {
  auto session = ready_session();
  BenchmarkOptions cancelled{.repeat = 1000};
  cancelled.progress = [](double) { return false; };
  EXPECT_THAT(run_benchmark(*session, cancelled).status().message(), HasSubstr("cancelled"));
  auto late = run_benchmark(*session, {.repeat = 1000, .cooldown_ms = 1, .deadline_ms = 20});
  ASSERT_TRUE(late.ok()) << late.status().message();
  EXPECT_FALSE(late->complete);
  EXPECT_LT(late->samples_ms.size(), 1000u);
}

TEST(Benchmark, BeginsNoSampleThatWouldEndBehindTheDeadline) {
  auto session = ready_session();
  // With its pause a sample takes 60 ms: the second would end at 120.
  auto late = run_benchmark(*session, {.warmup = 0, .repeat = 5, .cooldown_ms = 60, .deadline_ms = 100});
  ASSERT_TRUE(late.ok()) << late.status().message();
  EXPECT_FALSE(late->complete);
  EXPECT_EQ(late->samples_ms.size(), 1u);
}

TEST(Benchmark, KeepsShortSamplesWhereTheDeadlineLeavesNoTimeForLongerOnes) {
  auto session = ready_session();
  auto late = run_benchmark(*session, {.warmup = 0, .repeat = 5, .min_repeat_ms = 500, .deadline_ms = 100});
  ASSERT_TRUE(late.ok()) << late.status().message();
  EXPECT_FALSE(late->complete);
  EXPECT_GE(late->samples_ms.size(), 1u);
}

TEST(Benchmark, LeavesTimeForTheKernelsBeforeTheDeadline) {
  auto session = ready_session();
  auto late =
      run_benchmark(*session, {.repeat = 1000, .cooldown_ms = 1, .profile = true, .deadline_ms = 200});
  ASSERT_TRUE(late.ok()) << late.status().message();
  EXPECT_FALSE(late->complete);
  EXPECT_GE(late->samples_ms.size(), 1u);
  EXPECT_EQ(late->kernels.size(), 2u);
}

TEST(Benchmark, RefusesSenselessOptions) {
  auto session = ready_session();
  EXPECT_EQ(run_benchmark(*session, {.repeat = 0}).status().code(), GANTRY_INVALID_ARGUMENT);
  EXPECT_EQ(run_benchmark(*session, {.number = -1}).status().code(), GANTRY_INVALID_ARGUMENT);
  EXPECT_EQ(run_benchmark(*session, {.min_repeat_ms = -1}).status().code(), GANTRY_INVALID_ARGUMENT);
}

TEST(Benchmark, ReadsTheMachineWhileItRuns) {
  testing::FakeRoot root;
  for (const int cpu : cpu_info().allowed_cpus) {
    root.write_all(testing::kCpus + std::to_string(cpu) + "/cpufreq", {{"scaling_cur_freq", "1500000"},
                                                                       {"scaling_max_freq", "1800000"},
                                                                       {"scaling_governor", "schedutil"}});
  }
  root.write_all("/sys/class/thermal/thermal_zone0", {{"type", "cpu-thermal"}, {"temp", "45000"}});
  auto session = ready_session();
  BenchmarkOptions options{.warmup = 0, .repeat = 6, .cooldown_ms = 60, .probe_root = root.path()};
  options.progress = [&](double done) {
    if (done > 0.3) root.write("/sys/class/thermal/thermal_zone0/temp", "52000\n");
    if (done > 0.8) root.write("/sys/class/thermal/thermal_zone0/temp", "49000\n");
    return true;
  };
  auto result = run_benchmark(*session, options);
  ASSERT_TRUE(result.ok()) << result.status().message();
  // 360 ms at least: the first, at least one between samples, the last.
  ASSERT_GE(result->readings.size(), 3u);
  EXPECT_LE(result->readings.size(), 8u);
  EXPECT_EQ(result->readings.front().at_ms, 0);
  for (size_t i = 1; i + 1 < result->readings.size(); ++i)
    EXPECT_GE(result->readings[i].at_ms, result->readings[i - 1].at_ms + 100);
  EXPECT_GE(result->readings.back().at_ms, 360);
  ASSERT_EQ(result->reading_cpus.size(), 1u);
  for (const ProbeReading& reading : result->readings) EXPECT_THAT(reading.clock_mhz, ElementsAre(1500));
  EXPECT_EQ(result->reading_summary.mean_clock_mhz, 1500);
  EXPECT_EQ(result->reading_summary.highest_temperature_c, 52);
  EXPECT_EQ(result->before.temperature_c, 45);
  EXPECT_EQ(result->after.temperature_c, 49);
  EXPECT_EQ(result->before.frequency_mhz, 1500);
  EXPECT_EQ(result->during.frequency_mhz, 1500);
  EXPECT_EQ(result->after.max_frequency_mhz, 1800);
  EXPECT_EQ(result->after.governor, "schedutil");
  EXPECT_FALSE(result->after.throttle_count);
  EXPECT_THAT(result->probe_notes, Contains("temperature: thermal zones cpu-thermal"));
}

TEST(CpuInfo, DescribesThisMachine) {
  const CpuInfo& cpu = cpu_info();
  EXPECT_TRUE(std::is_sorted(cpu.features.begin(), cpu.features.end()));
  EXPECT_TRUE(cpu.has_feature(cpu.architecture == "x86_64" ? "sse2" : "neon"));
  EXPECT_FALSE(cpu.allowed_cpus.empty());
  EXPECT_GE(cpu.physical_cores, 1);
  EXPECT_GT(cpu.memory_bytes, 0u);
}

/// Two slow cores and a fast one, of a board with those of RK3588.
void write_unlike_cores(testing::FakeRoot& root) {
  for (const char* cpu : {"0", "1"}) {
    root.write_all(testing::kCpus + cpu, {{"cpu_capacity", "414"},
                                          {"regs/identification/midr_el1", "0x00000000412fd050"},
                                          {"cache/index0/level", "1"},
                                          {"cache/index0/size", "32K"}});
  }
  root.write_all(testing::kCpus + "4", {{"cpu_capacity", "1024"},
                                        {"regs/identification/midr_el1", "0x00000000414fd0b0"},
                                        {"cache/index0/level", "1"},
                                        {"cache/index0/size", "64K"}});
}

TEST(CpuInfo, IsThatOfTheFastestCoreThatTheProcessMayUse) {
  testing::FakeRoot root;
  write_unlike_cores(root);
  CpuInfo all = find_cpu_info({0, 1, 4}, root.path());
  EXPECT_THAT(all.core_cpus, ElementsAre(4, 0, 1));
  ASSERT_EQ(all.caches.size(), 1u);
  EXPECT_EQ(all.caches[0].bytes, 64u << 10);
  name_aarch64_cpu(all, root.path());
  EXPECT_EQ(all.llvm_name, "cortex-a76");
  EXPECT_EQ(all.brand, "Cortex-A76");
  CpuInfo slow = find_cpu_info({0, 1}, root.path());
  ASSERT_EQ(slow.caches.size(), 1u);
  EXPECT_EQ(slow.caches[0].bytes, 32u << 10);
  name_aarch64_cpu(slow, root.path());
  EXPECT_EQ(slow.llvm_name, "cortex-a55");
#if defined(__aarch64__)
  EXPECT_EQ(find_cpu_info({0, 1, 4}, root.path()).llvm_name, "cortex-a76");
#endif
}

TEST(CpuInfo, IsThatOfTheFastestCoreInTheListOfCpusToo) {
  testing::FakeRoot root;
  root.write("/proc/cpuinfo",
             "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd05\n\n"
             "processor\t: 4\nCPU implementer\t: 0x41\nCPU part\t: 0xd0b\n\n"
             "processor\t: 40\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n");
  const auto llvm_name_of = [&](int cpu) {
    CpuInfo info;
    info.core_cpus = {cpu};
    name_aarch64_cpu(info, root.path());
    return info.llvm_name;
  };
  EXPECT_EQ(llvm_name_of(4), "cortex-a76");
  EXPECT_EQ(llvm_name_of(40), "neoverse-n1");
  EXPECT_EQ(llvm_name_of(0), "cortex-a55");
  EXPECT_EQ(llvm_name_of(7), "cortex-a55") << "not in it";
}

TEST(CpuInfo, HasTheNameThatLlvmKnowsOfVendorsCores) {
  const auto llvm_name_of = [](const char* implementer, const char* part) {
    testing::FakeRoot root;
    root.write("/proc/cpuinfo", std::string("processor\t: 0\nCPU implementer\t: ") + implementer +
                                    "\nCPU part\t: " + part + "\n");
    CpuInfo info;
    info.core_cpus = {0};
    name_aarch64_cpu(info, root.path());
    return info.llvm_name;
  };
  EXPECT_EQ(llvm_name_of("0x41", "0xd8e"), "neoverse-n3");
  EXPECT_EQ(llvm_name_of("0x41", "0xd84"), "neoverse-v3");
  EXPECT_EQ(llvm_name_of("0x51", "0x001"), "oryon-1");
  EXPECT_EQ(llvm_name_of("0x61", "0x035"), "apple-m2");
  EXPECT_EQ(llvm_name_of("0x6d", "0xd49"), "neoverse-n2");
  EXPECT_EQ(llvm_name_of("0xc0", "0xac4"), "ampere1a");
  EXPECT_EQ(llvm_name_of("0x46", "0xd49"), "") << "another vendor's";
}

#if defined(__x86_64__)
__attribute__((target("amx-tile"))) void configure_and_release_tiles() {
  alignas(64) uint8_t config[64] = {1};  // palette 1
  config[16] = 64;                       // bytes a row and rows of tile 0
  config[48] = 16;
  __asm__ volatile("" ::"r"(config) : "memory");  // the intrinsic claims to read 8 bytes only
  _tile_loadconfig(config);
  _tile_zero(0);
  _tile_release();
}

TEST(CpuInfo, ReportsTileRegistersOnlyWhereEveryThreadMayUseThem) {
  if (!cpu_info().has_feature("amx-tile")) GTEST_SKIP() << "no AMX here";
  configure_and_release_tiles();
  std::thread(configure_and_release_tiles).join();
}
#endif

}  // namespace
}  // namespace gantry::runtime
