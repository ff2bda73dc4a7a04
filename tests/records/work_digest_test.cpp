// The digest of a node's work: equal for nodes that give a kernel the same to compute, and for no others.
#include "host/passes/work_digest.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <set>

#include "host/ops/op.h"

namespace gantry {
namespace {

/// The digest of the first node of a function of that text.
std::string digest(const std::string& text) {
  const Graph graph = parse_graph(text, op_set());
  return work_digest(graph.main, *graph.main.nodes().front());
}

struct Conv {
  std::string input = "(1, 8, 12, 12), f32";
  std::string weight = "@w: Tensor[(16, 8, 3, 3), f32]";
  std::string attrs = "strides=[1, 1], dilations=[1, 1], padding=(1, 1, 1, 1)";
  std::string output = "(1, 16, 12, 12), f32";
  std::string rest = "  return %y\n";
  std::string head;  ///< further parameters
  std::string node = "y";

  std::string text() const {
    return fmt::format(
        "fn @main(%x: Tensor[{}]{}) -> Tensor[{}] {{\n  %{} = nn.conv(%x, {}, channels=16, kernel=[3, 3], "
        "{})\n{}}}\n",
        input, head, output, node, weight, attrs, rest);
  }
};

TEST(WorkDigest, IsADigest) {
  EXPECT_THAT(digest(Conv().text()), ::testing::MatchesRegex("[0-9a-f]{64}"));
}

TEST(WorkDigest, NamesOriginsAndWeightsValuesDoNotCount) {
  const std::string own = digest(Conv().text());
  EXPECT_EQ(digest(Conv{.rest = "  return %other\n", .node = "other"}.text()), own);
  EXPECT_EQ(digest(Conv{.weight = "@weights_of_another: Tensor[(16, 8, 3, 3), f32]"}.text()), own);
  std::string with_origin = Conv().text();
  with_origin.insert(with_origin.find("\n  return"), "  // Conv_7");
  EXPECT_EQ(digest(with_origin), own);
}

TEST(WorkDigest, EveryExtentAttributeAndTypeCounts) {
  std::set<std::string> all = {digest(Conv().text())};
  const Conv others[] = {
      {.input = "(2, 8, 12, 12), f32", .output = "(2, 16, 12, 12), f32"},
      {.input = "(1, 8, 13, 12), f32", .output = "(1, 16, 13, 12), f32"},
      {.input = "(1, 8, 12, 13), f32", .output = "(1, 16, 12, 13), f32"},
      {.input = "(1, 4, 12, 12), f32", .weight = "@w: Tensor[(16, 4, 3, 3), f32]"},
      {.attrs = "strides=[2, 2], dilations=[1, 1], padding=(1, 1, 1, 1)", .output = "(1, 16, 6, 6), f32"},
      {.attrs = "strides=[1, 1], dilations=[2, 2], padding=(2, 2, 2, 2)"},
      {.attrs = "strides=[1, 1], dilations=[1, 1], padding=(0, 0, 2, 2)"},
      {.input = "(1, 8, 12, 12), f16",
       .weight = "@w: Tensor[(16, 8, 3, 3), f16]",
       .output = "(1, 16, 12, 12), f16"},
      // Weights that are no constant cannot be packed before the program runs.
      {.weight = "%w", .head = ", %w: Tensor[(16, 8, 3, 3), f32]"},
  };
  for (const Conv& other : others) EXPECT_TRUE(all.insert(digest(other.text())).second) << other.text();
}

TEST(WorkDigest, SymbolsCountByWhereTheyAreEqual) {
  const auto of = [](const char* batch, const char* height, const char* width) {
    const std::string shape = fmt::format("{}, {{}}, {}, {}", batch, height, width);
    return digest(Conv{.input = "(" + fmt::format(fmt::runtime(shape), 8) + "), f32",
                       .output = "(" + fmt::format(fmt::runtime(shape), 16) + "), f32"}
                      .text());
  };
  EXPECT_EQ(of("N", "H", "W"), of("batch", "rows", "columns"));
  EXPECT_NE(of("N", "H", "W"), of("N", "H", "H"));
  EXPECT_NE(of("N", "H", "W"), of("1", "H", "W"));
}

TEST(WorkDigest, ElementwiseNodesBehindItCountAsFarAsItsKernelTakesThemIn) {
  const std::string alone = digest(Conv().text());
  const std::string relu = digest(Conv{.rest = "  %z = nn.relu(%y)\n  return %z\n"}.text());
  const std::string sum = digest(
      Conv{.rest = "  %z = add(%y, %s)\n  return %z\n", .head = ", %s: Tensor[(1, 16, 12, 12), f32]"}.text());
  const std::string both = digest(Conv{.rest = "  %r = nn.relu(%y)\n  %z = add(%r, %s)\n  return %z\n",
                                       .head = ", %s: Tensor[(1, 16, 12, 12), f32]"}
                                      .text());
  EXPECT_EQ(std::set({alone, relu, sum, both}).size(), 4u);
  // A kernel of its own: what two nodes read, what is not elementwise.
  EXPECT_EQ(
      digest(
          Conv{.rest = "  %r = nn.relu(%y)\n  %s = sigmoid(%y)\n  %z = add(%r, %s)\n  return %z\n"}.text()),
      alone);
  EXPECT_EQ(digest(Conv{.rest = "  %z = nn.softmax(%y, axis=1)\n  return %z\n"}.text()), alone);
}

std::string network(const std::string& text, NetworkQuestion question = NetworkQuestion::kLayouts) {
  return network_digest(parse_graph(text, op_set()).main, question);
}

TEST(NetworkDigest, IsOfAllNodesTheirOrderAndTheQuestion) {
  const std::string own = Conv().text();
  EXPECT_THAT(network(own), ::testing::MatchesRegex("[0-9a-f]{64}"));
  EXPECT_NE(network(own), digest(own));
  std::set<std::string> all;
  for (const NetworkQuestion question : network_questions()) all.insert(network(own, question));
  EXPECT_EQ(all.size(), 3u);
  // What no kernel of the first node takes in counts, too, and what is returned.
  all = {network(own),
         network(Conv{.rest = "  %z = nn.softmax(%y, axis=1)\n  return %z\n"}.text()),
         network(Conv{.rest = "  %z = nn.softmax(%y, axis=2)\n  return %z\n"}.text()),
         network(Conv{.rest = "  %r = nn.relu(%y)\n  %s = sigmoid(%y)\n  return %r\n"}.text()),
         network(Conv{.rest = "  %r = nn.relu(%y)\n  %s = sigmoid(%y)\n  return %s\n"}.text()),
         network(Conv{.rest = "  %s = sigmoid(%y)\n  %r = nn.relu(%y)\n  return %r\n"}.text())};
  EXPECT_EQ(all.size(), 6u);
}

TEST(NetworkDigest, NamesAndWeightsValuesDoNotCountAndDecisionsDo) {
  const std::string own = network(Conv().text());
  EXPECT_EQ(network(Conv{.rest = "  return %other\n", .node = "other"}.text()), own);
  EXPECT_EQ(network(Conv{.weight = "@another: Tensor[(16, 8, 3, 3), f32]"}.text()), own);
  Graph decided = parse_graph(Conv().text(), op_set());
  decided.main.nodes().front()->decision = Decision{"direct", {{"block", 8}}};
  EXPECT_NE(network_digest(decided.main, NetworkQuestion::kLayouts), own);
  EXPECT_EQ(work_digest(decided.main, *decided.main.nodes().front()), digest(Conv().text()));
}

TEST(WorkDigest, NumbersInCodeCount) {
  const auto scaled = [](const char* factor) {
    return digest(
        Conv{.rest = fmt::format("  %z = multiply(%y, const(f32, [], [{}]))\n  return %z\n", factor)}.text());
  };
  EXPECT_EQ(scaled("2"), scaled("2"));
  EXPECT_NE(scaled("2"), scaled("3"));
}

}  // namespace
}  // namespace gantry
