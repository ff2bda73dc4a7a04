#include "host/cli/history.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <thread>

#include "host/support/error.h"
#include "tests/cli/sample_report.h"

namespace gantry::cli {
namespace {

using ::testing::HasSubstr;

BenchReport report_of_model(const std::string& file) {
  BenchReport report = testing::sample_report({{1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}});
  report.model = file;
  return report;
}

class HistoryFile : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove(path_); }
  void TearDown() override { std::filesystem::remove(path_); }

  void write_text(const std::string& text) { std::ofstream(path_) << text; }
  void expect_refused(const std::string& part) {
    try {
      History::read(path_);
      ADD_FAILURE() << part;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUser);
      EXPECT_THAT(error.what(), HasSubstr(path_.filename().string()));
      EXPECT_THAT(error.what(), HasSubstr(part));
    }
  }

  std::filesystem::path path_ = std::filesystem::path(::testing::TempDir()) /
                                (std::string("gantry_series_") +
                                 ::testing::UnitTest::GetInstance()->current_test_info()->name() + ".jsonl");
};

HistoryEntry entry_of(double ms, const std::string& date) {
  BenchReport report = testing::sample_report({{ms, ms, ms, ms, ms}, {ms, ms, ms, ms, ms}});
  report.date = date;
  return history_entry(summary_of(report), "v" + date, "0.1.0");
}

TEST_F(HistoryFile, PointsAreKeptInTheirOrder) {
  History::append(path_, entry_of(2, "2025-01-01T00:00:00Z"));
  History::append(path_, entry_of(3, "2025-01-02T00:00:00Z"));
  const HistoryEntry last = entry_of(3, "2025-01-02T00:00:00Z");
  const auto points = History::read(path_).series(last.series);
  ASSERT_EQ(points.size(), 2u);
  EXPECT_EQ(points[0].process_medians_ms, (std::vector<double>{2, 2}));
  EXPECT_EQ(points[1].label, "v2025-01-02T00:00:00Z");
}

TEST_F(HistoryFile, OfResultsAddedAtOnceNoneIsLost) {
  std::vector<std::thread> writers;
  for (int i = 0; i < 8; ++i) {
    writers.emplace_back(
        [this, i] { History::append(path_, entry_of(2 + i, fmt::format("2025-01-0{}T00:00:00Z", i + 1))); });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(History::read(path_).series(entry_of(2, "").series).size(), writers.size());
}

TEST_F(HistoryFile, TheSameResultCountsOnce) {
  History history = History::read(path_);
  EXPECT_TRUE(history.add(entry_of(2, "2025-01-01T00:00:00Z")));
  EXPECT_FALSE(history.add(entry_of(2, "2025-01-01T00:00:00Z")));
}

TEST_F(HistoryFile, OtherCircumstancesAreAnotherSeries) {
  const HistoryEntry entry = entry_of(2, "2025-01-01T00:00:00Z");
  BenchReport other = testing::sample_report({{2, 2, 2, 2, 2}});
  other.measurement.last.threads = 1;
  EXPECT_NE(history_entry(summary_of(other), "", "").series, entry.series);
  BenchReport precise = testing::sample_report({{2, 2, 2, 2, 2}});
  precise.precision = "bf16";  // a change of the program, to be seen in its series
  EXPECT_EQ(history_entry(summary_of(precise), "", "").series, entry.series);
}

TEST_F(HistoryFile, ForeignAndDamagedFilesAreRefusedByLine) {
  write_text("some notes\n");
  expect_refused("not a history");
  write_text("{\"schema\":\"gantry-history\",\"schema_version\":2}\n");
  expect_refused("not a history");
  for (const char* header :
       {"{\"schema\":5}\n", "{\"schema\":\"gantry-history\",\"schema_version\":\"x\"}\n", "[]\n"}) {
    write_text(header);
    expect_refused("not a history");
  }
  write_text("{\"schema\":\"gantry-history\",\"schema_version\":1}\n{\"date\": 3}\n");
  expect_refused("line 2");
  History history = History::read("nowhere.jsonl");
  history.add(entry_of(2, "2025-01-01T00:00:00Z"));
}

TEST_F(HistoryFile, AnotherKindOfFileIsReplacedOnlyIfThatIsAsked) {
  const HistoryEntry entry = entry_of(2, "2025-01-01T00:00:00Z");
  write_text("some notes\n");
  EXPECT_THROW(History::append(path_, entry), Error);
  History::append(path_, entry, true);
  EXPECT_EQ(History::read(path_).series(entry.series).size(), 1u);
  History::append(path_, entry_of(3, "2025-01-02T00:00:00Z"), true);
  EXPECT_EQ(History::read(path_).series(entry.series).size(), 2u) << "a history is not replaced";
}

TEST_F(HistoryFile, DevicesAndPipesHoldNoneAndAreNotWaitedFor) {
  const std::string series = entry_of(2, "").series;
  EXPECT_EQ(History::read("/dev/full").series(series).size(), 0u);
  EXPECT_EQ(History::read("/dev/zero").series(series).size(), 0u);
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(History::read(path_).series(series).size(), 0u);
}

TEST_F(HistoryFile, AModelWhoseNameIsNoUtf8FindsItsOwnSeries) {
  const HistoryEntry entry = history_entry(summary_of(report_of_model("mod\xe8le.onnx")), "", "");
  History::append(path_, entry, false);
  EXPECT_EQ(History::read(path_).series(entry.series).size(), 1u);
  History::append(path_, entry, false);
  EXPECT_EQ(History::read(path_).series(entry.series).size(), 1u) << "it is known";
}

}  // namespace
}  // namespace gantry::cli
