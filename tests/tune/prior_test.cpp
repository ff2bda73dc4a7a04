// What a cost model begins with: files of it, and how they are made of records.
#include "host/tune/prior.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "host/codegen/find_target.h"
#include "host/graph/text.h"
#include "host/ops/op.h"
#include "host/records/setting.h"
#include "host/records/work_program.h"
#include "host/support/error.h"
#include "host/support/temporary.h"
#include "host/tune/candidate_features.h"
#include "host/tune/network.h"

namespace gantry::tune {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Json = nlohmann::ordered_json;

constexpr float kMissing = std::numeric_limits<float>::quiet_NaN();

Example example(double cost, std::optional<double> predicted, float first) {
  Example one{0, {std::vector<float>(feature_names().size(), kMissing), predicted}, cost};
  one.prospect.features.front() = first;
  return one;
}

PriorFile two_groups() {
  return {"znver4",
          {{"fp32", "nn.conv", "3f", {example(0.93, 81000, 16.5), example(1.25, std::nullopt, 3)}},
           {"bf16", "nn.dense", "40", {example(1, 12, 0)}}}};
}

std::string error_of(const std::string& text) {
  try {
    parse_prior(text, "mine.json");
  } catch (const Error& error) {
    return error.kind() == ErrorKind::kUser ? error.what() : "internal";
  }
  return "";
}

TEST(PriorFile, WhatIsWrittenIsRead) {
  const PriorFile read = parse_prior(prior_text(two_groups()), "mine.json");
  EXPECT_EQ(read.family, "znver4");
  EXPECT_EQ(read.examples(), 3U);
  ASSERT_THAT(read.groups, SizeIs(2));
  EXPECT_EQ(read.groups[0].precision, "fp32");
  EXPECT_EQ(read.groups[1].op, "nn.dense");
  const Example& first = read.groups[0].examples[0];
  EXPECT_DOUBLE_EQ(first.cost, 0.93);
  EXPECT_DOUBLE_EQ(*first.prospect.predicted, 81000);
  EXPECT_EQ(first.prospect.features[0], 16.5F);
  EXPECT_TRUE(std::isnan(first.prospect.features[1]));
  EXPECT_EQ(read.groups[0].examples[1].prospect.predicted, std::nullopt);
}

/// As of GPUs, whose kernels are predicted in seconds.
TEST(PriorFile, NumbersFarBelowOneAreReadAsTheyWere) {
  PriorFile prior = two_groups();
  prior.groups[0].examples = {example(0.98765, 2.34567e-5, 3.38409e-5F), example(1.5, 12345678, -0.25F)};
  const PriorFile read = parse_prior(prior_text(prior), "mine.json");
  const std::vector<Example>& examples = read.groups.at(0).examples;
  ASSERT_THAT(examples, SizeIs(2));
  EXPECT_NEAR(*examples[0].prospect.predicted, 2.34567e-5, 1e-5 * 2.34567e-5);
  EXPECT_NEAR(examples[0].prospect.features[0], 3.38409e-5, 1e-5 * 3.38409e-5);
  EXPECT_DOUBLE_EQ(examples[0].cost, 0.98765);
  EXPECT_NEAR(*examples[1].prospect.predicted, 12345678, 1e-5 * 12345678);
  EXPECT_EQ(examples[1].prospect.features[0], -0.25F);
}

TEST(PriorFile, ExamplesAreThoseOfAPrecisionInGroupsOfTheirOwn) {
  PriorFile prior = two_groups();
  prior.groups.push_back(prior.groups[0]);
  const std::vector<Example> examples = examples_of(prior, "fp32", 7);
  std::vector<size_t> groups;
  for (const Example& one : examples) groups.push_back(one.group);
  EXPECT_THAT(groups, ElementsAre(7, 7, 8, 8));
  EXPECT_THAT(examples_of(prior, "fp16", 7), IsEmpty());
}

TEST(PriorFile, FeaturesAreKnownByTheirNames) {
  const std::vector<std::string>& own = feature_names();
  const std::string text = fmt::format(
      R"({{"schema": "gantry-prior", "version": 1, "family": "znver4", "features": ["{}", "knob.unknown", "{}"],
          "groups": [{{"precision": "fp32", "op": "nn.conv", "work": "3f", "examples": [[0.5, null, 2, 77, null]]}}]}})",
      own[3], own[1]);
  const PriorFile read = parse_prior(text, "mine.json");
  const std::vector<float>& features = read.groups.at(0).examples.at(0).prospect.features;
  ASSERT_THAT(features, SizeIs(own.size()));
  for (size_t i = 0; i < features.size(); ++i) {
    if (i == 3) {
      EXPECT_EQ(features[i], 2.0F);
    } else {
      EXPECT_TRUE(std::isnan(features[i])) << own[i];
    }
  }
}

