#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "host/cli/report/documents.h"
#include "host/cli/report/page.h"
#include "host/cli/report/schema_check.h"
#include "host/support/error.h"

namespace gantry::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::ordered_json;

const Json kSchema = Json::parse(R"({"type": "object", "properties": {
  "name": {"type": "string", "description": "what it is called"}, "note": {"type": ["string", "null"]},
  "rows": {"type": "array", "items": {"type": "object", "properties": {
    "ms": {"type": "number", "description": "its time"}, "steps": {"type": "array", "items": {"type": "integer"}}}}}}})");

constexpr std::string_view kNeeded[] = {"name", "rows[].ms"};

std::string problem_of(const char* document) {
  try {
    check_types(Json::parse(document), kSchema, kNeeded, "x.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser);
    return error.what();
  }
  return "";
}

TEST(SchemaCheck, FieldsOfTheRightTypesPassAndUnknownOnesAreNotLookedAt) {
  EXPECT_EQ(
      problem_of(R"({"name": "a", "note": null, "rows": [{"ms": 1, "steps": [1, 2.0]}], "new": {"a": 1}})"),
      "");
}

TEST(SchemaCheck, AFieldOfAnotherTypeIsNamedByItsPath) {
  const std::string problem =
      problem_of(R"({"name": "a", "rows": [{"ms": 1}, {"ms": 1, "steps": [1, 2.5]}]})");
  EXPECT_THAT(problem, HasSubstr("x.json"));
  EXPECT_THAT(problem, HasSubstr("'rows[1].steps[1]'"));
  EXPECT_THAT(problem, HasSubstr("integer"));
  EXPECT_THAT(problem_of("[]"), HasSubstr("array where object"));
}

TEST(SchemaCheck, OfMissingFieldsThoseThatAreNeededAreNamed) {
  EXPECT_THAT(problem_of(R"({"name": "a", "rows": [{"ms": 1}, {}]})"), HasSubstr("no field 'rows[1].ms'"));
  EXPECT_THAT(problem_of(R"({"rows": []})"), HasSubstr("no field 'name'"));
  EXPECT_EQ(problem_of(R"({"name": "a"})"), "");
}

TEST(SchemaCheck, DescriptionsAreFoundByTheFieldsPaths) {
  EXPECT_EQ(descriptions_of(kSchema),
            Json::parse(R"({"name": "what it is called", "rows[].ms": "its time"})"));
}

Json sample_comparison() {
  const Json side = {{"name", "a"}, {"median_ms", 1.0}, {"processes", 1}, {"samples", 2}};
  const Json result = {{"schema_version", 2},
                       {"processes", {{{"samples_ms", {1.0, 2.0}}, {"readings", Json::array()}}}}};
  Json document = {{"schema", "gantry-comparison"},
                   {"schema_version", 2},
                   {"first", side},
                   {"second", side},
                   {"ratio", 1.0},
                   {"confidence", 0.95},
                   {"interval", {0.9, 1.1}},
                   {"smallest_effect", 0.01},
                   {"verdict", "not shown"},
                   {"interleaved", true},
                   {"rounds", 1},
                   {"widened", Json::array()},
                   {"warnings", Json::array()}};
  document["played"] = Json::array({{{"ratio", 1.0}, {"counts", true}, {"began_ms", {0.0, 1.0}}}});
  document["results"] = Json::array({result, result});
  return document;
}

std::string problem_of_comparison(Json document) {
  try {
    check_comparison(document, "c.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser);
    return error.what();
  }
  return "";
}

TEST(ComparisonDocument, IsTakenWithAndWithoutItsResults) {
  EXPECT_EQ(problem_of_comparison(sample_comparison()), "");
  Json old = sample_comparison();
  old.erase("played");
  old.erase("results");
  EXPECT_EQ(problem_of_comparison(old), "");
}

TEST(ComparisonDocument, WhatIsDamagedIsNamedByFileAndField) {
  const auto changed = [](const Json::json_pointer& field, const Json& value) {
    Json document = sample_comparison();
    document[field] = value;
    const std::string problem = problem_of_comparison(document);
    EXPECT_THAT(problem, HasSubstr("c.json"));
    return problem;
  };
  const auto at = [](const char* path) { return Json::json_pointer(path); };
  EXPECT_THAT(changed(at("/ratio"), "fast"), HasSubstr("'ratio'"));
  EXPECT_THAT(changed(at("/ratio"), 0), HasSubstr("'ratio'"));
  EXPECT_THAT(changed(at("/interval"), {1.0}), HasSubstr("'interval'"));
  EXPECT_THAT(changed(at("/interval"), {1.1, 0.9}), HasSubstr("'interval'"));
  EXPECT_THAT(changed(at("/schema_version"), 3), HasSubstr("schema version 3"));
  EXPECT_THAT(changed(at("/played"), nullptr), HasSubstr("'played'"));
  EXPECT_THAT(changed(at("/played/0/began_ms"), {0.0}), HasSubstr("began_ms"));
  EXPECT_THAT(changed(at("/results"), Json::array()), HasSubstr("'results'"));
  EXPECT_THAT(changed(at("/results/1/processes"), Json::array()), HasSubstr("results[1]"));
  EXPECT_THAT(changed(at("/results/1/processes/0/samples_ms"), {1.0, 0.0}), HasSubstr("is no time"));
  EXPECT_THAT(changed(at("/results/0/processes/0/samples_ms"), {"x"}),
              HasSubstr("'processes[0].samples_ms[0]'"));
}

TEST(ComparisonDocument, OneThatOnlyKeptAHistoryComparesNothing) {
  Json document = sample_comparison();
  for (const char* field : {"first", "second", "ratio", "interval", "verdict"}) document[field] = nullptr;
  EXPECT_THAT(problem_of_comparison(document), HasSubstr("compares nothing"));
}

TEST(ReportPage, DataCannotEndTheirElementNorALineOfAScript) {
  const std::string page = report_page({{"x", "</script><!-- & \u2028\u2029 \xff"}});
  const size_t begin = page.find("id=\"data\">") + 10;
  const std::string data = page.substr(begin, page.find("</script>", begin) - begin);
  EXPECT_THAT(data, Not(HasSubstr("<")));
  EXPECT_THAT(data, Not(HasSubstr("\xe2\x80\xa8")));
  EXPECT_EQ(Json::parse(data)["x"], "</script><!-- & \u2028\u2029 \ufffd");
}

TEST(ReportPage, AllThatTheTemplateAsksForIsPutIn) {
  EXPECT_THAT(report_page({{"x", 1}}), Not(HasSubstr("{{policy}}")));
}

}  // namespace
}  // namespace gantry::cli
