// Weights of two and three bf16 parts in a network.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "host/codegen/find_target.h"
#include "host/forms/choose.h"
#include "host/forms/network_error.h"
#include "host/ops/conv.h"
#include "host/ops/dense.h"
#include "host/ops/op.h"

namespace gantry {
namespace {

/// So many convolutions of 14 x 14 points in a chain, in turn from 256 to 64 channels and back.
Graph deep_network(int layers) {
  std::string text = "fn @main(%x0: Tensor[(1, 256, 14, 14), f32]) -> Tensor[(1, 256, 14, 14), f32] {\n";
  for (int i = 0; i < layers; ++i) {
    const int from = i % 2 == 0 ? 256 : 64, to = 320 - from;
    text += fmt::format(
        "  %x{} = nn.conv(%x{}, @w{}: Tensor[({}, {}, 1, 1), f32], channels={}, kernel=[1, 1], "
        "strides=[1, 1], dilations=[1, 1], padding=(0, 0, 0, 0))\n",
        i + 1, i, i, to, from, to);
  }
  return parse_graph(text + fmt::format("  return %x{}\n}}\n", layers), op_set());
}

/// Parts of the weights of a product on tile units.
int64_t chosen_parts(const FormSet& forms, const Node& node) {
  return forms.choose({.node = node, .weight = node.inputs[1], .plain_data = false}).knob("parts");
}

std::unique_ptr<FormSet> forms_of(const Graph& graph, const char* target) {
  return forms::make_forms(with_precision(find_target(target), Precision::kFp32Split), false, &graph.main);
}

/// Convolutions of the network whose weights have two parts.
int layers_of_two_parts(int layers, const char* target) {
  const Graph graph = deep_network(layers);
  const auto forms = forms_of(graph, target);
  int result = 0;
  for (const Node* node : graph.main.nodes()) {
    const int64_t parts = chosen_parts(*forms, *node);
    EXPECT_GE(parts, 2);
    result += parts == 2 ? 1 : 0;
  }
  return result;
}

TEST(ExactWeights, DeepNetworksHaveMoreWeightsInThreeParts) {
  for (const char* target : {"sapphirerapids", "x86-64-v4+avx512bf16", "neoverse-v1"}) {
    EXPECT_EQ(layers_of_two_parts(20, target), 20) << target << ": errors are small";
    EXPECT_EQ(layers_of_two_parts(48, target), 48) << target << ": as many as may be";
    EXPECT_EQ(layers_of_two_parts(60, target), 30) << target << ": one kind has three";
    EXPECT_EQ(layers_of_two_parts(120, target), 0) << target << ": both have";
  }
}

/// An encoder's products, `tokens` rows of `width`: queries, keys and values of one value, then three more.
Graph transformer(int layers, int tokens, int width) {
  std::string text = fmt::format("fn @main(%x0: Tensor[(1, {0}, {1}), f32]) -> Tensor[(1, {0}, {1}), f32] {{\n",
                                 tokens, width);
  for (int i = 0; i < layers; ++i) {
    const auto dense = [&](const std::string& to, const std::string& from, int inputs, int units) {
      text += fmt::format("  %{0}{2} = nn.dense(%{1}{2}, @w{0}{2}: Tensor[({3}, {4}), f32], units={4})\n", to, from,
                          i, inputs, units);
    };
    for (const char* projection : {"q", "k", "v"}) dense(projection, "x", width, width);
    text += fmt::format("  %qk{0} = add(%q{0}, %k{0})\n  %qkv{0} = add(%qk{0}, %v{0})\n", i);
    dense("mixed", "qkv", width, width);
    dense("grown", "mixed", width, 4 * width);
    text += fmt::format("  %x{} = nn.dense(%grown{}, @shrink{}: Tensor[({}, {}), f32], units={})\n", i + 1, i, i,
                        4 * width, width, width);
  }
  return parse_graph(text + fmt::format("  return %x{}\n}}\n", layers), op_set());
}

struct Parts {
  int two = 0, three = 0;
  bool operator==(const Parts&) const = default;
};

/// Products of a transformer by the parts of their weights; those that read one value count once.
Parts parts_of_transformer(int layers, int tokens, int width) {
  const Graph graph = transformer(layers, tokens, width);
  const auto forms = forms_of(graph, "sapphirerapids");
  Parts result;
  std::set<const Value*> read;
  for (const Node* node : graph.main.nodes()) {
    if (!node->is(nn::dense) || !read.insert(node->inputs[0]).second) continue;
    const int64_t parts = chosen_parts(*forms, *node);
    result.two += parts == 2 ? 1 : 0;
    result.three += parts == 3 ? 1 : 0;
  }
  return result;
}

TEST(ExactWeights, ProductsOfTransformersShareTheErrorWhateverTheirLength) {
  for (const int tokens : {50, 95, 96, 128, 149, 150, 512}) {
    EXPECT_EQ(parts_of_transformer(12, tokens, 768), (Parts{48, 0})) << tokens << ": as many as may be";
    const Parts deep = parts_of_transformer(24, tokens, 768);
    EXPECT_EQ(deep.two + deep.three, 96) << tokens;
    EXPECT_LE(deep.two, 48) << tokens;
    EXPECT_GE(deep.two, 24) << tokens << ": the larger products have two";
  }
}

TEST(NetworkError, ThirdPartsGoToTheKindsThatTheyCostLeast) {
  using forms::kinds_for_exact_weights, forms::TwoPartKind;
  const int64_t most = forms::most_products();
  EXPECT_EQ(most, 48);
  EXPECT_EQ(kinds_for_exact_weights({}), std::set<std::string>{});
  const TwoPartKind many{"many", most, 100}, few{"few", 3, 1}, dear{"dear", 2, 1000};
  EXPECT_EQ(kinds_for_exact_weights(std::vector{many}), std::set<std::string>{});
  EXPECT_EQ(kinds_for_exact_weights(std::vector{many, few}), std::set<std::string>{"few"});
  EXPECT_EQ(kinds_for_exact_weights(std::vector{many, dear}), std::set<std::string>{"many"});
  EXPECT_EQ(kinds_for_exact_weights(std::vector{few, many, dear}), std::set<std::string>{"many"});
  TwoPartKind worse{"worse", most / 4 - 1, 2};
  worse.error = 2 * forms::kTwoPartError;
  EXPECT_EQ(forms::most_products(worse.error), most / 4) << "errors add up as their squares do";
  EXPECT_EQ(kinds_for_exact_weights(std::vector{worse}), std::set<std::string>{});
  EXPECT_EQ(kinds_for_exact_weights(std::vector{worse, few, dear}), std::set<std::string>{"few"});
  EXPECT_EQ(kinds_for_exact_weights(std::vector{worse, many}), std::set<std::string>{"worse"});
}

}  // namespace
}  // namespace gantry
