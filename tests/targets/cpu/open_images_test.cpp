// Convolutions of images whose number and sizes only a run tells: one module for all, compared with the definition
// in float64. Tiles of rows go on from line to line and from image to image, and end where the points do.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "host/ops/op.h"
#include "tests/support/compiled_model.h"
#include "tests/targets/cpu/image_convolution.h"

namespace gantry {
namespace {

using testing::runs_here;

struct OpenLayer {
  int64_t inputs = 24, outputs = 40, kernel = 3, stride = 1, padding = 1;
  int64_t images = 0;       ///< 0: any number
  bool much_after = false;  ///< an exponential and its logarithm follow, which leave the results as they are
};

/// What a run is given: images, lines, columns.
using Size = std::array<int64_t, 3>;

std::string out(const std::string& extent, const OpenLayer& l) {
  return fmt::format("floordiv({} + {}, {}) + 1", extent, 2 * l.padding - l.kernel, l.stride);
}

Graph network(const OpenLayer& l, const ConstantPtr& weight) {
  std::string text = fmt::format(
      "fn @main(%x: Tensor[({7}, {0}, H, W), f32]) -> Tensor[({7}, {1}, {2}, {3}), f32] {{\n"
      "  where min(1, H) == 1\n  where min(1, W) == 1\n"
      "  %y = nn.conv(%x, @w: Tensor[({1}, {0}, {4}, {4}), f32], channels={1}, kernel=[{4}, {4}], "
      "strides=[{5}, {5}], padding=({6}, {6}, {6}, {6}))\n  %z = nn.relu(%y)\n",
      l.inputs, l.outputs, out("H", l), out("W", l), l.kernel, l.stride, l.padding,
      l.images == 0 ? "N" : std::to_string(l.images));
  text += l.much_after ? "  %e = exp(%z)\n  %l = log(%e)\n  return %l\n}\n" : "  return %z\n}\n";
  return parse_graph(text, op_set(), {{"w", weight}});
}

ConstantPtr channels_last(const ConstantPtr& x, const Size& size, int64_t channels) {
  const auto [n, h, w] = size;
  auto moved = testing::random_tensor(DType::kF32, {n, h, w, channels}, 1);
  auto* to = const_cast<float*>(moved->as<float>());
  for (int64_t i = 0; i < n; ++i)
    for (int64_t p = 0; p < h * w; ++p)
      for (int64_t c = 0; c < channels; ++c)
        to[(i * h * w + p) * channels + c] = x->as<float>()[(i * channels + c) * h * w + p];
  return moved;
}

void check(const std::string& target, const OpenLayer& l, double bound = 3e-6) {
  const ConstantPtr weight = testing::random_tensor(DType::kF32, {l.outputs, l.inputs, l.kernel, l.kernel}, 3);
  const auto module = testing::compile_to_bytes(network(l, weight), {.target = target});
  testing::LocalModel alone(module), shared(module, 3);
  // Fewer points than a tile has rows, as many, one more; lines shorter and longer than one; tiles of several images.
  for (const Size& size : {Size{1, 1, 1}, Size{1, 2, 2}, Size{1, 5, 1}, Size{1, 1, 6}, Size{1, 7, 1}, Size{2, 7, 1},
                           Size{1, 3, 5}, Size{8, 2, 2}, Size{3, 4, 4}, Size{1, 7, 7}, Size{2, 13, 17},
                           Size{1, 3, 41}, Size{1, 29, 30}, Size{2, 33, 35}}) {
    const auto [n, h, w] = size;
    const int64_t side = l.kernel - 2 * l.padding;
    if (h < side || w < side || (l.images != 0 && n != l.images)) continue;
    const ConstantPtr x = testing::random_tensor(DType::kF32, {n, l.inputs, h, w}, 7);
    const ImageConvolution image{n, h, w, l.inputs, l.outputs, {l.padding, l.padding, l.padding, l.padding},
                                 l.kernel, l.stride};
    const auto expected = image.rectified(channels_last(x, size, l.inputs)->as<float>(), weight->as<float>());
    for (testing::LocalModel* model : {&alone, &shared}) {
      const ConstantPtr y = channels_last(model->run({x}).at(0), {n, image.out_height(), image.out_width()}, l.outputs);
      EXPECT_LT(testing::relative_error(*y, expected), bound)
          << n << " images of " << h << " x " << w << ", " << l.kernel << " x " << l.kernel << " every " << l.stride;
    }
  }
}

class OpenImagesOnCpu : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!runs_here(GetParam())) GTEST_SKIP() << "this machine has no " << GetParam();
  }
};

TEST_P(OpenImagesOnCpu, PointsThatAreReadOnceMatchTheDefinition) {
  check(GetParam(), {.kernel = 1, .padding = 0});
  check(GetParam(), {.inputs = 64, .outputs = 200, .kernel = 1, .padding = 0});
}
TEST_P(OpenImagesOnCpu, WindowsMatchTheDefinition) {
  check(GetParam(), {.stride = 2});
  check(GetParam(), {.inputs = 130, .outputs = 72, .stride = 2});
  check(GetParam(), {.kernel = 1, .stride = 2, .padding = 0});
  check(GetParam(), {.inputs = 16, .kernel = 5, .padding = 2});
  check(GetParam(), {.kernel = 4, .stride = 3, .padding = 0});
}
TEST_P(OpenImagesOnCpu, FirstLayersMatchTheDefinition) {
  check(GetParam(), {.inputs = 3, .outputs = 32, .kernel = 7, .stride = 2, .padding = 3});
  check(GetParam(), {.inputs = 1, .outputs = 12, .kernel = 5, .padding = 2});
}
// More operations than are written out for every row of a tile.
TEST_P(OpenImagesOnCpu, WhatIsComputedOfTheSumsMayBeMuch) {
  check(GetParam(), {.stride = 2, .much_after = true}, 1e-5);
  check(GetParam(), {.inputs = 48, .kernel = 1, .padding = 0, .much_after = true}, 1e-5);
}
TEST_P(OpenImagesOnCpu, WinogradsAlgorithmMatchesTheDefinition) {
  check(GetParam(), {.inputs = 64, .outputs = 64}, 1e-5);
  check(GetParam(), {.inputs = 128, .outputs = 96}, 1e-5);
}
// Threads share the channels of what may be one chunk.
TEST_P(OpenImagesOnCpu, PartsOfManyChannelsMatchTheDefinition) {
  check(GetParam(), {.inputs = 256, .outputs = 256}, 1e-5);
  check(GetParam(), {.inputs = 96, .outputs = 480, .images = 1}, 3e-5);
  check(GetParam(), {.inputs = 32, .outputs = 832}, 3e-5);
}

// The usual network: one image of any size.
TEST_P(OpenImagesOnCpu, ImagesOfAKnownNumberMatchTheDefinition) {
  check(GetParam(), {.stride = 2, .images = 1});
  check(GetParam(), {.inputs = 64, .outputs = 200, .kernel = 1, .padding = 0, .images = 1});
  check(GetParam(), {.stride = 2, .images = 2});
  check(GetParam(), {.inputs = 128, .outputs = 96, .images = 1}, 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Targets, OpenImagesOnCpu, ::testing::Values("x86-64-v2", "x86-64-v3", "x86-64-v4"));

}  // namespace
}  // namespace gantry
