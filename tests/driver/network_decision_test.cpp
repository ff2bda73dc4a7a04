// What decision files say of a network as a whole, and what comes of it.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "host/driver/decision_file.h"
#include "host/driver/program.h"
#include "host/graph/text.h"
#include "host/ops/conv.h"
#include "host/ops/op.h"
#include "host/support/error.h"
#include "tests/support/parallel_network.h"

namespace gantry {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

bool combines(const std::string& text, const std::string& target = "x86-64-v3") {
  return DecisionFile::parse(text, "mine.txt").combines_products(target);
}

std::string error_of(const std::string& text) {
  try {
    DecisionFile::parse(text, "mine.txt");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser);
    return error.what();
  }
  return "";
}

TEST(NetworkDecision, IsReadForTheTargetThatItStandsUnder) {
  EXPECT_FALSE(combines(""));
  EXPECT_FALSE(combines("nn.conv {form=direct, block=16}  // a\n"));
  EXPECT_TRUE(combines("network {form=combined}\n"));
  EXPECT_TRUE(combines("network{form=combined}  // of all targets\n"));
  EXPECT_TRUE(combines("[x86-64-v3]\nnetwork {form=combined}\n"));
  EXPECT_FALSE(combines("[x86-64-v4]\nnetwork {form=combined}\n"));
  EXPECT_FALSE(combines("network {form=combined}\n[x86-64-v3]\nnetwork {form=separate}\n"));
}

TEST(NetworkDecision, SaysWhatItMayBe) {
  EXPECT_THAT(error_of("\nnetwork {form=fused}\n"), HasSubstr("mine.txt:2: a network is {form=combined}"));
  EXPECT_THAT(error_of("network {form=combined, block=8}\n"), HasSubstr("not {form=combined, block=8}"));
  EXPECT_THAT(error_of("network\n"), HasSubstr("'' is no decision"));
  EXPECT_THAT(error_of("networks {form=combined}\n"), HasSubstr("there is no op 'networks'"));
}

TEST(NetworkDecision, IsWrittenInFrontOfTheLinesOfNodes) {
  EXPECT_EQ(decisions_text("x86-64-v3", {}, true), "[x86-64-v3]\nnetwork {form=combined}\n");
  EXPECT_EQ(decisions_text("x86-64-v3", {}), "[x86-64-v3]\n");
}

int count_convolutions(const Function& function) {
  int count = 0;
  for (const Node* node : function.nodes()) {
    count += node->is(nn::conv) ? 1 : 0;
    for (const auto& body : node->bodies) count += count_convolutions(*body);
  }
  return count;
}

TEST(NetworkDecision, CombinesTheProductsOfTheSameData) {
  const Target target = with_precision(find_target("x86-64-v3"), Precision::kFp32);
  CompileOptions options;
  const Program separate = build_program(test::parallel_network(), target, options);
  EXPECT_FALSE(separate.combined);
  EXPECT_EQ(count_convolutions(separate.graph.main), 4);
  options.decisions =
      std::make_shared<const DecisionFile>(DecisionFile::parse("network {form=combined}\n", "mine.txt"));
  const Program combined = build_program(test::parallel_network(), target, options);
  EXPECT_TRUE(combined.combined);
  EXPECT_EQ(count_convolutions(combined.graph.main), 3);
}

TEST(NetworkDecision, StandsInTheModule) {
  CompileOptions options;
  options.targets = {find_target("x86-64-v3")};
  options.decisions =
      std::make_shared<const DecisionFile>(DecisionFile::parse("network {form=combined}\n", "mine.txt"));
  const ModuleFile module = compile_graph(test::parallel_network(), options);
  ASSERT_EQ(module.manifest.variants.size(), 1U);
  const auto& lines = module.manifest.variants[0]->decisions;
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_EQ(lines[0], kCombinedLine);
  EXPECT_THAT(lines[1], StartsWith("nn.conv {form=direct"));
}

}  // namespace
}  // namespace gantry
