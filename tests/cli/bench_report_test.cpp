#include "host/cli/bench_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/sample_report.h"

namespace gantry::cli {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

using Json = nlohmann::json;

Json document(const BenchReport& report) {
  return Json::parse(report_to_json(report));
}

TEST(BenchReport, MedianIsThatOfTheProcessesWithItsInterval) {
  // Medians of the processes: 1, 2, 4; their logarithms' mean is log 2.
  const Json json = document(testing::sample_report({{1, 1, 1, 1, 1}, {2, 2, 2}, {4, 4, 4, 4}}));
  EXPECT_NEAR(json["median_ms"], 2, 1e-12);
  EXPECT_LT(json["interval_ms"][0], 2);
  EXPECT_GT(json["interval_ms"][1], 2);
  EXPECT_NEAR(json["runs_per_second"], 500, 1e-9);
  EXPECT_EQ(json["sample_count"], 12);
  EXPECT_EQ(json["processes"][1]["samples_ms"], Json({2, 2, 2}));
  EXPECT_EQ(json["processes"][2]["median_ms"], 4);
}

TEST(BenchReport, AnIntervalWiderThanTheMedianIsNotShownAsFigures) {
  // Student's t of two processes whose logarithms are 1.4 apart: a factor of exp(12.7 * 1.4 / 2) each way.
  BenchReport report = testing::sample_report({{1, 1, 1, 1, 1}, {4, 4, 4, 4, 4}});
  report.options.precision_goal = 0.01;
  EXPECT_THAT(report_text(report, {}),
              HasSubstr("  median 2.000 ms, 95 % confidence no better than ±100 %\n"));
  EXPECT_THAT(measurement_warnings(report.measurement, report.options),
              Contains(HasSubstr("is known to no better than ±100 %, not to ±1 %")));
  EXPECT_FALSE(document(report)["interval_ms"].is_null()) << "who reads the document judges for himself";
}

TEST(BenchReport, AGoalThatIsMissedByLessThanIsShownIsNoWarning) {
  BenchReport report = testing::sample_report({{1, 1, 1}, {1.01, 1.01, 1.01}, {1.02, 1.02, 1.02}});
  const double known = report.measurement.interval->relative_half_width();
  report.options.precision_goal = 0.999 * known;
  EXPECT_THAT(measurement_warnings(report.measurement, report.options),
              Not(Contains(HasSubstr("is known to"))));
  report.options.precision_goal = 0.5 * known;
  EXPECT_THAT(measurement_warnings(report.measurement, report.options), Contains(HasSubstr("is known to")));
}

TEST(BenchReport, WhatIsNotKnownIsNull) {
  BenchReport report = testing::sample_report({{1, 1.1, 1.2}});
  report.precision = "";
  report.address = "";
  report.measurement.board.llvm_cpu = "";
  report.measurement.processes[0].load_ms.reset();
  const Json json = document(report);
  for (const char* field : {"precision", "interval_ms", "p90_ms", "p99_ms", "load_ms", "kernels"}) {
    EXPECT_TRUE(json.at(field).is_null()) << field;
  }
  EXPECT_TRUE(json["board"]["address"].is_null());
  EXPECT_TRUE(json["board"]["llvm_cpu"].is_null());
  EXPECT_TRUE(json["memory"]["peak_resident_bytes"].is_null());
  EXPECT_TRUE(json["memory"]["device_weights_bytes"].is_null());
  for (const auto& [name, value] : json["machine"].items()) {
    if (name != "notes") {
      EXPECT_TRUE(value.is_null()) << name;
    }
  }
}

TEST(BenchReport, SaysWhichOfTheModulesProgramsRan) {
  BenchReport report = testing::sample_report({{1, 1.1, 1.2}});
  EXPECT_EQ(document(report)["specializations"], 0);
  EXPECT_TRUE(document(report)["specialized"].is_null());
  EXPECT_THAT(report_text(report, {}), Not(HasSubstr("  program  ")));
  report.program_choice = {"N=1,length=128", 2};
  EXPECT_EQ(document(report)["specialized"], "N=1,length=128");
  EXPECT_EQ(document(report)["specializations"], 2);
  EXPECT_THAT(report_text(report, {}),
              HasSubstr("  program  for N=1,length=128 alone; the module has 2 for some sizes alone\n"));
  report.program_choice.sizes = "";
  EXPECT_TRUE(document(report)["specialized"].is_null());
  EXPECT_THAT(report_text(report, {}), HasSubstr("  program  for all sizes; the module has 2"));
}

TEST(BenchReport, PercentilesComeFromEnoughSamplesOnly) {
  const std::vector<double> forty(40, 1.0), fifty(50, 1.0), many(500, 1.0);
  EXPECT_TRUE(document(testing::sample_report({forty}))["p90_ms"].is_null());
  EXPECT_EQ(document(testing::sample_report({fifty}))["p90_ms"], 1);
  EXPECT_TRUE(document(testing::sample_report({fifty}))["p99_ms"].is_null());
  EXPECT_EQ(document(testing::sample_report({many}))["p99_ms"], 1);
}

TEST(BenchReport, KernelsStandWorstFirstUnderTheirOnnxNodes) {
  BenchReport report = testing::sample_report({{1, 1.1, 1}});
  report.options.profile = true;
  rpc::KernelTiming add, conv;
  add.name = "add", add.origin = "Add_1", add.calls = 1, add.total_ms = 0.2;
  conv.name = "nn.conv2d", conv.origin = "Conv_0, Relu_1", conv.calls = 2, conv.total_ms = 0.8,
  conv.flops = 1.6e9;
  report.measurement.last.kernels = {add, conv};
  const Json json = document(report);
  EXPECT_EQ(json["kernels"][0]["name"], "nn.conv2d");
  EXPECT_EQ(json["kernels"][0]["nodes"], (std::vector<std::string>{"Conv_0", "Relu_1"}));
  EXPECT_NEAR(json["kernels"][0]["gflop_per_s"], 2000, 1e-6);
  EXPECT_NEAR(json["kernels"][0]["share"], 0.8, 1e-9);
  const std::string text = report_text(report, {});
  EXPECT_LT(text.find("Conv_0, Relu_1"), text.find("Add_1"));
}

TEST(BenchReport, KernelsAreAPartOfTheMedianThatTheHeadlineShows) {
  // Medians of the processes: 1 and 4; their logarithms' mean is log 2. The samples' median is 4.
  BenchReport report = testing::sample_report({{1, 1, 1, 1, 1}, {4, 4, 4, 4, 4, 4, 4}});
  rpc::KernelTiming add;
  add.name = "add", add.origin = "Add_1", add.calls = 1, add.total_ms = 0.5;
  report.measurement.last.kernels = {add};
  EXPECT_THAT(report_text(report, {}),
              AllOf(HasSubstr("  median 2.000 ms"), HasSubstr(" of 2000.00 us a run")));
}

TEST(BenchReport, ReadingsAreSummedUpOverProcesses) {
  BenchReport report = testing::sample_report({{1, 1, 1}, {1, 1, 1}});
  for (ProcessMeasurement& process : report.measurement.processes) {
    rpc::ProbeReading first, last;
    first.clock_mhz = {1000, 1200};
    first.energy_joules = 0;
    first.throttle_events = 7;
    last.at_ms = 3;
    last.clock_mhz = {1400, 1600};
    last.energy_joules = 1.5;
    last.temperature_celsius = 61;
    last.throttle_events = 9;
    last.others_share = 0.5;
    process.readings = {first, last};
  }
  const MachineSummary summary = summarise_machine(report.measurement);
  EXPECT_EQ(summary.clock_mhz_mean, 1300);
  EXPECT_EQ(summary.clock_mhz_min, 1000);
  EXPECT_EQ(summary.clock_mhz_max, 1600);
  EXPECT_EQ(summary.temperature_celsius_max, 61);
  EXPECT_EQ(summary.energy_joules, 3);
  EXPECT_EQ(summary.throttle_events, 4);
  EXPECT_EQ(summary.others_share, 0.5);
  EXPECT_FALSE(summary.steal_share.has_value());
  EXPECT_FALSE(summary.throttled.has_value());
  EXPECT_EQ(document(report)["machine"]["energy_joules"], 3);
  const auto warnings = measurement_warnings(report.measurement, report.options);
  EXPECT_THAT(warnings, Contains(HasSubstr("throttled")));
  EXPECT_THAT(warnings, Contains(HasSubstr("other processes took 50 %")));
  EXPECT_THAT(warnings, Contains(HasSubstr("between 1000 and 1600 MHz")));
}

TEST(BenchReport, SamplesThatTheBoardsDeadlineCutOffAreSaidToBeMissing) {
  BenchReport report = testing::sample_report({{1, 1, 1}, {1, 1, 1}});
  report.measurement.board.deadline_ms = 2500;
  report.measurement.processes[1].reached_deadline = true;
  EXPECT_THAT(measurement_warnings(report.measurement, report.options),
              Contains(AllOf(HasSubstr("1 of 2 processes was cut off"), HasSubstr("--deadline of 2.5 s"),
                             HasSubstr("samples are missing"))));
  report.measurement.processes[1].reached_deadline = false;
  report.measurement.last.reached_deadline = true;
  EXPECT_THAT(measurement_warnings(report.measurement, report.options),
              Contains(HasSubstr("timing kernels was cut off")));
}

TEST(BenchReport, QuietSteadyMeasurementsAreNotWarnedAbout) {
  BenchReport report =
      testing::sample_report(std::vector<std::vector<double>>(5, std::vector<double>(10, 1.0)));
  report.measurement.reached_goal = true;
  EXPECT_THAT(measurement_warnings(report.measurement, report.options), IsEmpty());
  report.measurement.processes[2].warm_up.steady = false;
  EXPECT_THAT(measurement_warnings(report.measurement, report.options),
              Contains(HasSubstr("1 of 5 processes never became steady")));
}

TEST(BenchReport, AMachineThatBecomesSlowerIsWarnedAbout) {
  std::vector<std::vector<double>> samples;
  for (double ms : {1.00, 1.01, 0.99, 1.00, 1.05, 1.06, 1.05, 1.04}) samples.emplace_back(10, ms);
  BenchReport report = testing::sample_report(samples);
  EXPECT_THAT(measurement_warnings(report.measurement, report.options),
              Contains(AllOf(HasSubstr("became slower"), HasSubstr("took 5.0 % longer"))));
}

TEST(BenchReport, OneProcessAndAMissedGoalAreWarnedAbout) {
  BenchReport report = testing::sample_report({{1, 1.2, 1, 1.3, 1, 1.1, 0.9, 1, 1.5, 1, 1, 1.1}});
  EXPECT_THAT(
      measurement_warnings(report.measurement, report.options),
      AllOf(Contains(HasSubstr("one process only")), Contains(HasSubstr("--duration allows more time"))));
  report.options.processes = 1;
  EXPECT_THAT(measurement_warnings(report.measurement, report.options),
              Not(Contains(HasSubstr("--duration allows more time"))));
}

TEST(BenchReport, SamplesOfDisturbedCoresDoNotCount) {
  // Of the first process, half is disturbed; of the fourth, all.
  BenchReport report = testing::sample_report(
      {{2, 2, 2, 2, 3, 3, 3, 3}, {2.1, 2.1, 2.1, 2.1}, {1.9, 1.9, 1.9, 1.9}, {3, 3, 3, 3}, {2, 2, 2, 2}});
  Measurement& m = report.measurement;
  testing::set_pulses(m.processes[0], {1, 1, 1, 1, 1, 1.5, 1.6, 1.5, 1.5});
  for (size_t i : {1, 2, 4}) testing::set_pulses(m.processes[i], {1, 1.05, 1, 1, 1.01});
  testing::set_pulses(m.processes[3], {1.5, 1.5, 1.5, 1.5, 1.5});
  leave_out_disturbed(m, 1.0);
  testing::finish(report);
  const Json json = document(report);
  EXPECT_NEAR(json["median_ms"], 2, 0.01);
  EXPECT_EQ(json["sample_count"], 24);
  EXPECT_EQ(json["processes"][0]["used_samples"], 4);
  EXPECT_EQ(json["processes"][0]["disturbed"], 0.5);
  EXPECT_EQ(json["processes"][0]["median_ms"], 2);
  EXPECT_EQ(json["processes"][3]["used_samples"], 0);
  EXPECT_EQ(json["processes"][3]["median_ms"], 3);
  EXPECT_EQ(json["processes"][3]["pulses"][2], Json({19, 1.5}));
  EXPECT_NEAR(json["machine"]["disturbed_share"], 8.0 / 24, 1e-12);
  EXPECT_EQ(json["machine"]["undisturbed_pulse"], 1);
  EXPECT_EQ(m.undisturbed_processes, 4u);
  const std::string text = report_text(report, {});
  EXPECT_THAT(text, HasSubstr("16 samples in 4 processes (1 more disturbed)"));
  EXPECT_THAT(text, HasSubstr("gave 0.66 of their speed for 33 % of the time"));
  EXPECT_THAT(
      measurement_warnings(m, report.options),
      Not(Contains(AnyOf(HasSubstr("samples scatter"), HasSubstr("outside of this machine's sight")))));
}

TEST(BenchReport, OneQuietCoreShowsThatTheOthersAreDisturbed) {
  BenchReport report =
      testing::sample_report(std::vector<std::vector<double>>(5, std::vector<double>(10, 3.0)));
  Measurement& m = report.measurement;
  for (ProcessMeasurement& process : m.processes) {
    testing::set_pulses(process, std::vector<double>(11, 1.6));
    for (size_t i = 0; i < 2; ++i) process.pulses[i].lowest = 1.2;
  }
  const Measurement* const all[] = {&m};
  leave_out_disturbed(m, level_of(all));
  EXPECT_EQ(m.undisturbed_pulse, 1.2);
  EXPECT_EQ(m.disturbed_share(), 1);
}

/// Five processes of ten samples each, of which the first `quiet` are undisturbed and take 2 ms, the others 3
/// ms.
BenchReport mostly_disturbed(size_t quiet) {
  BenchReport report =
      testing::sample_report(std::vector<std::vector<double>>(5, std::vector<double>(10, 3.0)));
  for (size_t i = 0; i < 5; ++i) {
    ProcessMeasurement& process = report.measurement.processes[i];
    testing::set_pulses(process, std::vector<double>(11, i < quiet ? 1.0 : 1.6));
    if (i < quiet) process.samples_ms.assign(10, 2.0);
  }
  leave_out_disturbed(report.measurement, 1.0);
  testing::finish(report);
  return report;
}

TEST(BenchReport, OneUndisturbedProcessCountsAloneWithAWarning) {
  for (size_t quiet : {1, 2}) {
    const BenchReport report = mostly_disturbed(quiet);
    EXPECT_FALSE(report.measurement.uses_disturbed);
    const Json json = document(report);
    EXPECT_DOUBLE_EQ(json["median_ms"], 2);
    EXPECT_EQ(json["processes"][4]["used_samples"], 0);
    EXPECT_THAT(
        measurement_warnings(report.measurement, report.options),
        Contains(HasSubstr(quiet == 1 ? "1 of 5 processes counts alone" : "2 of 5 processes count alone")));
  }
  const BenchReport report = mostly_disturbed(3);
  EXPECT_THAT(measurement_warnings(report.measurement, report.options), Not(Contains(HasSubstr("alone"))));
}

TEST(BenchReport, AllCountsWhereTheOnlyUndisturbedProcessHasTooFewSamplesForAnInterval) {
  for (size_t samples : {4, 5}) {
    BenchReport report =
        testing::sample_report(std::vector<std::vector<double>>(5, std::vector<double>(10, 3.0)));
    for (ProcessMeasurement& process : report.measurement.processes)
      testing::set_pulses(process, std::vector<double>(11, 1.6));
    ProcessMeasurement& quiet = report.measurement.processes[2];
    for (size_t i = 0; i <= samples; ++i) quiet.pulses[i].value = 1;
    for (size_t i = 0; i < samples; ++i) quiet.samples_ms[i] = 2;
    leave_out_disturbed(report.measurement, 1.0);
    testing::finish(report);
    EXPECT_EQ(report.measurement.uses_disturbed, samples < 5);
    EXPECT_DOUBLE_EQ(document(report)["median_ms"], samples < 5 ? 3 : 2);
    ASSERT_TRUE(report.measurement.interval);
    EXPECT_EQ(report.measurement.interval->processes, samples < 5 ? 5u : 1u);
  }
}

TEST(BenchReport, WhereNothingIsUndisturbedAllCountsWithAWarning) {
  BenchReport report = mostly_disturbed(0);
  Measurement& m = report.measurement;
  EXPECT_TRUE(m.uses_disturbed);
  EXPECT_EQ(m.undisturbed_processes, 0u);
  const Json json = document(report);
  EXPECT_EQ(json["processes"][4]["used_samples"], 10);
  EXPECT_EQ(json["machine"]["disturbed_share"], 1);
  EXPECT_THAT(measurement_warnings(m, report.options),
              Contains(AllOf(HasSubstr("gave 0.62 of their speed for 100 % of the time"),
                             HasSubstr("time: something outside"), HasSubstr("another virtual machine"))));
  for (ProcessMeasurement& process : m.processes) {
    rpc::ProbeReading last;
    last.others_share = 0.9;
    process.readings = {{}, last};
  }
  EXPECT_THAT(measurement_warnings(m, report.options),
              Contains(HasSubstr("time: other processes of this machine, or something outside")));
}

TEST(BenchReport, OfBoardsThatShowNoPulsesNothingIsSaid) {
  BenchReport report = testing::sample_report({{1, 1, 1, 1, 1}, {2, 2, 2, 2, 2}});
  leave_out_disturbed(report.measurement, std::nullopt);
  leave_out_disturbed(report.measurement, 1.2);  // nor where the level is known
  EXPECT_EQ(report.measurement.undisturbed_processes, 2u);
  EXPECT_FALSE(report.measurement.uses_disturbed);
  const Json json = document(report);
  EXPECT_TRUE(json["machine"]["disturbed_share"].is_null());
  EXPECT_TRUE(json["processes"][0]["disturbed"].is_null());
  EXPECT_EQ(json["processes"][0]["used_samples"], 5);
  // A board may show pulses without saying when samples began.
  report.measurement.processes[0].pulses = {{0, 2, 2}, {9, 2, 2}};
  leave_out_disturbed(report.measurement, 1.2);
  EXPECT_FALSE(report.measurement.disturbed_share().has_value());
}

TEST(BenchReport, StreamsOfOneProcessHaveARateWithoutAnInterval) {
  BenchReport report = testing::sample_report({{10, 10, 10, 10, 10}});
  report.options.streams = 4;
  report.measurement.processes[0].runs_per_second = 400;
  testing::finish(report);
  const Json json = document(report);
  EXPECT_NEAR(json["runs_per_second"], 400, 1e-9);
  EXPECT_EQ(json["median_ms"], 10);
  EXPECT_TRUE(json["runs_per_second_interval"].is_null());
  EXPECT_THAT(report_text(report, {}), HasSubstr("400.0 runs/s\n"));
}

TEST(BenchReport, StreamsAreReportedAsARate) {
  BenchReport report = testing::sample_report({{10, 10, 10}, {10, 10, 10}, {10, 10, 10}});
  report.options.streams = 4;
  for (ProcessMeasurement& process : report.measurement.processes) process.runs_per_second = 400;
  testing::finish(report);
  const Json json = document(report);
  EXPECT_NEAR(json["runs_per_second"], 400, 1e-9);
  EXPECT_EQ(json["median_ms"], 10);
  EXPECT_TRUE(json["interval_ms"].is_null());
  EXPECT_FALSE(json["runs_per_second_interval"].is_null());
  EXPECT_THAT(report_text(report, {}), HasSubstr("400.0 runs/s"));
}

TEST(BenchReport, OfStreamsTheThroughputIsWhatIsNotKnownWell) {
  BenchReport report = testing::sample_report({{10, 10, 10}, {10, 10, 10}, {10, 10, 10}});
  report.options.streams = 4;
  for (size_t i = 0; i < 3; ++i)
    report.measurement.processes[i].runs_per_second = 400 + 20 * static_cast<double>(i);
  testing::finish(report);
  EXPECT_THAT(measurement_warnings(report.measurement, report.options),
              Contains(HasSubstr("the throughput is known to ±")));
}

}  // namespace
}  // namespace gantry::cli
