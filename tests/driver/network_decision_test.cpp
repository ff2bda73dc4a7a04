// What decision files say of a network as a whole, and what comes of it.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>

#include "host/codegen/find_target.h"
#include "host/driver/decision_file.h"
#include "host/driver/program.h"
#include "host/graph/text.h"
#include "host/ops/conv.h"
#include "host/ops/op.h"
#include "host/support/error.h"
#include "tests/support/parallel_network.h"

namespace gantry {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

bool combines(const std::string& text, const std::string& target = "x86-64-v3") {
  return DecisionFile::parse(text, "mine.txt").combines_products(target).value_or(false);
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
  EXPECT_TRUE(combines("[x86-64-v3-avx512f]\nnetwork {form=combined}\n")) << "another name of the same";
}

TEST(NetworkDecision, ATargetThatIsNoneIsAnError) {
  EXPECT_THAT(error_of("nn.relu {form=plain}\n[x86-64-v9]\n"),
              AllOf(HasSubstr("mine.txt:2: "), HasSubstr("x86-64-v9")));
  EXPECT_THAT(error_of("[]\n"), HasSubstr("mine.txt:1: the target's name is empty"));
}

TEST(NetworkDecision, StandsOnceForATarget) {
  EXPECT_EQ(error_of("network {form=combined}\n# again\nnetwork {form=separate}\n"),
            "mine.txt:3: whether the network is combined is said already for all targets, by mine.txt:1; "
            "leave one of the "
            "lines out");
  EXPECT_THAT(
      error_of("[x86-64-v3]\nnetwork {form=combined}\n[cortex-a72]\nnetwork {form=combined}\n"
               "[x86-64-v3]\nnetwork {form=combined}\n"),
      StartsWith(
          "mine.txt:6: whether the network is combined is said already for x86-64-v3, by mine.txt:2;"));
}

TEST(NetworkDecision, SaysWhatItMayBe) {
  EXPECT_THAT(error_of("network {form=combine}\n"),
              HasSubstr("not {form=combine}; did you mean 'combined'?"));

  EXPECT_THAT(error_of("\nnetwork {form=fused}\n"), HasSubstr("mine.txt:2: a network is {form=combined}"));
  EXPECT_THAT(error_of("network {form=combined, block=8}\n"), HasSubstr("not {form=combined, block=8}"));
  EXPECT_THAT(error_of("network\n"), HasSubstr("'' is no decision"));
  EXPECT_THAT(error_of("networks {form=combined}\n"), HasSubstr("there is no op 'networks'"));
}

constexpr const char* kApart = "network {form=apart} nn.conv nn.relu  // stem.conv, stem.bn -> stem.relu\n";

TEST(NetworkDecision, KeepsNodesApartForTheTargetThatItStandsUnder) {
  const DecisionFile file = DecisionFile::parse(std::string(kApart) + "[x86-64-v4]\n" + kApart, "mine.txt");
  EXPECT_EQ(file.apart("x86-64-v4").size(), 2U);
  EXPECT_EQ(file.combines_products("x86-64-v4"), std::nullopt);
  const auto edges = file.apart("x86-64-v3");
  ASSERT_EQ(edges.size(), 1U);
  EXPECT_EQ(edges[0].place, "mine.txt:1");
  EXPECT_EQ(edges[0].edge.maker, (NodeName{op_set().find("nn.conv"), {"stem.conv", "stem.bn"}}));
  EXPECT_EQ(edges[0].edge.reader, (NodeName{op_set().find("nn.relu"), {"stem.relu"}}));
}

TEST(NetworkDecision, NamesOfNodesGoThroughText) {
  const Separation edges[] = {
      {{op_set().find("nn.conv"), {"a -> b", "c"}}, {op_set().find("nn.relu"), {"d->e"}}},
      {{op_set().find("nn.conv"), {"a, \"b\" -> c"}}, {op_set().find("nn.relu"), {"\\ -> //", "x"}}},
      {{op_set().find("nn.conv"), {}}, {op_set().find("nn.relu"), {"//x"}}}};
  for (const Separation& edge : edges) {
    const std::string text = decisions_text("x86-64-v3", {}, {.apart = {edge}});
    SCOPED_TRACE(text);
    const auto read = DecisionFile::parse(text, "mine.txt").apart("x86-64-v3");
    ASSERT_EQ(read.size(), 1U);
    EXPECT_EQ(read[0].edge, edge);
  }
  EXPECT_EQ(decisions_text("a", {}, {.apart = {DecisionFile::parse(kApart, "mine.txt").apart("a")[0].edge}}),
            std::string("[a]\n") + kApart);
}

TEST(NetworkDecision, WhatIsKeptApartIsNamedByTwoOpsAndTheirNodes) {
  for (const char* line :
       {"network {form=apart}\n", "network {form=apart} nn.conv\n", "network {form=apart} nn.conv nn.relu\n",
        "network {form=apart} nn.conv nn.relu // a, b\n", "network {form=apart} // a -> b\n"})
    EXPECT_THAT(error_of(line), HasSubstr("mine.txt:1: behind {form=apart} stand two ops")) << line;
  EXPECT_THAT(error_of("network {form=apart} nn.conf nn.relu // a -> b\n"),
              HasSubstr("there is no op 'nn.conf'"));
  EXPECT_THAT(error_of("network {form=apart, block=8} nn.conv nn.relu // a -> b\n"),
              HasSubstr("not {form=apart, block=8}"));
}

TEST(NetworkDecision, IsWrittenInFrontOfTheLinesOfNodes) {
  EXPECT_EQ(decisions_text("x86-64-v3", {}, {.combined = true}), "[x86-64-v3]\nnetwork {form=combined}\n");
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
  EXPECT_FALSE(separate.network.combined);
  EXPECT_EQ(count_convolutions(separate.graph.main), 4);
  options.decisions =
      std::make_shared<const DecisionFile>(DecisionFile::parse("network {form=combined}\n", "mine.txt"));
  const Program combined = build_program(test::parallel_network(), target, options);
  EXPECT_TRUE(combined.network.combined);
  EXPECT_EQ(count_convolutions(combined.graph.main), 3);
}

/// A convolution, and two elementwise nodes behind it.
Graph chain() {
  return parse_graph(
      "fn @main(%x: Tensor[(1, 16, 12, 12), f32]) -> Tensor[(1, 16, 12, 12), f32] {\n"
      "  %a = nn.conv(%x, @w: Tensor[(16, 16, 3, 3), f32], channels=16, kernel=[3, 3], strides=[1, 1], "
      "dilations=[1, 1], "
      "padding=(1, 1, 1, 1))  // a\n"
      "  %b = nn.relu(%a)  // b\n  %c = exp(%b)  // c\n  return %c\n}\n",
      op_set(), {{"w", testing::small_weights({16, 16, 3, 3})}});
}

/// Whether nodes of the model share a kernel.
bool share(const std::string& decisions, const std::string& one, const std::string& other) {
  CompileOptions options;
  options.decisions = std::make_shared<const DecisionFile>(DecisionFile::parse(decisions, "mine.txt"));
  const Program program =
      build_program(chain(), with_precision(find_target("x86-64-v3"), Precision::kFp32), options);
  return std::ranges::any_of(program.graph.main.nodes(), [&](const Node* node) {
    return std::ranges::count(node->origin, one) > 0 && std::ranges::count(node->origin, other) > 0;
  });
}

TEST(NetworkDecision, KeepsNodesApart) {
  const std::string first = "network {form=apart} nn.conv nn.relu  // a -> b\n";
  const std::string second = "network {form=apart} nn.relu exp  // b -> c\n";
  EXPECT_TRUE(share("", "a", "b"));
  EXPECT_TRUE(share("", "b", "c"));
  EXPECT_FALSE(share(first, "a", "b"));
  EXPECT_TRUE(share(first, "b", "c"));
  EXPECT_TRUE(share(second, "a", "b"));
  EXPECT_FALSE(share(second, "b", "c"));
  EXPECT_FALSE(share(first + "nn.conv {form=direct, block=16}  // a\n", "a", "b"));
  EXPECT_TRUE(share("[x86-64-v4]\n" + first, "a", "b"));
}

TEST(NetworkDecision, WhatIsKeptApartHasToBeThere) {
  for (const char* edge :
       {"nn.conv nn.relu  // b -> a", "nn.conv exp  // a -> c", "nn.conv nn.relu  // a -> d"}) {
    try {
      share(std::string("\nnetwork {form=apart} ") + edge + "\n", "a", "b");
      FAIL() << edge;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUser);
      EXPECT_THAT(error.what(), HasSubstr("mine.txt:2: no "));
    }
  }
}

TEST(NetworkDecision, KeptApartStandsInTheModule) {
  CompileOptions options;
  options.targets = {find_target("x86-64-v3")};
  options.decisions = std::make_shared<const DecisionFile>(
      DecisionFile::parse("network {form=apart} nn.conv nn.relu  // a -> b\n", "mine.txt"));
  const ModuleFile module = compile_graph(chain(), options);
  EXPECT_EQ(module.manifest.variants.at(0)->decisions.at(0),
            "network {form=apart} nn.conv nn.relu  // a -> b");
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