TEST(PriorFile, OthersAreRefusedByName) {
  EXPECT_THAT(error_of(""), HasSubstr("mine.json: is no JSON"));
  EXPECT_THAT(error_of("[]"), HasSubstr("mine.json: is no prior"));
  EXPECT_THAT(error_of(R"({"schema": "gantry-bench"})"), HasSubstr("is no prior"));
  const Json whole = Json::parse(prior_text(two_groups()));
  const auto changed = [&](const char* pointer, const Json& value) {
    Json json = whole;
    json[Json::json_pointer(pointer)] = value;
    return error_of(json.dump());
  };
  EXPECT_THAT(changed("/version", 2), HasSubstr("is of version 2"));
  EXPECT_THAT(changed("/version", "1"), HasSubstr("'version'"));
  EXPECT_THAT(changed("/family", 7), HasSubstr("'family'"));
  EXPECT_THAT(changed("/features", "all"), HasSubstr("'features'"));
  EXPECT_THAT(changed("/features/0", 3), HasSubstr("'features'"));
  EXPECT_THAT(changed("/groups/0/examples", 3), HasSubstr("'examples'"));
  EXPECT_THAT(changed("/groups/0/examples/0", Json::array({1, 2})), HasSubstr("an example"));
  EXPECT_THAT(changed("/groups/0/examples/0/0", 0), HasSubstr("whose cost is none"));
  EXPECT_THAT(changed("/groups/0/examples/0/0", nullptr), HasSubstr("whose cost is none"));
  EXPECT_THAT(changed("/groups/0/examples/0/2", "x"), HasSubstr("no number"));
  EXPECT_THAT(changed("/groups/0/examples/0/2", 1e300), HasSubstr("too large"));
  EXPECT_EQ(changed("/family", "znver5"), "");
}

TEST(PriorFile, KeepsOfAnOlderOneWhatThereIsRoomFor) {
  EXPECT_EQ(merged(two_groups(), two_groups(), 100).examples(), 3U)
      << "works that were measured anew are there once";
  PriorFile older = two_groups();
  for (PriorGroup& group : older.groups) group.work += "older";
  EXPECT_EQ(merged(two_groups(), older, 100).examples(), 6U);
  const PriorFile both = merged(two_groups(), older, 5);
  EXPECT_THAT(both.groups, SizeIs(3)) << "the last example would be the sixth";
  EXPECT_EQ(both.examples(), 5U);
}

TEST(PriorFamilies, AreTheCpuAndItsArchitecture) {
  EXPECT_THAT(families_of(find_target("znver4")), ElementsAre("znver4", "x86_64"));
  EXPECT_THAT(families_of(find_target("cortex-a76")), ElementsAre("cortex-a76", "aarch64"));
  EXPECT_THAT(families_of(find_target("cuda:sm_80")), ElementsAre("sm_80", "cuda"));
}

// --- of records

class Training : public ::testing::Test {
 protected:
  Training() : store_(records::open_store(folder_.path() / "lab.db", {.create = true})) {}

