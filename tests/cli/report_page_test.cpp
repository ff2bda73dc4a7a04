#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

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
