// Convolutions by Winograd's algorithm on CPUs, compiled and run, against a direct convolution in float64.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <optional>

#include "host/ops/conv.h"
#include "host/ops/op.h"
#include "tests/support/compiled_model.h"
#include "tests/targets/cpu/image_convolution.h"

namespace gantry {
namespace {

using testing::runs_here;

struct Layer {
  int64_t tile = 4, batch = 1, height = 14, width = 14, inputs = 32, outputs = 32, block = 32;
  std::vector<int64_t> padding{1, 1, 1, 1};  ///< top, left, bottom, right
  int64_t groups = 1;
  bool symbolic = false;  ///< the graph does not know batch, height and width; padding is 1 everywhere
  std::optional<Slices> slices = {};  ///< of a volume

  int64_t group_inputs() const { return inputs / groups; }
  ImageConvolution image() const {
    return {batch, height, width, inputs, outputs, padding, 3, 1, 1, groups, slices.value_or(Slices{})};
  }
  int64_t out_height() const { return image().out_height(); }
  int64_t out_width() const { return image().out_width(); }
};

Graph network(const Layer& l) {
  const std::string image = l.symbolic ? "B, H, W" : fmt::format("{}, {}, {}", l.batch, l.height, l.width),
                    result = l.symbolic ? image
                                        : fmt::format("{}, {}, {}", l.batch, l.out_height(), l.out_width());
  const std::string text = fmt::format(
      "fn @main(%x: Tensor[({0}, {1}), f32]) -> Tensor[({2}, {3}), f32] {{\n"
      "  %u = nn.winograd_weight(@w: Tensor[({3}, {4}, 3, 3), f32], tile={5}, block={6})\n"
      "  %y = nn.conv(%x, %u, channels={3}, kernel=[3, 3], strides=[1, 1], dilations=[1, 1], "
      "padding=({7}), groups={8}, channels_last=true, algorithm=winograd{5}, weight_block={6})\n"
      "  %z = nn.relu(%y)\n  return %z\n}}\n",
      image, l.inputs, result, l.outputs, l.group_inputs(), l.tile, l.block, fmt::join(l.padding, ", "),
      l.groups);
  return parse_graph(text, op_set());
}

Graph volume_network(const Layer& l) {
  const Slices& z = *l.slices;
  const auto& p = l.padding;
  const std::string text = fmt::format(
      "fn @main(%x: Tensor[({batch}, {depth}, {height}, {width}, {inputs}), f32]) -> Tensor[({batch}, "
      "{out_depth}, {out_height}, {out_width}, {outputs}), f32] {{\n"
      "  %s = transpose(@w: Tensor[({outputs}, {of_group}, {kernel}, 3, 3), f32], axes=[0, 2, 1, 3, 4])\n"
      "  %r = reshape(%s, shape=({outputs}, {window}, 3, 3))\n"
      "  %u = nn.winograd_weight(%r, tile={tile}, block={block})\n"
      "  %y = nn.conv(%x, %u, channels={outputs}, kernel=[{kernel}, 3, 3], strides=[{stride}, 1, 1], "
      "dilations=[{dilation}, 1, 1], padding=({padding}), groups={groups}, channels_last=true, "
      "algorithm=winograd{tile}, weight_block={block})\n"
      "  %z = nn.relu(%y)\n  return %z\n}}\n",
      fmt::arg("batch", l.batch), fmt::arg("depth", z.extent), fmt::arg("height", l.height),
      fmt::arg("width", l.width), fmt::arg("inputs", l.inputs), fmt::arg("outputs", l.outputs),
      fmt::arg("out_depth", z.out()), fmt::arg("out_height", l.out_height()),
      fmt::arg("out_width", l.out_width()), fmt::arg("of_group", l.group_inputs()),
      fmt::arg("kernel", z.kernel), fmt::arg("window", z.kernel * l.group_inputs()), fmt::arg("tile", l.tile),
      fmt::arg("block", l.block), fmt::arg("stride", z.stride), fmt::arg("dilation", z.dilation),
      fmt::arg("padding", fmt::join(std::vector{z.before, p[0], p[1], z.after, p[2], p[3]}, ", ")),
      fmt::arg("groups", l.groups));
  return parse_graph(text, op_set());
}

double error_of(const Layer& l, const std::string& target) {
  Graph graph = l.slices ? volume_network(l) : network(l);
  std::vector<int64_t> window{l.outputs, l.group_inputs(), 3, 3}, data{l.batch, l.height, l.width, l.inputs};
  if (l.slices) {
    window.insert(window.begin() + 2, l.slices->kernel);
    data.insert(data.begin() + 1, l.slices->extent);
  }
  const ConstantPtr weight = testing::random_tensor(DType::kF32, window, 8);
  graph.main.constants().at(0)->constant = weight;
  const ConstantPtr x = testing::random_tensor(DType::kF32, data, 7);
  testing::LocalModel model(testing::compile_to_bytes(graph, {.target = target}));
  const ConstantPtr y = model.run({x}).at(0);
  return testing::relative_error(*y, l.image().rectified(x->as<float>(), weight->as<float>()));
}

double bound(int64_t tile) {
  return tile == 2 ? 2e-6 : tile == 4 ? 4e-6 : 3e-5;
}

class WinogradOnCpu : public ::testing::TestWithParam<std::tuple<const char*, int64_t>> {
 protected:
  void SetUp() override {
    if (!runs_here(target())) GTEST_SKIP() << "this machine has no " << target();
  }
  std::string target() const { return std::get<0>(GetParam()); }
  int64_t tile() const { return std::get<1>(GetParam()); }
  void check(Layer layer) const {
    layer.tile = tile();
    EXPECT_LT(error_of(layer, target()), bound(tile()));
  }
};

TEST_P(WinogradOnCpu, MatchesTheDefinition) {
  check({});
}
TEST_P(WinogradOnCpu, TakesSizesThatTilesDoNotDivide) {
  check({.height = 13, .width = 17});
}
TEST_P(WinogradOnCpu, TakesUnevenPadding) {
  check({.height = 9, .width = 11, .padding = {0, 2, 1, 0}});
}
TEST_P(WinogradOnCpu, TakesNoPadding) {
  check({.height = 12, .width = 10, .padding = {0, 0, 0, 0}});
}
TEST_P(WinogradOnCpu, TakesChannelsThatAreNoMultipleOfABlock) {
  check({.height = 7, .width = 8, .inputs = 19, .outputs = 41, .block = 16});
}
TEST_P(WinogradOnCpu, TakesSeveralImages) {
  check({.batch = 2, .height = 10, .width = 9, .inputs = 16});
}
TEST_P(WinogradOnCpu, TakesOneTile) {
  check({.height = 2, .width = 2});
}
TEST_P(WinogradOnCpu, TakesChunksThatDoNotDivideTheTiles) {
  check({.height = 28, .width = 28, .inputs = 128});
  check({.batch = 2, .height = 14, .width = 14, .inputs = 128});
}
TEST_P(WinogradOnCpu, TakesGroups) {
  check({.inputs = 48, .outputs = 96, .groups = 3});
  check({.batch = 2, .height = 9, .width = 11, .inputs = 24, .outputs = 96, .block = 24, .groups = 2});
  check({.height = 29, .width = 25, .inputs = 112, .outputs = 112, .block = 56, .groups = 2});
  check({.height = 7, .width = 7, .inputs = 40, .outputs = 80, .block = 8, .groups = 5});
}
TEST_P(WinogradOnCpu, TakesImagesOfUnknownSize) {
  check({.height = 29, .width = 23, .inputs = 24, .outputs = 40, .symbolic = true});
  check({.batch = 3, .height = 7, .width = 5, .symbolic = true});
  check({.batch = 2,
         .height = 40,
         .width = 37,
         .inputs = 32,
         .outputs = 48,
         .block = 24,
         .groups = 2,
         .symbolic = true});
}
TEST_P(WinogradOnCpu, TakesVolumes) {
  check({.height = 11, .width = 9, .slices = Slices{.extent = 4, .kernel = 3, .before = 1, .after = 1}});
  check({.height = 8, .width = 8, .slices = Slices{.extent = 3}});
  check({.batch = 2, .inputs = 16, .slices = Slices{.extent = 5, .kernel = 2, .stride = 2, .before = 1}});
  check({.height = 6, .width = 7, .slices = Slices{.extent = 7, .kernel = 3, .dilation = 2, .after = 3}});
}
TEST_P(WinogradOnCpu, TakesVolumesOfGroups) {
  check({.batch = 2,
         .height = 9,
         .width = 8,
         .inputs = 48,
         .outputs = 96,
         .groups = 3,
         .slices = Slices{.extent = 3, .kernel = 3, .before = 1, .after = 1}});
}
TEST_P(WinogradOnCpu, TakesLargeImages) {
  check({.height = 60, .width = 57, .inputs = 64, .outputs = 64});
}

// One chain of additions, or parts as long as the first-level cache allows, are off by 1.3 to 3 times as
// much.
TEST_P(WinogradOnCpu, SumsOfManyChannelsAreMadeInParts) {
  Layer layer{.tile = tile(), .height = 28, .width = 28, .inputs = 512, .outputs = 64};
  for (int64_t block : {32, 64}) {
    layer.block = block;
    EXPECT_LT(error_of(layer, target()), tile() == 2 ? 5e-7 : tile() == 4 ? 1.6e-6 : 1.2e-5) << block;
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, WinogradOnCpu,
                         ::testing::Combine(::testing::Values("x86-64-v2", "x86-64-v3", "x86-64-v4"),
                                            ::testing::Values(2, 4, 6)));

}  // namespace
}  // namespace gantry
