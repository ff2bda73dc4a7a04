#include "host/graph/fix_sizes.h"

#include <gmock/gmock.h>

#include "host/support/error.h"

namespace gantry {
namespace {

using Sizes = std::map<std::string, GivenSize>;
using ::testing::HasSubstr;

const Dim kN = Dim::symbol("N"), kM = Dim::symbol("M");

std::string error_of(const GivenSizes& given, const std::vector<OpenInput>& inputs) {
  try {
    given_sizes(given, inputs);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser);
    return error.what();
  }
  return "no error";
}

TEST(GivenSizes, FollowFromShapesAndFromNames) {
  const std::vector<OpenInput> inputs{{"x", {kN, 8}}, {"y", {kM, kN}}};
  EXPECT_EQ(given_sizes({{{"x", {3, 8}}}, {}}, inputs), (Sizes{{"N", 3}}));
  EXPECT_EQ(given_sizes({{{"y", {5, kOpenSize}}}, {{"N", 2}}}, inputs), (Sizes{{"M", 5}, {"N", 2}}));
  EXPECT_EQ(given_sizes({{}, {}}, inputs), Sizes());
}

TEST(GivenSizes, KnowDimensionsByTheNamesThatTheModelHasForThem) {
  const std::vector<OpenInput> inputs{{"x", {Dim::symbol("batch_size")}}};
  EXPECT_EQ(given_sizes({{}, {{"batch size", 4}}}, inputs, {{"batch size", "batch_size"}}), (Sizes{{"batch_size", 4}}));
  EXPECT_EQ(given_sizes({{}, {{"batch_size", 4}}}, inputs, {{"batch size", "batch_size"}}), (Sizes{{"batch_size", 4}}));
}

TEST(GivenSizes, MayRepeatWhatFollowsFromThem) {
  const std::vector<OpenInput> inputs{{"x", {kN}}, {"y", {kN * 2}}};
  EXPECT_EQ(given_sizes({{{"x", {3}}, {"y", {6}}}, {}}, inputs), (Sizes{{"N", 3}}));
  EXPECT_THAT(error_of({{{"x", {3}}, {"y", {7}}}, {}}, inputs), HasSubstr("has 7 at axis 0, but the model fixes it to 6"));
  EXPECT_THAT(error_of({{{"y", {6}}}, {}}, inputs), HasSubstr("which is 2*N in the model: give N with --dim instead"));
}

TEST(GivenSizes, AreRefusedWhereTheyDoNotSuitTheModel) {
  const std::vector<OpenInput> inputs{{"x", {kN, 8}}};
  EXPECT_THAT(error_of({{{"z", {3}}}, {}}, inputs), 
              HasSubstr("there is no input 'z' to give a shape to; the model's inputs are: x; their dimensions without a "
                        "fixed size are: N"));
  EXPECT_THAT(error_of({{{"x", {3}}}, {}}, inputs), HasSubstr("has 1 dimensions, but the model's has 2"));
  EXPECT_THAT(error_of({{{"x", {3, 9}}}, {}}, inputs), HasSubstr("has 9 at axis 1, but the model fixes it to 8"));
  EXPECT_THAT(error_of({{{"x", {-2, 8}}}, {}}, inputs), HasSubstr("negative dimension (-2)"));
  EXPECT_THAT(error_of({{}, {{"M", 2}}}, inputs), HasSubstr("no dimension 'M'; those without a fixed size are: N"));
  EXPECT_THAT(error_of({{}, {{"N", -2}}}, inputs), HasSubstr("the size given for 'N' is negative"));
  EXPECT_THAT(error_of({{{"x", {3, 8}}}, {{"N", 2}}}, inputs), HasSubstr("make 'N' both 3 and 2"));
  EXPECT_THAT(error_of({{}, {{"N", 2}}}, {{"x", {4}}}), HasSubstr("all are fixed"));
}

TEST(GivenSizes, MayBeRanges) {
  const std::vector<OpenInput> inputs{{"x", {kN, 8}}, {"y", {kN * 2}}};
  const DimRange few{1, 8};
  EXPECT_EQ(given_sizes({{{"x", {few, 8}}}, {}}, inputs), (Sizes{{"N", few}}));
  EXPECT_EQ(given_sizes({{}, {{"N", few}}}, inputs), (Sizes{{"N", few}}));
  EXPECT_EQ(given_sizes({{{"N", {few}}}, {}}, inputs), (Sizes{{"N", few}})) << "--shape N=1..8";
  EXPECT_EQ(given_sizes({{{"x", {few, DimRange{1, 100}}}}, {}}, inputs), (Sizes{{"N", few}})) << "8 is in 1..100";
  EXPECT_THAT(error_of({{{"x", {few, DimRange{1, 7}}}}, {}}, inputs), HasSubstr("has 1..7 at axis 1"));
  EXPECT_THAT(error_of({{}, {{"N", DimRange{8, 1}}}}, inputs), HasSubstr("empty (8..1)"));
  EXPECT_THAT(error_of({{{"x", {few, 8}}}, {{"N", 3}}}, inputs), HasSubstr("make 'N' both 1..8 and 3"));
  EXPECT_THAT(error_of({{{"y", {few}}}, {}}, inputs), HasSubstr("give N with --dim instead"));
}

TEST(GivenSizes, BecomeNumbersOrSymbolsThatKnowTheirRange) {
  const auto bindings = size_bindings({{"N", DimRange{2, 8}}, {"M", 5}});
  EXPECT_EQ(bindings.at("M"), Dim(5));
  EXPECT_EQ(bindings.at("N"), kN);
  EXPECT_EQ((bindings.at("N") - 1).lower_bound(), 1);
  EXPECT_EQ((Dim(10) - bindings.at("N")).lower_bound(), 2);
}

}  // namespace
}  // namespace gantry
