#include "host/cli/report_summary.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/cli/compare_report.h"
#include "host/support/error.h"
#include "host/support/output_file.h"
#include "host/support/temporary.h"
#include "tests/cli/sample_report.h"

namespace gantry::cli {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

/// A file of this process's own, which goes with it: the tests of this suite run at the same time.
std::filesystem::path written(const std::string& name, const std::string& text) {
  static const TemporaryFolder folder("test");
  const auto path = folder.path() / name;
  write_file(path, text);
  return path;
}

BenchReport two_processes() {
  return testing::sample_report({{1, 1.1, 1.2, 1, 1}, {1, 1, 1, 1.3, 1}});
}

ReportSummary read_back(const BenchReport& report, const std::string& name = "a.json") {
  return read_report(written(name, report_to_json(report)));
}

TEST(ReportSummary, WhatIsWrittenIsReadBackProcessByProcess) {
  const ReportSummary summary = read_back(two_processes());
  ASSERT_EQ(summary.processes.size(), 2u);
  EXPECT_EQ(summary.processes[1].samples_ms, (std::vector<double>{1, 1, 1, 1.3, 1}));
  EXPECT_EQ(summary.samples(), 10u);
  EXPECT_EQ(summary.threads, 2);
  EXPECT_EQ(summary.cpu, "Cortex-A72");
  EXPECT_EQ(summary.precision, "fp32");
  EXPECT_EQ(summary.opt_level, 3);
  EXPECT_EQ(summary.inputs.at("input"), "f32 1x3x8x8, random, seed 0");
}

TEST(ReportSummary, DocumentsOfVersionOneAreOneProcess) {
  const auto path = written("v1.json", R"({"schema": "gantry-bench", "schema_version": 1, "model": "m.onnx",
    "device": "cpu", "target": "aarch64", "module_digest": "aa", "date": "2025-01-01T00:00:00Z", "threads": 2,
    "opt_level": null, "board": {"hostname": "pi4", "cpu": "Cortex-A72"}, "samples_ms": [1, 2, 3],
    "inputs": [{"name": "x", "dtype": "f32", "shape": [1], "source": "random, seed 0"}]})");
  const ReportSummary summary = read_report(path);
  ASSERT_EQ(summary.processes.size(), 1u);
  EXPECT_EQ(summary.processes[0].samples_ms, (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(summary.precision, "");
}

TEST(ReportSummary, ForeignAndDamagedDocumentsAreUserErrorsThatNameTheFile) {
  const std::string good = report_to_json(two_processes());
  std::vector<std::string> documents = {"",
                                        "[]",
                                        "{",
                                        "{}",
                                        "{\"schema\": 3}",
                                        "{\"schema\": \"gantry-bench\"}",
                                        "{\"schema\": \"gantry-bench\", \"schema_version\": 99}"};
  for (const auto& [from, to] :
       {std::pair{"1.3", "-1.3"}, std::pair{"1.3", "\"a\""}, std::pair{"1.3", "1e999"},
        std::pair{"\"processes\": [", "\"processes\": 1, \"more\": ["},
        std::pair{"\"machine\": {", "\"machine\": 1, \"more\": {"}}) {
    std::string damaged = good;
    const size_t at = damaged.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    documents.push_back(damaged.replace(at, std::string(from).size(), to));
  }
  for (const std::string& text : documents) {
    const auto path = written("bad.json", text);
    try {
      read_report(path);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUser);
      EXPECT_THAT(error.what(), HasSubstr("bad.json"));
    }
  }
}

TEST(ReportSummary, AFolderIsAUserErrorThatNamesIt) {
  try {
    read_report(::testing::TempDir());
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser);
    EXPECT_THAT(error.what(), AllOf(HasSubstr(::testing::TempDir()), HasSubstr("is a folder")));
  }
}

TEST(ReportSummary, EachCircumstanceThatDiffersIsWarnedAbout) {
  const ReportSummary base = read_back(two_processes());
  struct Case {
    const char* word;
    std::function<void(BenchReport&)> change;
  };
  const Case cases[] = {
      {"another board", [](BenchReport& r) { r.measurement.board.hostname = "pi5"; }},
      {"another CPU", [](BenchReport& r) { r.measurement.board.cpu = "Cortex-A76"; }},
      {"another model", [](BenchReport& r) { r.model = "n.onnx"; }},
      {"another precision", [](BenchReport& r) { r.precision = "bf16"; }},
      {"another --opt level", [](BenchReport& r) { r.opt_level = 0; }},
      {"another number of streams: none and 2", [](BenchReport& r) { r.options.streams = 2; }},
      {"another number of threads", [](BenchReport& r) { r.measurement.last.threads = 4; }},
      {"another state of the caches", [](BenchReport& r) { r.options.cold = true; }},
      {"another input", [](BenchReport& r) { r.inputs[0].source = "random, seed 1"; }},
  };
  for (const Case& c : cases) {
    BenchReport other = two_processes();
    c.change(other);
    EXPECT_THAT(comparability(base, read_back(other, "b.json")).warnings, Contains(HasSubstr(c.word)));
  }
}

TEST(ReportSummary, WhatAModelWasOptimisedForIsACircumstance) {
  BenchReport fast = two_processes(), small = two_processes();
  fast.optimize = "speed";
  small.optimize = "size";
  EXPECT_THAT(comparability(read_back(fast), read_back(small, "b.json")).warnings,
              Contains(HasSubstr("another --optimize: speed and size")));
}

