// Records decide how nodes are computed.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>

#include "host/codegen/find_target.h"
#include "host/driver/program.h"
#include "host/ops/op.h"
#include "host/passes/work_digest.h"
#include "host/records/recorded_decisions.h"
#include "host/records/setting.h"
#include "host/support/error.h"
#include "tests/records/samples.h"

namespace gantry::records {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kMachine = "Test CPU 1";

/// Two products of the same work, one of another, of a batch of 128.
Graph network() {
  return parse_graph(
      "fn @main(%x: Tensor[(128, 64), f32]) -> Tensor[(128, 96), f32] {\n"
      "  %a = nn.dense(%x, @w1: Tensor[(64, 64), f32], units=64)  // first\n"
      "  %b = nn.dense(%a, @w2: Tensor[(64, 64), f32], units=64)  // second\n"
      "  %y = nn.dense(%b, @w3: Tensor[(64, 96), f32], units=96)  // third\n  return %y\n}\n",
      op_set());
}

class RecordedCompilation : public ::testing::Test {
 protected:
  RecordedCompilation() {
    std::string name = (std::filesystem::temp_directory_path() / "records.XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    StoreOptions options;
    options.create = true;
    store_ = open_store(folder_ / "lab.db", options);
  }
  ~RecordedCompilation() override { std::filesystem::remove_all(folder_); }

  std::vector<NodeDecision> compiled(int threads = 2) {
    CompileOptions options;
    options.records = [&](const Target& asked) {
      return decisions_of(store_, setting_of(asked, kMachine, threads, "speed"));
    };
    return build_program(network(), target_, options).decisions;
  }
  Record record_of(const NodeDecision& node, const Decision& decision) const {
    Record record = testing::sample_record();
    record.key = {node.work, setting_of(target_, kMachine, 2, "speed")};
    record.op = node.op->name;
    record.decision = decision;
    record.baseline = node.decision;
    return record;
  }

  std::filesystem::path folder_;
  std::shared_ptr<Store> store_;
  Target target_ = with_precision(find_target("x86-64-v3"), Precision::kFp32);
};

TEST_F(RecordedCompilation, ARecordDecidesAllNodesThatDoItsWork) {
  const auto before = compiled();
  ASSERT_EQ(before.size(), 3u);
  EXPECT_EQ(before[0].work, before[1].work);
  EXPECT_NE(before[0].work, before[2].work);
  const Decision decision{"packed", {{"block", 8}, {"rows", 3}}};
  ASSERT_NE(before[0].decision, decision);
  store_->add(std::vector{record_of(before[0], decision)});
  const auto after = compiled();
  EXPECT_EQ(after[0].decision, decision);
  EXPECT_EQ(after[1].decision, decision);
  EXPECT_EQ(after[2].decision, before[2].decision);
  EXPECT_THAT(after[1].record, HasSubstr("lab.db: record 1"));
  EXPECT_EQ(after[2].record, "");
}

TEST_F(RecordedCompilation, ARecordOfAnotherSettingDecidesNothingAndIsSaid) {
  const auto before = compiled();
  store_->add(std::vector{record_of(before[2], {"packed", {{"block", 8}}})});
  const auto after = compiled(4);
  EXPECT_EQ(after[2].decision, before[2].decision);
  EXPECT_THAT(after[2].unused_records, ElementsAre(HasSubstr("lab.db: records of 2 threads, not 4")));
  EXPECT_THAT(after[0].unused_records, IsEmpty());
}

TEST_F(RecordedCompilation, WhatDoesNotFitTheNodeIsNotUsedAndSaid) {
  const auto before = compiled();
  store_->add(
      std::vector{record_of(before[0], {"tiles", {{"parts", 2}}}), record_of(before[2], {"retired", {}})});
  const auto after = compiled();
  for (const size_t i : {0, 1, 2}) {
    EXPECT_EQ(after[i].decision, before[i].decision);
    EXPECT_THAT(after[i].unused_records, ElementsAre(HasSubstr("does not fit"))) << i;
    EXPECT_EQ(after[i].record, "");
  }
}

TEST_F(RecordedCompilation, WhatDoesNotFitTheKernelIsNotUsedAndSaid) {
  const auto before = compiled();
  const Decision fits{"packed", {{"block", 8}, {"rows", 3}}};
  store_->add(std::vector{record_of(before[0], {"packed", {{"block", 16}, {"rows", 9}}}),
                          record_of(before[2], fits)});
  std::vector<NodeDecision> heard;
  CompileOptions options;
  options.records = [&](const Target& asked) {
    return decisions_of(store_, setting_of(asked, kMachine, 2, "speed"));
  };
  options.observer.decisions = &heard;
  const auto after = build_program(network(), target_, options).decisions;
  EXPECT_EQ(after[0].decision, before[0].decision);
  EXPECT_THAT(after[0].unused_records, ElementsAre(HasSubstr("rows=9 does not fit")));
  EXPECT_EQ(after[2].decision, fits);
  EXPECT_EQ(heard.size(), 3u);  // of the compilation that went to its end, once
}

/// A network of convolutions, of which images may lie in either order; two nodes follow the second.
class RecordedNetwork : public RecordedCompilation {
 protected:
  static Graph network() {
    // Of weights that differ: those that are alike would be one before anything is decided.
    const auto convolution = [](const char* result, const char* data, int channels) {
      return fmt::format(
          "  %{0} = nn.conv(%{1}, @w{2}: Tensor[({2}, 16, 3, 3), f32], channels={2}, kernel=[3, 3], strides=[1, 1], "
          "dilations=[1, 1], padding=(1, 1, 1, 1))  // {0}\n",
          result, data, channels);
    };
    return parse_graph("fn @main(%x: Tensor[(1, 16, 12, 12), f32]) -> Tensor[(1, 32, 12, 12), f32] {\n" +
                           convolution("a", "x", 16) + convolution("b", "a", 32) +
                           "  %c = nn.relu(%b)  // c\n  return %c\n}\n",
                       op_set());
  }
  /// What is decided, with what records say.
  Program built() {
    CompileOptions options;
    said_.clear();
    options.observer.network_records = &said_;
    options.records = [&](const Target& asked) {
      return decisions_of(store_, setting_of(asked, kMachine, 2, "speed"));
    };
    return build_program(network(), target_, options);
  }
  Record record_of(NetworkQuestion question, const char* form, std::vector<NumberedDecision> parts) const {
    Record record = testing::sample_record();
    record.key = {network_digest(network().main, question), setting_of(target_, kMachine, 2, "speed")};
    record.op = kNetworkOp;
    record.decision = {form, {}};
    record.parts = std::move(parts);
    record.baseline = {"own", {}};
    return record;
  }
  const NetworkRecord& said(NetworkQuestion question) const { return said_.at(static_cast<size_t>(question)); }

