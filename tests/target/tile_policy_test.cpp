#include "host/target/cpu/tile_policy.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "host/ops/conv.h"
#include "host/ops/op.h"
#include "host/target/layout_policy.h"

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

/// Convolutions of the network whose weights have two parts.
int layers_of_two_parts(int layers, const char* target) {
  const Graph graph = deep_network(layers);
  const LayoutPolicy policy =
      make_layout_policy(with_precision(find_target(target), Precision::kFp32Split), &graph.main);
  int result = 0;
  for (const Node* node : graph.main.nodes()) {
    const auto& attrs = node->attrs_as<ConvAttrs>();
    const TiledConv conv = policy.conv_tiles(attrs, node->inputs[0]->type, node->result()->type);
    EXPECT_GE(conv.parts, 2);
    result += conv.parts == 2 ? 1 : 0;
  }
  return result;
}

TEST(TilePolicy, DeepNetworksHaveMoreWeightsInThreeParts) {
  for (const char* target : {"sapphirerapids", "x86-64-v4+avx512bf16", "neoverse-v1"}) {
    EXPECT_EQ(layers_of_two_parts(20, target), 20) << target << ": errors are small";
    EXPECT_EQ(layers_of_two_parts(48, target), 48) << target << ": as many as may be";
    EXPECT_EQ(layers_of_two_parts(60, target), 30) << target << ": one kind has three";
    EXPECT_EQ(layers_of_two_parts(120, target), 0) << target << ": both have";
  }
}

}  // namespace
}  // namespace gantry