  static Graph network() {
    return parse_graph(
        "fn @main(%x: Tensor[(64, 64), f32]) -> Tensor[(64, 96), f32] {\n"
        "  %y = nn.dense(%x, @w: Tensor[(64, 96), f32], units=96)  // fc\n  return %y\n}\n",
        op_set());
  }
  /// Adds trials of the network's product with these numbers of rows, each a tenth faster than the last.
  void add(const char* target, const std::vector<int>& rows) {
    const Target precise = with_precision(find_target(target), Precision::kFp32);
    const Graph graph = network();
    const records::WorkProgram program = records::work_program(graph.main, *graph.main.nodes().front());
    std::vector<records::Record> records;
    double ratio = 1;
    for (const int count : rows) {
      ratio *= 0.9;
      records::Record& record = records.emplace_back();
      record.key = {program.work, records::setting_of(precise, "a machine", 2, "speed")};
      record.op = "nn.dense";
      record.decision = {"packed", {{"block", 8}, {"rows", count}}};
      record.baseline = {"packed", {{"block", 8}}};
      record.timing = records::Timing{.seconds = 0.01 * ratio,
                                      .baseline_seconds = 0.01,
                                      .ratio = ratio,
                                      .ratio_low = ratio,
                                      .ratio_high = ratio,
                                      .process_seconds = {},
                                      .baseline_process_seconds = {}};
      record.date = "2026-11-27T08:05:00Z";
    }
    store_->add(records, std::vector{program});
  }
  std::string error_of(const PriorTraining& training) {
    try {
      train_prior(*store_, training);
    } catch (const Error& error) {
      return error.kind() == ErrorKind::kUser ? error.what() : "internal";
    }
    return "";
  }

  TemporaryFolder folder_{"test"};
  std::unique_ptr<records::Store> store_;
};

TEST_F(Training, MakesExamplesOfWhatWasMeasured) {
  add("x86-64-v3", {2, 3});
  const PriorFile prior = train_prior(*store_, {});
  EXPECT_EQ(prior.family, find_target("x86-64-v3").cpu);
  ASSERT_THAT(prior.groups, SizeIs(1));
  EXPECT_EQ(prior.groups[0].precision, "fp32");
  EXPECT_EQ(prior.groups[0].op, "nn.dense");
  ASSERT_THAT(prior.groups[0].examples, SizeIs(2));
  EXPECT_NEAR(prior.groups[0].examples[0].cost, 0.9, 1e-12);
  EXPECT_NEAR(prior.groups[0].examples[1].cost, 0.81, 1e-12);
  for (const Example& one : prior.groups[0].examples)
    EXPECT_THAT(one.prospect.features, SizeIs(feature_names().size()));
  EXPECT_THAT(error_of({.most = 1}), HasSubstr("of no work two trials"))
      << "one alone is compared with nothing";
}

TEST_F(Training, IsOfOneFamily) {
  EXPECT_THAT(error_of({}), HasSubstr("has no measured kernels"));
  add("x86-64-v3", {2, 3});
  add("cortex-a76", {2, 3});
  EXPECT_THAT(error_of({}), AllOf(HasSubstr("cortex-a76"), HasSubstr("x86-64-v3"), HasSubstr("--family")));
  EXPECT_EQ(train_prior(*store_, {.family = "aarch64"}).groups.size(), 1U);
  EXPECT_THAT(error_of({.family = "znver4"}),
              AllOf(HasSubstr("of the family znver4"), HasSubstr("of cortex-a76, x86-64-v3")));
}

TEST_F(Training, TargetsThatAreNotKnownHereAreLeftOutAndSaid) {
  add("x86-64-v3", {2, 3});
  records::Record record =
      store_->of_work(records::work_program(network().main, *network().main.nodes().front()).work).at(0);
  record.key.setting.target = "pdp-11";
  store_->add(std::vector{record});
  std::vector<std::string> warnings;
  const PriorFile prior =
      train_prior(*store_, {.warn = [&](const std::string& text) { warnings.push_back(text); }});
  EXPECT_EQ(prior.examples(), 2U);
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("pdp-11")));
}

TEST(Features, HaveANameEach) {
  CompileOptions options;
  options.targets = {find_target("x86-64-v3")};
  Network tuned(
      parse_graph("fn @main(%x: Tensor[(64, 64), f32]) -> Tensor[(64, 96), f32] {\n"
                  "  %y = nn.dense(%x, @w: Tensor[(64, 96), f32], units=96)  // fc\n  return %y\n}\n",
                  op_set()),
      options);
  tuned.set_threads(4);
  const Look look = tuned.look_at(0, {tuned.tasks().at(0).untuned}).at(0);
  ASSERT_THAT(look.features, SizeIs(feature_names().size()));
  EXPECT_EQ(feature_names().back(), "threads");
  EXPECT_FLOAT_EQ(look.features.back(), std::log2(5.0F));
  EXPECT_EQ(feature_names().front(), "predicted");
}

}  // namespace
}  // namespace gantry::tune
