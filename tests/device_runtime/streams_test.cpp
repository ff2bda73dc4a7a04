#include "device_runtime/src/streams.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "device_runtime/src/cpu_info.h"
#include "tests/device_runtime/fake_root.h"
#include "tests/device_runtime/module_builder.h"

namespace gantry::runtime {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::HasSubstr;
using testing::share;

std::shared_ptr<const Module> test_module() {
  auto contents = ModuleContents::from_bytes(share(testing::symbolic_module().write()));
  return *Module::create(std::move(*contents));
}

Status set_inputs(Session& session) {
  const int64_t shape[] = {5, 4};
  return session.input_storage(0, shape).status();
}

TEST(Streams, TheRateIsWhatTheyRanInTheirTime) {
  auto result =
      run_streams(test_module(), set_inputs, {.streams = 3, .threads = 1, .warmup_ms = 1, .duration_ms = 50});
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->threads, 1);
  ASSERT_EQ(result->samples_ms.size(), result->started_ms.size());
  EXPECT_THAT(result->started_ms, Each(Ge(0)));
  EXPECT_GE(result->elapsed_ms, 50);
  // Streams end at different times, each at or before the last.
  const double runs = static_cast<double>(result->runs);
  EXPECT_GE(result->runs_per_second, runs / result->elapsed_ms * 1e3 * (1 - 1e-9));
  EXPECT_LE(result->runs_per_second, runs / 50 * 1e3 * (1 + 1e-9));
}

TEST(Streams, ReadTheMachineWhileTheyRun) {
  testing::FakeRoot root;
  for (const int cpu : cpu_info().allowed_cpus) {
    root.write_all(testing::kCpus + std::to_string(cpu) + "/cpufreq", {{"scaling_cur_freq", "1500000"}});
  }
  root.write_all("/sys/class/thermal/thermal_zone0", {{"type", "cpu-thermal"}, {"temp", "45000"}});
  StreamsOptions options{
      .streams = 2, .threads = 1, .warmup_ms = 1, .duration_ms = 400, .probe_root = root.path()};
  options.progress = [&](double done) {
    if (done > 0.3) root.write("/sys/class/thermal/thermal_zone0/temp", "52000\n");
    return true;
  };
  auto result = run_streams(test_module(), set_inputs, options);
  ASSERT_TRUE(result.ok()) << result.status().message();
  // The first, at least one while they run, the last.
  ASSERT_GE(result->readings.size(), 3u);
  EXPECT_EQ(result->readings.front().at_ms, 0);
  EXPECT_GE(result->readings.back().at_ms, 400);
  EXPECT_EQ(result->reading_summary.mean_clock_mhz, 1500);
  EXPECT_EQ(result->reading_summary.highest_temperature_c, 52);
  EXPECT_EQ(result->before.temperature_c, 45);
  EXPECT_EQ(result->after.temperature_c, 52);
}

TEST(Streams, TheClocksAreThoseOfTheirCpus) {
  testing::FakeRoot root;
  const int cpu = cpu_info().core_cpus.back();
  auto result = run_streams(test_module(), set_inputs,
                            {.streams = 1,
                             .threads = 1,
                             .cpus = {cpu},
                             .warmup_ms = 1,
                             .duration_ms = 10,
                             .probe_root = root.path()});
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_THAT(result->reading_cpus, ElementsAre(cpu));
}

TEST(Streams, SenselessOptionsAndFailuresOfAStreamAreErrors) {
  EXPECT_EQ(run_streams(test_module(), set_inputs, {.streams = 0}).status().code(), GANTRY_INVALID_ARGUMENT);
  EXPECT_EQ(run_streams(test_module(), set_inputs, {.duration_ms = -1}).status().code(),
            GANTRY_INVALID_ARGUMENT);
  const auto refuse = [](Session&) { return failure(GANTRY_INVALID_ARGUMENT, "no such input"); };
  EXPECT_THAT(run_streams(test_module(), refuse, {.streams = 2}).status().message(),
              HasSubstr("no such input"));
  StreamsOptions cancelled{.streams = 1, .duration_ms = 1e6};
  cancelled.progress = [](double) { return false; };
  EXPECT_THAT(run_streams(test_module(), set_inputs, cancelled).status().message(), HasSubstr("cancelled"));
}

}  // namespace
}  // namespace gantry::runtime
