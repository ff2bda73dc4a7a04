// Convolutions on CPUs, compiled and run, against a direct convolution in float64, and the choice of
// algorithms.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "host/ops/conv.h"
#include "host/ops/op.h"
#include "host/target/cpu/conv_model.h"
#include "host/target/cpu/winograd_model.h"
#include "tests/support/compiled_model.h"

namespace gantry {
namespace {

struct Layer {
  int64_t tile = 4, batch = 1, height = 14, width = 14, inputs = 32, outputs = 32, block = 32;
  std::vector<int64_t> padding{1, 1, 1, 1};  ///< top, left, bottom, right
  int64_t groups = 1;
  bool symbolic = false;  ///< the graph does not know batch, height and width; padding is 1 everywhere

  int64_t group_inputs() const { return inputs / groups; }
  int64_t out_height() const { return height + padding[0] + padding[2] - 2; }
  int64_t out_width() const { return width + padding[1] + padding[3] - 2; }
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

/// The rectified convolution; the weight as the graph has it.
std::vector<double> expected(const Layer& l, const float* x, const float* w) {
  std::vector<double> y;
  for (int64_t n = 0; n < l.batch; ++n)
    for (int64_t oy = 0; oy < l.out_height(); ++oy)
      for (int64_t ox = 0; ox < l.out_width(); ++ox)
        for (int64_t o = 0; o < l.outputs; ++o) {
          double total = 0;
          for (int64_t ky = 0; ky < 3; ++ky)
            for (int64_t kx = 0; kx < 3; ++kx) {
              const int64_t iy = oy + ky - l.padding[0], ix = ox + kx - l.padding[1];
              if (iy < 0 || ix < 0 || iy >= l.height || ix >= l.width) continue;
              const int64_t first = o / (l.outputs / l.groups) * l.group_inputs();
              for (int64_t i = 0; i < l.group_inputs(); ++i)
                total += double(x[((n * l.height + iy) * l.width + ix) * l.inputs + first + i]) *
                         double(w[((o * l.group_inputs() + i) * 3 + ky) * 3 + kx]);
            }
          y.push_back(std::max(total, 0.0));
        }
  return y;
}

double error_of(const Layer& l, const std::string& target) {
  Graph graph = network(l);
  const ConstantPtr weight = testing::random_tensor(DType::kF32, {l.outputs, l.group_inputs(), 3, 3}, 8);
  graph.main.constants().at(0)->constant = weight;
  const ConstantPtr x = testing::random_tensor(DType::kF32, {l.batch, l.height, l.width, l.inputs}, 7);
  testing::LocalModel model(testing::compile_to_bytes(graph, {.target = target}));
  const ConstantPtr y = model.run({x}).at(0);
  const std::vector<double> reference = expected(l, x->as<float>(), weight->as<float>());
  EXPECT_EQ(y->size, reference.size() * sizeof(float));
  double worst = 0, largest = 0;
  for (size_t i = 0; i < reference.size(); ++i) {
    worst = std::max(worst, std::abs(double(y->as<float>()[i]) - reference[i]));
    largest = std::max(largest, std::abs(reference[i]));
  }
  return worst / largest;
}

double bound(int64_t tile) {
  return tile == 2 ? 2e-6 : tile == 4 ? 1e-5 : 3e-5;
}

bool runs_here(const std::string& target) {
  return target != "x86-64-v4" || __builtin_cpu_supports("avx512f");
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
TEST_P(WinogradOnCpu, TakesLargeImages) {
  check({.height = 60, .width = 57, .inputs = 64, .outputs = 64});
}

INSTANTIATE_TEST_SUITE_P(Targets, WinogradOnCpu,
                         ::testing::Combine(::testing::Values("x86-64-v2", "x86-64-v3", "x86-64-v4"),
                                            ::testing::Values(2, 4, 6)));

/// A convolution as a model has it, (N, C, H, W), of square windows.
struct PlainLayer {
  int64_t inputs = 3, outputs = 24, height = 19, width = 37, kernel = 3, stride = 1, padding = 0,
          dilation = 1;

  int64_t out(int64_t extent) const {
    return (extent + 2 * padding - (kernel - 1) * dilation - 1) / stride + 1;
  }
};

/// Of two images, against the definition.
double plain_error(const std::string& target, const PlainLayer& l) {
  const int64_t rows = l.out(l.height), columns = l.out(l.width);
  const ConstantPtr w = testing::random_tensor(DType::kF32, {l.outputs, l.inputs, l.kernel, l.kernel}, 3);
  const std::string text = fmt::format(
      "fn @main(%x: Tensor[(2, {0}, {1}, {2}), f32]) -> Tensor[(2, {3}, {4}, {5}), f32] {{\n"
      "  %y = nn.conv(%x, @w: Tensor[({3}, {0}, {6}, {6}), f32], channels={3}, kernel=[{6}, {6}], "
      "strides=[{7}, {7}], dilations=[{9}, {9}], padding=({8}, {8}, {8}, {8}))\n  return %y\n}}\n",
      l.inputs, l.height, l.width, l.outputs, rows, columns, l.kernel, l.stride, l.padding, l.dilation);
  const ConstantPtr x = testing::random_tensor(DType::kF32, {2, l.inputs, l.height, l.width}, 4);
  testing::LocalModel model(
      testing::compile_to_bytes(parse_graph(text, op_set(), {{"w", w}}), {.target = target}));
  const ConstantPtr y = model.run({x}).at(0);
  double worst = 0, largest = 0;
  for (int64_t at = 0; at < 2 * l.outputs * rows * columns; ++at) {
    const int64_t ox = at % columns, oy = at / columns % rows, o = at / (columns * rows) % l.outputs,
                  n = at / (columns * rows * l.outputs);
    double total = 0;
    for (int64_t c = 0; c < l.inputs; ++c)
      for (int64_t ky = 0; ky < l.kernel; ++ky)
        for (int64_t kx = 0; kx < l.kernel; ++kx) {
          const int64_t iy = oy * l.stride + ky * l.dilation - l.padding,
                        ix = ox * l.stride + kx * l.dilation - l.padding;
          if (iy < 0 || ix < 0 || iy >= l.height || ix >= l.width) continue;
          total += double(x->as<float>()[((n * l.inputs + c) * l.height + iy) * l.width + ix]) *
                   double(w->as<float>()[((o * l.inputs + c) * l.kernel + ky) * l.kernel + kx]);
        }
    worst = std::max(worst, std::abs(double(y->as<float>()[at]) - total));
    largest = std::max(largest, std::abs(total));
  }
  return worst / largest;
}

/// A convolution of a volume (1, C, D, H, W) with windows of 3 x 3 x 3 and padding of 1, against the
/// definition.
double volume_error(const std::string& target, int64_t inputs, int64_t outputs, int64_t depth, int64_t side) {
  const ConstantPtr w = testing::random_tensor(DType::kF32, {outputs, inputs, 3, 3, 3}, 3);
  const std::string text = fmt::format(
      "fn @main(%x: Tensor[(1, {0}, {2}, {3}, {3}), f32]) -> Tensor[(1, {1}, {2}, {3}, {3}), f32] {{\n"
      "  %y = nn.conv(%x, @w: Tensor[({1}, {0}, 3, 3, 3), f32], channels={1}, kernel=[3, 3, 3], "
      "strides=[1, 1, 1], dilations=[1, 1, 1], padding=(1, 1, 1, 1, 1, 1))\n  return %y\n}}\n",
      inputs, outputs, depth, side);
  const ConstantPtr x = testing::random_tensor(DType::kF32, {1, inputs, depth, side, side}, 4);
  testing::LocalModel model(
      testing::compile_to_bytes(parse_graph(text, op_set(), {{"w", w}}), {.target = target}));
  const ConstantPtr y = model.run({x}).at(0);
  double worst = 0, largest = 0;
  const int64_t points = depth * side * side;
  for (int64_t at = 0; at < outputs * points; ++at) {
    const int64_t o = at / points, z = at % points / (side * side), line = at / side % side,
                  column = at % side;
    double total = 0;
    for (int64_t tap = 0; tap < 27; ++tap) {
      const int64_t iz = z + tap / 9 - 1, iy = line + tap / 3 % 3 - 1, ix = column + tap % 3 - 1;
      if (iz < 0 || iy < 0 || ix < 0 || iz >= depth || iy >= side || ix >= side) continue;
      for (int64_t c = 0; c < inputs; ++c)
        total += double(x->as<float>()[((c * depth + iz) * side + iy) * side + ix]) *
                 double(w->as<float>()[(o * inputs + c) * 27 + tap]);
    }
    worst = std::max(worst, std::abs(double(y->as<float>()[at]) - total));
    largest = std::max(largest, std::abs(total));
  }
  return worst / largest;
}

class PlainConvolutionOnCpu : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!runs_here(GetParam())) GTEST_SKIP() << "this machine has no " << GetParam();
  }
};

TEST_P(PlainConvolutionOnCpu, MatchesTheDefinitionForFirstLayers) {
  EXPECT_LT(plain_error(GetParam(), {.kernel = 7, .stride = 2, .padding = 3}), 2e-6);
  EXPECT_LT(plain_error(GetParam(), {.kernel = 3, .stride = 2, .padding = 1}), 2e-6);
  EXPECT_LT(plain_error(GetParam(), {.inputs = 1, .kernel = 5}), 2e-6);
  EXPECT_LT(plain_error(GetParam(), {.inputs = 4, .kernel = 1}), 2e-6);
}

// Taps in the padding are left out.
TEST_P(PlainConvolutionOnCpu, MatchesTheDefinitionForVolumes) {
  EXPECT_LT(volume_error(GetParam(), 24, 40, 4, 9), 2e-6);
  EXPECT_LT(volume_error(GetParam(), 3, 16, 1, 12), 2e-6);
  EXPECT_LT(volume_error(GetParam(), 64, 32, 2, 7), 2e-6);
}

// The reduction is cut, and taps in the padding are left out.
TEST_P(PlainConvolutionOnCpu, MatchesTheDefinitionForSmallImagesOfManyChannels) {
  const PlainLayer layer{.inputs = 320, .outputs = 64, .height = 7, .width = 7, .padding = 1};
  // Winograd's algorithm may be chosen.
  auto check = [&](PlainLayer l) { EXPECT_LT(plain_error(GetParam(), l), bound(6)); };
  check(layer);
  PlainLayer changed = layer;
  changed.height = changed.width = 13;
  changed.stride = 2;
  check(changed);
  changed = layer;
  changed.dilation = changed.padding = 2;
  check(changed);
  changed = layer;
  changed.kernel = 5;
  changed.padding = 3;  // windows that see one line, columns beyond the image
  check(changed);
  changed = layer;
  changed.height = 5;
  changed.width = 14;
  check(changed);
}

TEST_P(PlainConvolutionOnCpu, MatchesTheDefinitionWhereSomeWindowsLieInThePaddingAlone) {
  EXPECT_LT(plain_error(GetParam(), {.inputs = 320, .outputs = 64, .height = 6, .width = 6, .padding = 4}),
            bound(6));
}

INSTANTIATE_TEST_SUITE_P(Targets, PlainConvolutionOnCpu,
                         ::testing::Values("x86-64-v2", "x86-64-v3", "x86-64-v4"));

TEST(ConvModel, ReadsImagesOfFewChannelsAsTheyLie) {
  ConvAttrs attrs;
  attrs.kernel = {7, 7};
  const MachineModel& wide = find_target("x86-64-v4").machine;
  EXPECT_TRUE(cpu::prefers_plain_data(attrs, {DType::kF32, {1, 3, 224, 224}}, wide));
  EXPECT_FALSE(cpu::prefers_plain_data(attrs, {DType::kF32, {1, 64, 56, 56}}, wide));
  EXPECT_FALSE(
      cpu::prefers_plain_data(attrs, {DType::kF32, {1, 3, 224, 224}}, find_target("cortex-a76").machine))
      << "products take lanes of neighbouring channels";
}

ConvAlgorithm chosen(int64_t channels, int64_t size, int64_t outputs, int64_t kernel = 3,
                     int64_t stride = 1) {
  ConvAttrs attrs;
  attrs.channels = outputs;
  attrs.kernel = {kernel, kernel};
  attrs.strides = {stride, stride};
  attrs.dilations = {1, 1};
  attrs.padding = {kernel / 2, kernel / 2, kernel / 2, kernel / 2};
  const int64_t result = (size - 1) / stride + 1;
  return cpu::choose_conv_algorithm(attrs, {DType::kF32, {1, channels, size, size}},
                                    {DType::kF32, {1, outputs, result, result}},
                                    find_target("x86-64-v4").machine);
}

TEST(ConvModel, ChoosesWinogradForLargeImagesOfManyChannels) {
  EXPECT_GE(winograd_tile(chosen(64, 224, 64)), 4);
  EXPECT_GE(winograd_tile(chosen(64, 56, 64)), 4);
  EXPECT_GE(winograd_tile(chosen(128, 28, 128)), 4);
}

TEST(WinogradModel, DividesAnOddNumberOfTilesForTwoThreads) {
  const cpu::WinogradWork work{.tile = 4, .height = 28, .width = 28, .inputs = 128, .outputs = 32};
  const cpu::WinogradPlan plan = cpu::plan_winograd(work, find_target("x86-64-v4").machine);
  EXPECT_EQ(plan.chunk, 25);  // of 49
  EXPECT_FALSE(plan.input_at_root);
}

TEST(WinogradModel, KeepsAnImageTogetherWhereWeightsComeFromMemory) {
  const cpu::WinogradWork work{.tile = 2, .height = 14, .width = 14, .inputs = 512, .outputs = 512};
  const cpu::WinogradPlan plan = cpu::plan_winograd(work, find_target("x86-64-v4").machine);
  EXPECT_EQ(plan.chunk, 49);
  EXPECT_TRUE(plan.input_at_root);
}

TEST(ConvModel, KeepsToDirectConvolutionsWhereWeightsOutweighTheImage) {
  EXPECT_EQ(chosen(512, 7, 512), ConvAlgorithm::kDirect);
}

TEST(ConvModel, ComputesNarrowGroupsSeveralAtOnce) {
  ConvAttrs attrs;
  attrs.channels = 128;
  attrs.groups = 32;
  attrs.kernel = {3, 3};
  attrs.strides = attrs.dilations = {1, 1};
  attrs.padding = {1, 1, 1, 1};
  const TensorType image{DType::kF32, {1, 128, 56, 56}};
  const int64_t merged = cpu::choose_merged_groups(attrs, image, image, find_target("x86-64-v4").machine);
  EXPECT_GT(merged, 1);
  EXPECT_EQ(attrs.groups % merged, 0);
}

// Of a model whose images may have any size, deeper layers are planned for smaller ones.
TEST(ConvModel, GuessesUnknownExtentsFromThoseOfTheModel) {
  ConvAttrs attrs;
  attrs.channels = 512;
  attrs.kernel = {3, 3};
  attrs.strides = attrs.dilations = {1, 1};
  attrs.padding = {1, 1, 1, 1};
  auto algorithm = [&](int64_t channels, int64_t parts) {
    attrs.channels = channels;
    auto extent = [&](const char* name) { return floordiv(Dim::symbol(name), Dim(parts)); };
    const TensorType image{DType::kF32, {1, channels, extent("height"), extent("width")}};
    return cpu::choose_conv_algorithm(attrs, image, image, find_target("x86-64-v4").machine);
  };
  EXPECT_GE(winograd_tile(algorithm(64, 4)), 4);
  EXPECT_EQ(algorithm(512, 32), ConvAlgorithm::kDirect);
}

TEST(ConvModel, ChoosesWinogradForGroupsOfManyChannels) {
  ConvAttrs attrs;
  attrs.channels = 224;
  attrs.groups = 4;
  attrs.kernel = {3, 3};
  attrs.strides = attrs.dilations = {1, 1};
  attrs.padding = {1, 1, 1, 1};
  const TensorType image{DType::kF32, {1, 224, 56, 56}};
  const MachineModel& machine = find_target("x86-64-v4").machine;
  attrs.algorithm = cpu::choose_conv_algorithm(attrs, image, image, machine);
  EXPECT_GE(winograd_tile(attrs.algorithm), 4);
  EXPECT_EQ(56 % cpu::winograd_block(attrs, image, image, machine), 0) << "blocks are whole in a group";
}

// Groups of several channels in and out, in the model's layout: the compiler merges and packs them and
// chooses an algorithm.
struct GroupedLayer {
  int64_t groups = 8, inputs = 4, outputs = 4, size = 9, kernel = 3, stride = 1;  ///< channels of a group

