#include "host/cli/compare_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "host/cli/json_values.h"
#include "host/cli/report_of.h"
#include "tests/cli/made_up_machine.h"
#include "tests/cli/sample_report.h"

namespace gantry::cli {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kRunMs = 1;

/// Every run takes a millisecond of its clock, and every pulse of its cores has one value.
class PulsedMachine : public testing::MadeUpMachine {
 public:
  PulsedMachine(const std::string& hostname, double pulse) : pulse_(pulse) {
    board_.hostname = hostname;
    board_.cpu = "CPU";
    run_takes = std::chrono::milliseconds(1);
  }
  const rpc::BoardInfo& info() override { return board_; }
  rpc::BenchmarkResult benchmark(const rpc::BenchmarkOptions& options,
                                 const rpc::BenchmarkProgress&) override {
    rpc::BenchmarkResult result;
    for (uint32_t i = 0; i < options.repeat; ++i) {
      result.samples_ms.push_back(kRunMs);
      result.started_ms.push_back(i * kRunMs);
      result.pulses.push_back({(i - 0.5) * kRunMs, pulse_, pulse_});
    }
    result.number = options.number;
    result.statistics.median_ms = kRunMs;
    result.threads = 1;
    return result;
  }

 private:
  rpc::BoardInfo board_;
  double pulse_;
};

Execution execution_on(const std::string& hostname, double pulse) {
  Execution execution;
  execution.machine = std::make_unique<PulsedMachine>(hostname, pulse);
  return execution;
}

class CompareRun : public ::testing::Test {
 protected:
  CompareRun() {
    std::string name = ::testing::TempDir() + "gantry-compare-XXXXXX";
    folder_ = ::mkdtemp(name.data());
  }
  ~CompareRun() override { std::filesystem::remove_all(folder_); }
  PulseMemory memory() const { return PulseMemory(folder_ / "core-pulses.json"); }

  LiveComparison compare(Execution first, Execution second) {
    FormerPulses of_first(memory(), ""), of_second(memory(), "");
    const auto again = [](Execution&) { return 0.0; };
    CompareMeasureOptions options;
    options.rounds = 3;
    options.measure.warmup = 0;
    return compare_live({first, again, of_first}, {second, again, of_second}, options,
                        [](const std::string&, double) {});
  }

  std::vector<double> known_of(const Measurement& measurement) const {
    return memory().levels(pulse_machine(measurement.board, measurement.last.threads, ""));
  }

  std::filesystem::path folder_;
};

TEST_F(CompareRun, EachOfTwoMachinesIsJudgedByItsOwnLevelOfPulses) {
  const LiveComparison live = compare(execution_on("pi4", 1.2), execution_on("server", 2));
  EXPECT_EQ(live.first.disturbed_share(), 0);
  EXPECT_EQ(live.second.disturbed_share(), 0);
  EXPECT_FALSE(live.second.uses_disturbed);
  EXPECT_THAT(known_of(live.first), ElementsAre(1.2));
  EXPECT_THAT(known_of(live.second), ElementsAre(2));
}

TEST_F(CompareRun, OnOneMachineBothSidesAreJudgedByTheLowerLevel) {
  const LiveComparison live = compare(execution_on("pi4", 1.2), execution_on("pi4", 2));
  EXPECT_EQ(live.first.disturbed_share(), 0);
  EXPECT_EQ(live.second.disturbed_share(), 1);
  EXPECT_THAT(known_of(live.first), ElementsAre(1.2));
}

TEST(LiveWarnings, WhatHappenedToTheSecondSidesMachineIsTold) {
  const BenchReport first = testing::sample_report({{1, 1, 1, 1, 1}});
  BenchReport second = first;
  rpc::ProbeReading reading;
  reading.throttled = true;
  second.measurement.processes[0].readings = {reading};
  second.address = "10.0.0.2:7453";
  const auto warnings_of = [](const BenchReport& a, const BenchReport& b) {
    return live_warnings(a, b, LiveComparison(), CompareMeasureOptions());
  };
  EXPECT_THAT(warnings_of(first, second), Contains(AllOf(HasSubstr("the second: "), HasSubstr("throttled"))));
  EXPECT_THAT(warnings_of(second, first), Not(Contains(HasSubstr("the second: "))));
  second.address = first.address;
  EXPECT_THAT(warnings_of(first, second), Not(Contains(HasSubstr("the second: "))))
      << "one machine, in turns";
}

TEST(DocumentText, WhatIsNoUtf8IsReplaced) {
  EXPECT_EQ(document_text(nlohmann::ordered_json{{"file", "cl\xe9.key"}}, -1),
            "{\"file\":\"cl\uFFFD.key\"}\n");
}

}  // namespace
}  // namespace gantry::cli