  std::vector<NetworkRecord> said_;
};

TEST_F(RecordedNetwork, ItsRecordDecidesTheNodesThatItNamesBeforeThoseOfTheirWork) {
  const Program before = built();
  ASSERT_EQ(before.decisions.size(), 2u);
  EXPECT_EQ(before.decisions[0].work.size(), 64u);
  const Decision own{"direct", {{"block", 8}}}, of_work{"direct", {{"block", 16}}};
  ASSERT_NE(before.decisions[1].decision, own);
  Record kernel = RecordedCompilation::record_of(before.decisions[1], of_work);
  store_->add(std::vector{record_of(NetworkQuestion::kLayouts, "layouts", {{1, own}}), kernel});
  const Program after = built();
  EXPECT_EQ(after.decisions[1].decision, own);
  EXPECT_THAT(after.decisions[1].record, HasSubstr("lab.db: record 1"));
  EXPECT_THAT(said(NetworkQuestion::kLayouts).record, HasSubstr("lab.db: record 1"));
  EXPECT_EQ(said(NetworkQuestion::kProducts).record, "");
}

TEST_F(RecordedNetwork, OfWhatDoesNotFitNothingIsUsedAndThatIsSaid) {
  const Program before = built();
  const Decision own{"direct", {{"block", 8}}};
  const std::vector<std::pair<std::vector<NumberedDecision>, const char*>> cases = {
      {{{0, own}, {1, {"retired", {}}}}, "does not fit"},
      {{{0, own}, {2, own}}, "nothing is decided for it"},
      {{{0, own}, {7, own}}, "there is no node 7"}};
  for (const auto& [parts, why] : cases) {
    SCOPED_TRACE(why);
    store_->remove({});
    store_->add(std::vector{record_of(NetworkQuestion::kLayouts, "layouts", parts)});
    const Program after = built();
    EXPECT_EQ(after.decisions[0].decision, before.decisions[0].decision);
    EXPECT_EQ(after.decisions[1].decision, before.decisions[1].decision);
    EXPECT_EQ(said(NetworkQuestion::kLayouts).record, "");
    EXPECT_THAT(said(NetworkQuestion::kLayouts).unused, ElementsAre(HasSubstr(why)));
  }
}

TEST_F(RecordedNetwork, WhatDoesNotFitTheKernelIsNotUsedEither) {
  const Program before = built();
  store_->add(std::vector{
      record_of(NetworkQuestion::kLayouts, "layouts", {{0, {"direct", {{"block", 64}, {"rows", 14}}}}})});
  const Program after = built();
  EXPECT_EQ(after.decisions[0].decision, before.decisions[0].decision);
  EXPECT_THAT(said(NetworkQuestion::kLayouts).unused, ElementsAre(HasSubstr("does not fit")));
  EXPECT_EQ(said_.size(), 3u);  // of the compilation that went to its end, once
}

TEST_F(RecordedNetwork, KeepsApartAndCombines) {
  const auto share = [](const Program& program) {
    return std::ranges::any_of(program.graph.main.nodes(), [](const Node* node) {
      return std::ranges::count(node->origin, "b") > 0 && std::ranges::count(node->origin, "c") > 0;
    });
  };
  EXPECT_TRUE(share(built()));
  store_->add(std::vector{record_of(NetworkQuestion::kFusions, "apart", {{1, {"apart", {{"reader", 2}}}}}),
                          record_of(NetworkQuestion::kProducts, "combined", {})});
  const Program after = built();
  EXPECT_FALSE(share(after));
  EXPECT_TRUE(after.network.combined);
  ASSERT_EQ(after.network.apart.size(), 1u);
  EXPECT_THAT(after.network.apart[0].reader.origin, ElementsAre("c"));
  EXPECT_THAT(said(NetworkQuestion::kFusions).record, HasSubstr("record 1"));
  EXPECT_THAT(said(NetworkQuestion::kProducts).record, HasSubstr("record 2"));
  store_->remove({});
  store_->add(std::vector{record_of(NetworkQuestion::kFusions, "apart", {{0, {"apart", {{"reader", 2}}}}}),
                          record_of(NetworkQuestion::kProducts, "separate", {})});
  const Program other = built();
  EXPECT_EQ(other.network, NetworkDecision());
  EXPECT_THAT(said(NetworkQuestion::kFusions).unused, ElementsAre(HasSubstr("node 0 is not read by node 2")));
  EXPECT_THAT(said(NetworkQuestion::kProducts).unused, ElementsAre(HasSubstr("does not fit")));
}

TEST_F(RecordedNetwork, ARecordOfAnotherNetworkOrSettingDecidesNothing) {
  Record other = record_of(NetworkQuestion::kProducts, "combined", {});
  other.key.setting.threads = 4;
  Record elsewhere = record_of(NetworkQuestion::kFusions, "combined", {});  // of another question
  store_->add(std::vector{other, elsewhere});
  EXPECT_FALSE(built().network.combined);
  EXPECT_THAT(said(NetworkQuestion::kProducts).unused, ElementsAre(HasSubstr("records of 4 threads, not 2")));
  EXPECT_THAT(said(NetworkQuestion::kFusions).unused, ElementsAre(HasSubstr("{form=combined} does not fit")));
}

TEST_F(RecordedCompilation, ADecisionThatANodeHasStays) {
  const auto before = compiled();
  store_->add(std::vector{record_of(before[2], {"packed", {{"block", 8}}})});
  Graph graph = network();
  const Decision own{"packed", {{"block", 32}}};
  for (Node* node : graph.main.nodes()) node->decision = own;
  CompileOptions options;
  options.records = [&](const Target& asked) {
    return decisions_of(store_, setting_of(asked, kMachine, 2, "speed"));
  };
  for (const NodeDecision& node : build_program(graph, target_, options).decisions)
    EXPECT_EQ(node.decision, own);
}

TEST(Setting, HasTheTargetsFeaturesInOrder) {
  const Setting setting =
      setting_of(with_precision(find_target("x86-64-v3"), Precision::kFp32), "", 0, "speed");
  EXPECT_EQ(setting.target, "x86-64-v3");
  EXPECT_EQ(setting.precision, "fp32");
  EXPECT_THAT(setting.features, HasSubstr("avx2,"));
  const Setting gpu = setting_of(find_target("cuda:sm_80/x86-64-v3"), "", 0, "speed");
  EXPECT_EQ(gpu.features, setting.features);
  EXPECT_NE(gpu.target, setting.target);
}

}  // namespace
}  // namespace gantry::records