  int64_t out() const { return (size - 1) / stride + 1; }
};

/// With padding of half a window.
double grouped_error(const std::string& target, const GroupedLayer& l) {
  const int64_t channels = l.groups * l.outputs, pad = l.kernel / 2;
  Graph graph = parse_graph(
      fmt::format(
          "fn @main(%x: Tensor[(1, {0}, {1}, {1}), f32]) -> Tensor[(1, {2}, {3}, {3}), f32] {{\n"
          "  %y = nn.conv(%x, @w: Tensor[({2}, {4}, {5}, {5}), f32], channels={2}, kernel=[{5}, {5}], "
          "strides=[{6}, {6}], dilations=[1, 1], padding=({7}, {7}, {7}, {7}), groups={8})\n"
          "  return %y\n}}\n",
          l.groups * l.inputs, l.size, channels, l.out(), l.inputs, l.kernel, l.stride, pad, l.groups),
      op_set());
  const ConstantPtr w = testing::random_tensor(DType::kF32, {channels, l.inputs, l.kernel, l.kernel}, 3);
  graph.main.constants().at(0)->constant = w;
  const ConstantPtr x = testing::random_tensor(DType::kF32, {1, l.groups * l.inputs, l.size, l.size}, 4);
  testing::LocalModel model(testing::compile_to_bytes(graph, {.target = target}));
  const ConstantPtr y = model.run({x}).at(0);
  double worst = 0, largest = 0;
  for (int64_t o = 0; o < channels; ++o)
    for (int64_t p = 0; p < l.out() * l.out(); ++p) {
      double total = 0;
      for (int64_t i = 0; i < l.inputs; ++i)
        for (int64_t k = 0; k < l.kernel * l.kernel; ++k) {
          const int64_t iy = p / l.out() * l.stride + k / l.kernel - pad,
                        ix = p % l.out() * l.stride + k % l.kernel - pad;
          if (iy < 0 || ix < 0 || iy >= l.size || ix >= l.size) continue;
          total += double(x->as<float>()[((o / l.outputs * l.inputs + i) * l.size + iy) * l.size + ix]) *
                   double(w->as<float>()[(o * l.inputs + i) * l.kernel * l.kernel + k]);
        }
      largest = std::max(largest, std::abs(total));
      worst = std::max(worst, std::abs(double(y->as<float>()[o * l.out() * l.out() + p]) - total));
    }
  return worst / largest;
}

void check_groups(const GroupedLayer& l) {
  for (const std::string target : {"x86-64-v2", "x86-64-v3", "x86-64-v4"}) {
    if (runs_here(target)) {
      EXPECT_LT(grouped_error(target, l), 2e-5) << target;
    }
  }
}

TEST(GroupedConvolution, MatchesTheDefinitionWhereGroupsAreMerged) {
  check_groups({});
  check_groups({.groups = 32, .size = 28});
}
TEST(GroupedConvolution, TakesGroupsThatEndInHalfAVector) {
  check_groups({.groups = 3, .inputs = 24, .outputs = 24, .stride = 2});
  check_groups({.groups = 2, .inputs = 10, .outputs = 56, .size = 15, .kernel = 5});
  check_groups({.groups = 2, .inputs = 56, .outputs = 120, .size = 12, .stride = 2});
}
TEST(GroupedConvolution, TakesGroupsByWinogradsAlgorithms) {
  check_groups({.groups = 4, .inputs = 56, .outputs = 56, .size = 28});
  check_groups({.groups = 3, .inputs = 40, .outputs = 24, .size = 30});
}
TEST(GroupedConvolution, TakesLargeWindowsOfSingleChannels) {
  check_groups({.groups = 24, .inputs = 1, .outputs = 1, .size = 40, .kernel = 19});
  check_groups({.groups = 20, .inputs = 1, .outputs = 1, .size = 23, .kernel = 31, .stride = 2});
}
TEST(GroupedConvolution, TakesGroupsOfAnyWidth) {
  check_groups({.groups = 3, .inputs = 5, .outputs = 7, .size = 6});
  check_groups({.groups = 2, .inputs = 12, .outputs = 20, .size = 11, .kernel = 1});
}

TEST(ConvModel, KeepsToDirectConvolutionsForWindowsThatWinogradDoesNotFit) {
  EXPECT_EQ(chosen(64, 56, 64, 1), ConvAlgorithm::kDirect);
  EXPECT_EQ(chosen(64, 56, 128, 3, 2), ConvAlgorithm::kDirect);
  EXPECT_EQ(chosen(3, 224, 64), ConvAlgorithm::kDirect);
}

}  // namespace
}  // namespace gantry
