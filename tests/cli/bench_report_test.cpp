#include "host/cli/bench_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "host/support/error.h"
#include "host/support/output_file.h"

namespace gantry::cli {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

BenchReport sample_report() {
  BenchReport report;
  report.gantry_version = "0.1.0";
  report.date = "2025-01-01T00:00:00Z";
  report.command = {"gantry", "bench", "m.onnx"};
  report.model = "m.onnx";
  report.module_digest = std::string(64, 'a');
  report.board = "pi";
  report.address = "10.0.0.1:7453";
  report.inputs = {{"input", *parse_type_name("f32"), {1, 3, 8, 8}, "random, seed 0"}};
  report.options.profile = true;
  report.result.samples_ms = {1, 1.1, 1.2, 1, 1, 1, 1, 1, 1, 1};
  report.result.statistics = {1, 1, 1.03, 1.1, 1.2, 0.06};
  report.result.kernels = {{"add", "Add_1", 1, 0.2, 1e6, 4e6},
                           {"nn.conv2d", "Conv_0, Relu_1", 2, 0.8, 1.6e9, 8e6}};
  report.result.threads = 2;
  report.result.target = "aarch64";
  report.result.board.hostname = "pi4";
  report.result.board.cpu = "Cortex-A72";
  report.result.cpu_before.temperature_celsius = 50;
  return report;
}

std::filesystem::path written(const std::string& name, const std::string& text) {
  const auto path = std::filesystem::temp_directory_path() / ("gantry_report_test_" + name);
  write_file(path, text);
  return path;
}

TEST(BenchReport, DocumentHasThePromisedFields) {
  const auto json = nlohmann::json::parse(report_to_json(sample_report()));
  for (const char* key : {"median_ms", "min_ms", "mean_ms", "p90_ms", "p99_ms", "samples_ms", "kernels"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  EXPECT_EQ(json["schema"], "gantry-bench");
  EXPECT_EQ(json["schema_version"], 1);
  EXPECT_EQ(json["samples_ms"].size(), 10u);
  EXPECT_EQ(json["cpu_state"]["before"]["temperature_celsius"], 50);
  EXPECT_TRUE(json["cpu_state"]["after"]["temperature_celsius"].is_null());
}

TEST(BenchReport, KernelsStandWorstFirstUnderTheirOnnxNodes) {
  const auto json = nlohmann::json::parse(report_to_json(sample_report()));
  EXPECT_EQ(json["kernels"][0]["name"], "nn.conv2d");
  EXPECT_EQ(json["kernels"][0]["nodes"], (std::vector<std::string>{"Conv_0", "Relu_1"}));
  EXPECT_NEAR(json["kernels"][0]["gflop_per_s"], 2000, 1e-6);
  EXPECT_NEAR(json["kernels"][0]["share"], 0.8, 1e-9);
  const std::string text = report_text(sample_report(), {});
  EXPECT_LT(text.find("Conv_0, Relu_1"), text.find("Add_1"));
}

TEST(BenchReport, WithoutAProfileThereIsNoKernelList) {
  BenchReport report = sample_report();
  report.options.profile = false;
  report.result.kernels.clear();
  EXPECT_FALSE(nlohmann::json::parse(report_to_json(report)).contains("kernels"));
}

TEST(BenchReport, WhatIsWrittenIsReadBack) {
  const auto path = written("a.json", report_to_json(sample_report()));
  const ReportSummary summary = read_report(path);
  EXPECT_EQ(summary.samples_ms.size(), 10u);
  EXPECT_EQ(summary.threads, 2);
  EXPECT_EQ(summary.cpu, "Cortex-A72");
  EXPECT_EQ(summary.inputs.at("input"), "f32 1x3x8x8");
}

TEST(BenchReport, ForeignDocumentsAreUserErrorsThatNameTheFile) {
  for (const std::string text :
       {"", "[]", "{", "{}", "{\"schema\": 3}", "{\"schema\": \"gantry-bench\"}",
        "{\"schema\": \"gantry-bench\", \"schema_version\": 99}",
        "{\"schema\": \"gantry-bench\", \"schema_version\": 1, \"samples_ms\": [\"a\"]}"}) {
    const auto path = written("bad.json", text);
    try {
      read_report(path);
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUser);
      EXPECT_THAT(error.what(), HasSubstr("bad.json"));
    }
  }
}

TEST(BenchReport, ComparingUnlikeMeasurementsIsWarnedAbout) {
  BenchReport other = sample_report();
  other.result.threads = 4;
  other.result.board.hostname = "pi5";
  other.inputs[0].shape = {2, 3, 8, 8};
  const auto a = read_report(written("a.json", report_to_json(sample_report())));
  const auto b = read_report(written("b.json", report_to_json(other)));
  EXPECT_TRUE(comparability_warnings(a, a).empty());
  const auto warnings = comparability_warnings(a, b);
  EXPECT_THAT(warnings, Contains(HasSubstr("board")));
  EXPECT_THAT(warnings, Contains(HasSubstr("threads")));
  EXPECT_THAT(warnings, Contains(HasSubstr("input")));
}

TEST(BenchReport, NoiseAndThrottlingAreWarnedAbout) {
  rpc::BenchmarkResult result = sample_report().result;
  EXPECT_TRUE(noise_warnings(result).empty());
  result.statistics.stddev_ms = 0.3;
  result.cpu_before.throttle_events = 1;
  result.cpu_after.throttle_events = 5;
  result.cpu_before.governor = "powersave";
  EXPECT_THAT(noise_warnings(result), Contains(HasSubstr("scatter")));
  EXPECT_THAT(noise_warnings(result), Contains(HasSubstr("throttled")));
  EXPECT_THAT(noise_warnings(result), Contains(HasSubstr("powersave")));
}

}  // namespace
}  // namespace gantry::cli
