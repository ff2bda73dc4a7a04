// What is a record, and what is none.
#include "host/records/record.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "host/records/columns.h"
#include "host/records/generator.h"
#include "host/support/error.h"
#include "tests/records/samples.h"

namespace gantry::records {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using testing::sample_record;
using ::testing::StartsWith;

/// The field that the message names, of a record that was made wrong.
void expect_refused(const std::string& field, const std::function<void(Record&)>& spoil) {
  Record record = sample_record();
  spoil(record);
  try {
    check(record);
    ADD_FAILURE() << "a wrong " << field << " is taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser);
    EXPECT_THAT(error.what(), StartsWith(field + ":"));
  }
}

TEST(Record, AWholeOneIsTaken) {
  EXPECT_NO_THROW(check(sample_record()));
  for (const Outcome outcome :
       {Outcome::kWrong, Outcome::kCrashed, Outcome::kTimedOut, Outcome::kMisfit, Outcome::kBuildFailed})
    EXPECT_NO_THROW(check(testing::failed(sample_record(), outcome)));
}

TEST(Record, EveryPartOfTheKeyMustBeThere) {
  expect_refused("work", [](Record& record) { record.key.work.pop_back(); });
  expect_refused("work", [](Record& record) { record.key.work[0] = 'G'; });
  expect_refused("target", [](Record& record) { record.key.setting.target.clear(); });
  expect_refused("machine", [](Record& record) { record.key.setting.machine.clear(); });
  expect_refused("threads", [](Record& record) { record.key.setting.threads = 0; });
  expect_refused("precision", [](Record& record) { record.key.setting.precision.clear(); });
  expect_refused("optimize", [](Record& record) { record.key.setting.optimize.clear(); });
  expect_refused("generator", [](Record& record) { record.key.setting.generator.clear(); });
}

TEST(Record, NumbersMustBeTimesAndAnInterval) {
  expect_refused("seconds", [](Record& record) { record.timing->seconds = 0; });
  expect_refused("seconds", [](Record& record) { record.timing->seconds = std::nan(""); });
  expect_refused("baseline_seconds", [](Record& record) { record.timing->baseline_seconds = -1; });
  expect_refused("process_seconds", [](Record& record) { record.timing->process_seconds = {1e9}; });
  expect_refused("ratio", [](Record& record) { record.timing->ratio = 0.9; });
  expect_refused("ratio", [](Record& record) { record.timing->ratio_low = -0.1; });
  expect_refused("ratio",
                 [](Record& record) { record.timing->ratio_high = std::numeric_limits<double>::infinity(); });
}

TEST(Record, TimesAreOfWhatWasMeasuredAndOfNothingElse) {
  expect_refused("outcome", [](Record& record) { record.timing.reset(); });
  expect_refused("outcome", [](Record& record) { record.outcome = Outcome::kWrong; });
}

TEST(Record, TextHasNoControlCharactersAndAnEnd) {
  expect_refused("nodes", [](Record& record) { record.nodes = "conv\x1b[2J"; });
  expect_refused("model", [](Record& record) { record.model = std::string(5000, 'x'); });
  expect_refused("decision", [](Record& record) { record.decision.form = "a b"; });
  expect_refused("decision", [](Record& record) { record.decision.form.clear(); });
}

TEST(Record, ALineIsShortTextWithoutControlCharacters) {
  EXPECT_EQ(line_of("signal 11\nin conv1"), "signal 11 in conv1");
  EXPECT_EQ(line_of("caf\xc3\xa9"), "caf\xc3\xa9");
  EXPECT_EQ(line_of("caf\xe9.onnx"), "caf\\xe9.onnx") << "no UTF-8";
  Record record = sample_record();
  record.model = record.nodes = line_of("\xff\x80" + std::string(5000, 'x'));
  EXPECT_NO_THROW(check(record));
}

TEST(Record, PartsAreOfANetworkAndInTheOrderOfNodes) {
  EXPECT_NO_THROW(check(testing::network_record()));
  expect_refused("decision", [](Record& record) { record.parts = {{3, {"direct", {}}}}; });
  const auto expect_network_refused = [](const std::function<void(Record&)>& spoil) {
    expect_refused("decision", [&](Record& record) {
      record = testing::network_record();
      spoil(record);
    });
  };
  expect_network_refused([](Record& record) { std::swap(record.parts[0], record.parts[1]); });
  expect_network_refused([](Record& record) { record.parts[0].node = -1; });
  expect_network_refused([](Record& record) { record.parts[1].decision.form = "a b"; });
}

TEST(Record, WithPartsItsTextIsReadBack) {
  const Record record = testing::network_record();
  EXPECT_EQ(decision_text(record), "{form=layouts}; 3 {form=direct, block=8}; 17 {form=gemm}");
  EXPECT_EQ(record_of(0, row_of(record)), record);
  for (const char* wrong : {"{form=layouts};", "{form=layouts}; {form=direct}", "{form=layouts}; 3",
                            "{form=layouts}; x {form=a}", "{form=layouts}; 3 {form=a} {form=b}",
                            "; 3 {form=a}", "{form=layouts}; 99999999999999999999 {form=a}"}) {
    Row row = row_of(record);
    const auto column = std::ranges::find(columns(), std::string_view("decision"), &Column::name);
    row[static_cast<size_t>(column - columns().begin())] = std::string(wrong);
    EXPECT_THROW(record_of(0, row), Error) << wrong;
  }
}

TEST(Record, DatesAreDates) {
  for (const char* date : {"2026-02-31T08:05:00Z", "", "yesterday", "2026-13-01T00:00:00Z",
                           "2026-11-27T24:00:00Z", "2026-11-27 08:05:00Z"})
    expect_refused("date", [&](Record& record) { record.date = date; });
  Record record = sample_record();
  record.date = date_now();
  EXPECT_NO_THROW(check(record)) << record.date;
}

TEST(Record, OutcomesAreFoundByTheirNames) {
  for (const Outcome outcome : {Outcome::kMeasured, Outcome::kWrong, Outcome::kCrashed, Outcome::kTimedOut,
                                Outcome::kMisfit, Outcome::kBuildFailed})
    EXPECT_EQ(find_outcome(name_of(outcome)), outcome);
  EXPECT_EQ(find_outcome("fast"), std::nullopt);
}

TEST(Record, ARowHasAllOfIt) {
  const Record record = sample_record();
  EXPECT_EQ(record_of(0, row_of(record)), record);
  const Record other = testing::failed(sample_record(), Outcome::kTimedOut);
  EXPECT_EQ(record_of(0, row_of(other)), other);
}

TEST(Generator, SaysItsVersionSourcesAndLlvm) {
  EXPECT_THAT(generator_version(), MatchesRegex("[0-9.]+-[0-9a-f]{16}-llvm19\\.[0-9.]+"));
}

}  // namespace
}  // namespace gantry::records
