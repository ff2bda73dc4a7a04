#include "host/cli/measured_process.h"

#include <gtest/gtest.h>

#include "tests/cli/made_up_machine.h"

namespace gantry::cli {
namespace {

constexpr double kRunMs = 1, kSweepMs = 20;
constexpr uint64_t kModelBytes = 10 << 20, kSweptBytes = 200 << 20;

/// Every run takes a millisecond, every sweep of the caches twenty, and memory of its own from then on.
class SweepingMachine : public testing::MadeUpMachine {
 public:
  SweepingMachine() { run_takes = std::chrono::milliseconds(1); }
  rpc::BenchmarkResult benchmark(const rpc::BenchmarkOptions& options,
                                 const rpc::BenchmarkProgress&) override {
    asked = options;
    const double sample_ms =
        options.number * (kRunMs + (options.flush_cache ? kSweepMs : 0)) + options.cooldown_ms;
    rpc::BenchmarkResult result;
    for (uint32_t i = 0; i < options.repeat; ++i) {
      result.samples_ms.push_back(kRunMs);
      result.started_ms.push_back(i * sample_ms);
    }
    result.number = options.number;
    result.statistics.median_ms = kRunMs;
    swept_ = swept_ || options.flush_cache;
    result.peak_resident_bytes = swept_ ? kSweptBytes : kModelBytes;
    return result;
  }

 private:
  bool swept_ = false;
};

TEST(MeasuredProcess, ColdSamplesTakeTheTimeThatTheyWereGivenSweepsIncluded) {
  for (const double cooldown_ms : {0.0, 4.0}) {
    SweepingMachine machine;
    MeasureOptions options;
    options.cold = true;
    options.cooldown_ms = cooldown_ms;
    MeasuredProcess process(machine, {}, options, 100);
    process.begin();
    process.warm_up_window();
    process.sample(250);
    EXPECT_EQ(machine.asked.repeat, MeasuredProcess::kFewestRuns)
        << "how long a sweep takes is not known yet";
    process.sample(250);
    // 250 ms over 21 ms, and over 25 ms.
    EXPECT_EQ(machine.asked.repeat, cooldown_ms == 0 ? 12u : 10u);
  }
}

TEST(MeasuredProcess, RunsOfStreamsThatWereNotKeptAreCountedAll) {
  testing::MadeUpMachine machine;
  machine.answer.samples_ms.assign(10, 0.4);
  machine.answer.samples_taken = 40;
  machine.answer.runs_per_second = 10000;
  MeasuredProcess process(machine, {}, {}, 100);
  for (const uint64_t taken : {40, 80}) {
    process.sample_streams(4, 100);
    EXPECT_EQ(process.result().taken(), taken);
  }
  EXPECT_EQ(process.result().samples_ms.size(), 20u);
}

TEST(MeasuredProcess, WarmSamplesKnowOfNoSweeps) {
  SweepingMachine machine;
  const MeasureOptions options;
  MeasuredProcess process(machine, {}, options, 100);
  process.begin();
  process.warm_up_window();
  for (int i = 0; i < 2; ++i) {
    process.sample(250);
    EXPECT_EQ(machine.asked.repeat, 250u);
  }
}

TEST(MeasuredProcess, ThePeakOfColdRunsIsTheModelsNotTheSweeps) {
  SweepingMachine machine;
  MeasureOptions options;
  options.cold = true;
  MeasuredProcess process(machine, {}, options, 100);
  process.begin();
  process.warm_up_window();
  process.sample(50);
  process.sample(50);
  EXPECT_EQ(process.result().peak_resident_bytes, kModelBytes);
}

}  // namespace
}  // namespace gantry::cli
