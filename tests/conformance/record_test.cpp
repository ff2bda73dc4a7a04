#include "host/conformance/record.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "host/conformance/summary.h"
#include "host/support/error.h"
#include "tests/support/server_process.h"

namespace gantry::conformance {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

TestResult result(const std::string& name, const std::string& op, Status status,
                  const std::string& reason = "") {
  TestResult made;
  made.name = name;
  made.folder = "data/" + name;
  made.operator_name = op;
  made.status = status;
  made.seconds = 0.25;
  made.opset = 13;
  if (status == Status::kPass) return made;
  made.phase = status == Status::kUnsupported ? "import" : "compare";
  made.reason = reason;
  return made;
}

TestResult wrong(const std::string& name, const Element& expected, const Element& got) {
  TestResult made = result(name, "Abs", Status::kWrong, "output 'y' differs");
  made.output = "y";
  made.data_set = "test_data_set_0";
  Wrong wrong;
  wrong.what = "1 of 6 elements differ";
  wrong.within = {2};
  wrong.at = Wrong::At{{1, 2}, expected, got, 1, 6};
  made.wrong = wrong;
  return made;
}

RunRecord record() {
  RunRecord made;
  made.settings = {"gantry 1", "x86-64-v3", "cpu", "", 3, "auto", 60};
  made.folders = {"data"};
  made.filters = {"abs"};
  made.tests_found = 5;
  made.results = {
      wrong("test_a", std::nan(""), -HUGE_VAL), wrong("test_b", uint64_t{18446744073709551615u}, int64_t{-1}),
      result("test_c", "Abs", Status::kPass), result("test_d", "If", Status::kUnsupported, "no If\nat all")};
  made.results[3].features = {"op: If (opset 13)", "element_type: STRING"};
  return made;
}

TEST(Record, IsReadBackAsItWasWritten) {
  const testing::TemporaryDirectory folder;
  const auto file = folder.path() / "r.json";
  RecordFile(file).write(record());
  const RunRecord back = read_record(file);
  EXPECT_EQ(to_json(back).dump(), to_json(record()).dump());
  EXPECT_EQ(settings_difference(back.settings, record().settings), "");
  ASSERT_EQ(back.results.size(), 4u);
  EXPECT_TRUE(std::isnan(std::get<double>(back.results[0].wrong->at->expected)));
  EXPECT_EQ(std::get<double>(back.results[0].wrong->at->got), -HUGE_VAL);
  EXPECT_EQ(std::get<uint64_t>(back.results[1].wrong->at->expected), 18446744073709551615u);
  EXPECT_EQ(std::get<int64_t>(back.results[1].wrong->at->got), -1);
}

TEST(Record, IsKeptUpToDateInAFile) {
  const testing::TemporaryDirectory folder;
  RecordFile file(folder.path() / "r.json");
  EXPECT_TRUE(file.is_kept());
  file.update(record());
  EXPECT_EQ(to_json(read_record(folder.path() / "r.json")).dump(), to_json(record()).dump());
  EXPECT_FALSE(RecordFile("").is_kept());
}

TEST(Record, IsWrittenOnceToAPipe) {
  const testing::TemporaryDirectory folder;
  const auto path = folder.path() / "pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const int reader = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  RecordFile file(path);
  EXPECT_FALSE(file.is_kept());
  RunRecord first = record();
  first.results.clear();
  file.update(first);
  file.write(record());
  std::string received;
  std::array<char, 4096> part{};
  for (ssize_t bytes = 0; (bytes = ::read(reader, part.data(), part.size())) > 0;)
    received.append(part.data(), static_cast<size_t>(bytes));
  ::close(reader);
  EXPECT_EQ(nlohmann::ordered_json::parse(received, nullptr, false).dump(), to_json(record()).dump());
}

TEST(Record, SaysWhetherItIsComplete) {
  RunRecord partial = record();
  EXPECT_EQ(to_json(partial)["complete"], false);
  partial.tests_found = 4;
  EXPECT_EQ(to_json(partial)["complete"], true);
}

TEST(Record, UnlikeSettingsAreNamed) {
  const RunSettings before = record().settings;
  RunSettings now = before;
  now.gantry = "gantry 2";
  now.timeout_seconds = 5;
  EXPECT_EQ(settings_difference(before, now), "");
  now.target = "cortex-a76";
  EXPECT_EQ(settings_difference(before, now), "target: \"x86-64-v3\" and \"cortex-a76\"");
  now = before;
  now.board = "pi";
  EXPECT_EQ(settings_difference(before, now), "board: null and \"pi\"");
}

TEST(Record, OtherFilesAreErrorsThatNameThem) {
  const testing::TemporaryDirectory folder;
  const auto file = folder.path() / "r.json";
  const std::string whole = to_json(record()).dump();
  nlohmann::ordered_json newer = to_json(record()), broken = newer;
  newer["schema_version"] = 2;
  broken["tests"][0]["status"] = "splendid";
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string(R"({"schema": "gantry-bench"})"),
        whole.substr(0, whole.size() / 2), newer.dump(), broken.dump()}) {
    std::ofstream(file, std::ios::binary) << text;
    try {
      read_record(file);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUser);
      EXPECT_THAT(error.what(), HasSubstr("r.json"));
    }
  }
}

TEST(Summary, CountsByOperatorAndThoseOfFunctionBodiesApart) {
  const std::vector<TestResult> results = {result("test_softmax", "Softmax", Status::kPass),
                                           result("test_softmax_expanded", "several", Status::kWrong),
                                           result("test_softmax_expanded_ver18", "several", Status::kPass),
                                           result("test_other_expanded", "several", Status::kCrash),
                                           result("test_softmax_axis", "Softmax", Status::kTimeout)};
  const auto rows = by_operator(results);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].name, "Softmax");
  EXPECT_EQ(rows[0].counts.of(Status::kPass), 1);
  EXPECT_EQ(rows[0].counts.of(Status::kTimeout), 1);
  EXPECT_EQ(rows[1].name, "Softmax (expanded)");
  EXPECT_EQ(rows[1].counts.of(Status::kPass), 1);
  EXPECT_EQ(rows[1].counts.of(Status::kWrong), 1);
  EXPECT_EQ(rows[2].name, "several");
  EXPECT_EQ(rows[2].counts.all(), 1);
}

TEST(Summary, ReasonsThatAreTheSameAreCountedTogether) {
  std::vector<TestResult> results = {
      result("test_a", "If", Status::kUnsupported), result("test_b", "Loop", Status::kUnsupported),
      result("test_c", "Loop", Status::kUnsupported, "data/test_c/model.onnx: too large\nsay less"),
      result("test_d", "Abs", Status::kPass)};
  results[0].features = {"op: If", "element_type: STRING"};
  results[1].features = {"element_type: STRING"};
  const auto reasons = by_reason(results);
  ASSERT_EQ(reasons.size(), 3u);
  EXPECT_EQ(reasons[0].text, "element_type: STRING");
  EXPECT_EQ(reasons[0].tests, 2);
  EXPECT_THAT(reasons[0].operators, ElementsAre(Pair("If", 1), Pair("Loop", 1)));
  EXPECT_EQ(reasons[1].text, "import: too large");
  EXPECT_EQ(reasons[2].text, "op: If");
}

}  // namespace
}  // namespace gantry::conformance