TEST(ReportSummary, WhatOneResultDoesNotSayMayDiffer) {
  BenchReport module = two_processes();
  module.opt_level = -1;
  const auto warnings = comparability(read_back(two_processes()), read_back(module, "b.json")).warnings;
  EXPECT_THAT(warnings, Contains(AllOf(HasSubstr("perhaps another --opt level: "),
                                       HasSubstr("b.json does not say its own"))));
}

TEST(ReportSummary, AComparisonIsNoResultAndIsCalledWhatItIs) {
  const auto path = written("c.json", R"({"schema": "gantry-comparison", "schema_version": 2})");
  try {
    read_report(path);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("c.json: is a comparison"));
  }
}

TEST(ReportSummary, ThrottlingLoadAndRestlessnessWidenTheInterval) {
  const ReportSummary base = read_back(two_processes());
  const double usual = comparability(base, base).extra_spread;
  EXPECT_GT(usual, 0);
  BenchReport throttled = two_processes(), loaded = two_processes(), restless = two_processes();
  rpc::ProbeReading reading;
  reading.throttled = true;
  throttled.measurement.processes[0].readings = {reading};
  reading = {};
  reading.others_share = 0.3;
  loaded.measurement.processes[0].readings = {reading};
  restless.measurement.processes[1].warm_up.steady = false;
  for (const auto& [report, word] :
       {std::pair{&throttled, "throttled"}, std::pair{&loaded, "30 % of the machine"},
        std::pair{&restless, "before it was steady"}}) {
    const Comparability found = comparability(base, read_back(*report, "b.json"));
    EXPECT_GT(found.extra_spread, usual) << word;
    EXPECT_THAT(found.warnings, Contains(HasSubstr(word)));
  }
}

/// Three processes: the second half of each is disturbed and takes half as long again.
BenchReport half_disturbed(double pulse = 1) {
  BenchReport report = testing::sample_report(std::vector<std::vector<double>>(3, {2, 2, 2, 2, 3, 3, 3, 3}));
  for (ProcessMeasurement& process : report.measurement.processes)
    testing::set_pulses(process, {pulse, pulse, pulse, pulse, pulse, 1.6, 1.6, 1.6, 1.6});
  leave_out_disturbed(report.measurement, pulse);
  testing::finish(report);
  return report;
}

TEST(ReportSummary, WhatWasDisturbedDoesNotCountWhenReadBack) {
  const ReportSummary summary = read_back(half_disturbed());
  ASSERT_EQ(summary.processes.size(), 3u);
  EXPECT_EQ(summary.processes[2].samples_ms, (std::vector<double>{2, 2, 2, 2}));
  EXPECT_EQ(summary.disturbed_share, 0.5);
  EXPECT_FALSE(summary.uses_disturbed);
  EXPECT_EQ(summary_of(half_disturbed()).samples(), 12u);
}

TEST(ReportSummary, TwoResultsOfOneMachineAreJudgedByTheLowerLevel) {
  const auto quiet = written("quiet.json", report_to_json(half_disturbed(1)));
  // This one knew no lower pulses than these.
  BenchReport loud = half_disturbed(1.4);
  EXPECT_EQ(loud.measurement.disturbed_share(), 0.5);
  const auto later = written("loud.json", report_to_json(loud));
  const auto [first, second] = read_reports(quiet, later);
  EXPECT_EQ(first.disturbed_share, 0.5);
  EXPECT_EQ(second.disturbed_share, 1);
  EXPECT_TRUE(second.uses_disturbed);
  const Comparability found = comparability(first, second);
  EXPECT_THAT(found.warnings, Contains(HasSubstr("used its cores for 100 % of the time")));
  EXPECT_GT(found.extra_spread, comparability(first, first).extra_spread);
  // Another machine's level means nothing here.
  loud.measurement.board.hostname = "pi5";
  EXPECT_EQ(read_reports(quiet, written("other.json", report_to_json(loud))).second.disturbed_share, 0.5);
}

TEST(ReportSummary, ResultsOfBeforePulsesCountWhole) {
  std::string old = report_to_json(half_disturbed());
  for (const char* field : {"\"pulses\"", "\"disturbed\"", "\"used_samples\"", "\"undisturbed_pulse\""}) {
    for (size_t at; (at = old.find(field)) != std::string::npos;)
      old.replace(at, std::string(field).size(), "\"x\"");
  }
  const ReportSummary summary = read_report(written("old.json", old));
  EXPECT_EQ(summary.samples(), 24u);
  EXPECT_FALSE(summary.disturbed_share.has_value());
}

TEST(ReportSummary, OneProcessASideIsWarnedAbout) {
  const ReportSummary one = read_back(testing::sample_report({{1, 1, 1, 1, 1.1}}));
  EXPECT_THAT(comparability(one, one).warnings, Contains(HasSubstr("one process")));
}

TEST(CompareReport, WhatIsNotShownSaysHowLargeItMightBe) {
  CompareReport report;
  report.comparison.verdict = Verdict::kNotShown;
  report.comparison.ratio = 1, report.comparison.low = 0.8, report.comparison.high = 1.25;
  EXPECT_EQ(verdict_text(report), "not shown to differ; differences below 25 % would not have been seen");
  report.comparison.ratio = 4, report.comparison.low = 0.25, report.comparison.high = 64;
  EXPECT_EQ(verdict_text(report), "not shown to differ; even 16 times the time would not have been seen");
}

}  // namespace
}  // namespace gantry::cli
