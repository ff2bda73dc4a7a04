// Records as text that comes from outside.
#include "host/records/json_lines.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "host/support/error.h"
#include "tests/records/samples.h"

namespace gantry::records {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::sample_record;

struct Read {
  JsonLines lines;
  std::vector<std::string> warnings;
};

Read read(const std::string& text) {
  Read result;
  std::istringstream stream(text);
  result.lines = read_json_lines(stream, "lab.jsonl",
                                 [&](const std::string& message) { result.warnings.push_back(message); });
  return result;
}

std::string refusal(const std::string& text) {
  try {
    read(text);
  } catch (const Error& error) {
    return error.kind() == ErrorKind::kUser ? error.what() : "";
  }
  return "taken";
}

/// A record's line with one field changed.
std::string line_with(const std::string& name, const nlohmann::ordered_json& value) {
  auto object = nlohmann::ordered_json::parse(json_line(sample_record()));
  object[name] = value;
  return object.dump() + "\n";
}

TEST(JsonLines, WhatIsWrittenIsRead) {
  const Record failed = testing::failed(sample_record(), Outcome::kCrashed);
  const Read result = read(json_head() + json_line(sample_record()) + json_line(failed) +
                           json_line(testing::network_record()) +
                           json_line(WorkProgram{testing::sample_work(), "fn @main() {\n}\n"}));
  EXPECT_THAT(result.lines.records, ElementsAre(sample_record(), failed, testing::network_record()));
  ASSERT_EQ(result.lines.programs.size(), 1u);
  EXPECT_EQ(result.lines.programs[0].text, "fn @main() {\n}\n");
  EXPECT_THAT(result.warnings, IsEmpty());
}

TEST(JsonLines, AWrongLineIsLeftOutByItsNumberAndTheOthersAreTaken) {
  const Read result = read(json_head() + json_line(sample_record()) + "{\"work\":\n" +
                           json_line(sample_record()) + line_with("ratio", 1e-9));
  EXPECT_EQ(result.lines.records.size(), 2u);
  EXPECT_EQ(result.lines.left_out, 2u);
  EXPECT_THAT(result.warnings,
              ElementsAre(HasSubstr("lab.jsonl:3: is left out: is no JSON"),
                          HasSubstr("lab.jsonl:5: is left out: ratio: 1e-09 does not lie in its interval")));
}

TEST(JsonLines, WhereAFileWasCutOffItIsSaid) {
  const std::string line = json_line(sample_record());
  const Read cut = read(json_head() + line + line.substr(0, line.size() / 2));
  EXPECT_EQ(cut.lines.records.size(), 1u);
  EXPECT_THAT(cut.warnings,
              ElementsAre(HasSubstr("lab.jsonl:3: is left out: is no JSON: it ends in the middle")));
  const Read wrong = read(json_head() + "{work}\n");
  EXPECT_THAT(wrong.warnings, ElementsAre(HasSubstr("is no JSON: something else is expected at byte 2")));
  const Read large = read(json_head() + "{\"ratio\":1e999}\n");
  EXPECT_THAT(large.warnings, ElementsAre(HasSubstr("is no JSON")));
}

TEST(JsonLines, ExportsOneBehindTheOtherAreRead) {
  const std::string one = json_head() + json_line(sample_record());
  const Read result = read(one + one);
  EXPECT_EQ(result.lines.records.size(), 2u);
  EXPECT_THAT(result.warnings, IsEmpty());
  EXPECT_THAT(refusal(one + "{\"schema\":\"gantry-records\",\"version\":9}\n"), HasSubstr("version 9"));
}

TEST(JsonLines, EveryFieldIsChecked) {
  const std::pair<std::string, nlohmann::ordered_json> wrong[] = {{"work", "3f"},
                                                                  {"threads", 1.5},
                                                                  {"threads", "2"},
                                                                  {"threads", uint64_t{1} << 63},
                                                                  {"threads", int64_t{1} << 40},
                                                                  {"seconds", "fast"},
                                                                  {"seconds", nullptr},
                                                                  {"decision", "{rows=}"},
                                                                  {"decision", "direct"},
                                                                  {"outcome", "good"},
                                                                  {"confirmation", "yes"},
                                                                  {"confirmation", 2},
                                                                  {"date", "now"},
                                                                  {"process_seconds", "1 x"},
                                                                  {"nodes", "a\nb"},
                                                                  {"extra", 1},
                                                                  {"op", 7}};
  for (const auto& [name, value] : wrong) {
    const Read result = read(json_head() + line_with(name, value));
    EXPECT_THAT(result.lines.records, IsEmpty()) << name << ": " << value;
    EXPECT_THAT(result.warnings, ElementsAre(HasSubstr(name))) << value;
  }
  const auto whole = nlohmann::ordered_json::parse(json_line(sample_record()));
  for (const auto& field : whole.items()) {
    auto without = whole;
    without.erase(field.key());
    EXPECT_THAT(read(json_head() + without.dump()).lines.records, IsEmpty()) << "without " << field.key();
  }
}

TEST(JsonLines, AProgramThatIsNoneIsLeftOutAndTheOthersAreTaken) {
  const WorkProgram longer{testing::sample_work(), std::string(size_t{2} << 20, 'x')};
  const Read result = read(json_head() + json_line(sample_record()) + json_line(longer) +
                           json_line(WorkProgram{"\x1b[31m", "fn @main() {\n}\n"}) +
                           json_line(WorkProgram{testing::sample_work(2), "fn @main() {\n}\n"}));
  EXPECT_EQ(result.lines.records.size(), 1u);
  ASSERT_EQ(result.lines.programs.size(), 1u);
  EXPECT_EQ(result.lines.programs[0].work, testing::sample_work(2));
  EXPECT_EQ(result.lines.left_out, 2u);
  EXPECT_THAT(result.warnings,
              ElementsAre(HasSubstr("lab.jsonl:3: is left out: program_of: its text has more"),
                          HasSubstr("lab.jsonl:4: is left out: program_of: is no digest")));
}

TEST(JsonLines, FilesOfOtherKindsAndNewerVersionsAreRefused) {
  EXPECT_THAT(refusal(""), HasSubstr("lab.jsonl: is empty"));
  EXPECT_THAT(refusal(json_line(sample_record())), HasSubstr("is no file of records"));
  EXPECT_THAT(refusal("\x7f"
                      "ELF\n"),
              HasSubstr("is no file of records"));
  EXPECT_THAT(refusal("{\"schema\":\"gantry-records\",\"version\":2}\n"), HasSubstr("version 2"));
  EXPECT_THAT(refusal(json_head() + std::string(size_t{5} << 20, 'x')), HasSubstr("lab.jsonl:2: is longer"));
}

TEST(JsonLines, AlteredBytesMakeNoRecordThatIsNone) {
  const std::string whole = json_head() + json_line(sample_record()) + json_line(sample_record());
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    std::string altered = whole;
    for (int changes = 1 + i % 3; changes > 0; --changes)
      altered[random() % altered.size()] = static_cast<char>(random());
    try {
      for (const Record& record : read(altered).lines.records) EXPECT_NO_THROW(check(record));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUser) << error.what();
    }
  }
}

}  // namespace
}  // namespace gantry::records
