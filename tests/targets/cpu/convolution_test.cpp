// Convolutions as a model has them, compiled for CPUs and run, against the definition in float64: the
// compiler packs them and chooses an algorithm.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "host/ops/op.h"
#include "tests/support/compiled_model.h"

namespace gantry {
namespace {

using testing::runs_here;

// Of Winograd's algorithms, one of which may be chosen.
constexpr double kWinogradError = 3e-5;

/// A convolution as a model has it, (N, C, H, W), of square windows.
struct PlainLayer {
  int64_t inputs = 3, outputs = 24, height = 19, width = 37, kernel = 3, stride = 1, padding = 0,
          dilation = 1;

  int64_t out(int64_t extent) const {
    return (extent + 2 * padding - (kernel - 1) * dilation - 1) / stride + 1;
  }
};

enum class Weight : uint8_t { kConstant, kInput };

/// `text`, a network of %x and the constant @w, compiled and run.
ConstantPtr run(const std::string& target, std::string text, const ConstantPtr& x, const ConstantPtr& w,
                Weight weight) {
  if (weight == Weight::kConstant) {
    testing::LocalModel model(
        testing::compile_to_bytes(parse_graph(text, op_set(), {{"w", w}}), {.target = target}));
    return model.run({x}).at(0);
  }
  const size_t end = text.find(") ->"), use = text.find("@w: "), type_end = text.find("f32]", use) + 4;
  const std::string type = text.substr(use + 4, type_end - use - 4);
  text.replace(use, type_end - use, "%w");
  text.insert(end, ", %w: " + type);
  testing::LocalModel model(testing::compile_to_bytes(parse_graph(text, op_set()), {.target = target}));
  return model.run({x, w}).at(0);
}

/// Of two images, against the definition.
double plain_error(const std::string& target, const PlainLayer& l, Weight weight = Weight::kConstant) {
  const int64_t rows = l.out(l.height), columns = l.out(l.width);
  const ConstantPtr w = testing::random_tensor(DType::kF32, {l.outputs, l.inputs, l.kernel, l.kernel}, 3);
  const std::string text = fmt::format(
      "fn @main(%x: Tensor[(2, {0}, {1}, {2}), f32]) -> Tensor[(2, {3}, {4}, {5}), f32] {{\n"
      "  %y = nn.conv(%x, @w: Tensor[({3}, {0}, {6}, {6}), f32], channels={3}, kernel=[{6}, {6}], "
      "strides=[{7}, {7}], dilations=[{9}, {9}], padding=({8}, {8}, {8}, {8}))\n  return %y\n}}\n",
      l.inputs, l.height, l.width, l.outputs, rows, columns, l.kernel, l.stride, l.padding, l.dilation);
  const ConstantPtr x = testing::random_tensor(DType::kF32, {2, l.inputs, l.height, l.width}, 4);
  const ConstantPtr y = run(target, text, x, w, weight);
  std::vector<double> expected;
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
    expected.push_back(total);
  }
  return testing::relative_error(*y, expected);
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
  std::vector<double> expected;
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
    expected.push_back(total);
  }
  return testing::relative_error(*y, expected);
}

/// A convolution of sequences (batch, C, length) whose result has their length, against the definition; of
/// several numbers of threads, which share its points.
double sequence_error(const std::string& target, int64_t batch, int64_t inputs, int64_t outputs,
                      int64_t length, int64_t dilation, int64_t groups = 1,
                      const std::string& decision = "") {
  constexpr int64_t kKernel = 3;
  const int64_t taken = inputs / groups;
  const std::string text = fmt::format(
      "fn @main(%x: Tensor[({0}, {1}, {2}), f32]) -> Tensor[({0}, {3}, {2}), f32] {{\n"
      "  %y = nn.conv(%x, @w: Tensor[({3}, {6}, {4}), f32], channels={3}, kernel=[{4}], strides=[1], "
      "dilations=[{5}], padding=({5}, {5}), groups={7}) {8}\n  return %y\n}}\n",
      batch, inputs, length, outputs, kKernel, dilation, taken, groups, decision);
  const ConstantPtr w = testing::random_tensor(DType::kF32, {outputs, taken, kKernel}, 3);
  const ConstantPtr x = testing::random_tensor(DType::kF32, {batch, inputs, length}, 4);
  std::vector<double> expected;
  for (int64_t row = 0; row < batch * outputs; ++row)
    for (int64_t at = 0; at < length; ++at) {
      double total = 0;
      for (int64_t i = 0; i < taken; ++i)
        for (int64_t k = 0; k < kKernel; ++k) {
          const int64_t from = at + (k - 1) * dilation, o = row % outputs,
                        channel = row / outputs * inputs + o / (outputs / groups) * taken + i;
          if (from < 0 || from >= length) continue;
          total += double(x->as<float>()[channel * length + from]) *
                   double(w->as<float>()[(o * taken + i) * kKernel + k]);
        }
      expected.push_back(total);
    }
  const auto module = testing::compile_to_bytes(parse_graph(text, op_set(), {{"w", w}}), {.target = target});
  double most = 0;
  for (int threads : {1, 2, 3})
    most = std::max(most,
                    testing::relative_error(*testing::LocalModel(module, threads).run({x}).at(0), expected));
  return most;
}

struct TransposedLayer {
  int64_t inputs = 8, outputs = 16, side = 7, kernel = 3, stride = 2, padding = 1, extra = 1, dilation = 1;

  int64_t out() const { return (side - 1) * stride + (kernel - 1) * dilation + 1 - 2 * padding + extra; }
};

/// A transposed convolution of square images (1, C, side, side), against the definition.
double transposed_error(const std::string& target, const TransposedLayer& l) {
  const ConstantPtr w = testing::random_tensor(DType::kF32, {l.inputs, l.outputs, l.kernel, l.kernel}, 3);
  const std::string text = fmt::format(
      "fn @main(%x: Tensor[(1, {0}, {1}, {1}), f32]) -> Tensor[(1, {2}, {3}, {3}), f32] {{\n"
      "  %y = nn.conv_transpose(%x, @w: Tensor[({0}, {2}, {4}, {4}), f32], kernel=[{4}, {4}], "
      "strides=[{5}, {5}], dilations=[{8}, {8}], padding=({6}, {6}, {6}, {6}), output_padding=[{7}, {7}], "
      "groups=1)\n  return %y\n}}\n",
      l.inputs, l.side, l.outputs, l.out(), l.kernel, l.stride, l.padding, l.extra, l.dilation);
  const ConstantPtr x = testing::random_tensor(DType::kF32, {1, l.inputs, l.side, l.side}, 4);
  testing::LocalModel model(
      testing::compile_to_bytes(parse_graph(text, op_set(), {{"w", w}}), {.target = target}));
  const ConstantPtr y = model.run({x}).at(0);
  std::vector<double> expected(size_t(l.outputs * l.out() * l.out()), 0);
  for (int64_t c = 0; c < l.inputs; ++c)
    for (int64_t at = 0; at < l.side * l.side; ++at)
      for (int64_t tap = 0; tap < l.kernel * l.kernel; ++tap) {
        const int64_t oy = at / l.side * l.stride + tap / l.kernel * l.dilation - l.padding,
                      ox = at % l.side * l.stride + tap % l.kernel * l.dilation - l.padding;
        if (oy < 0 || ox < 0 || oy >= l.out() || ox >= l.out()) continue;
        for (int64_t o = 0; o < l.outputs; ++o)
          expected[size_t((o * l.out() + oy) * l.out() + ox)] +=
              double(x->as<float>()[c * l.side * l.side + at]) *
              double(w->as<float>()[(c * l.outputs + o) * l.kernel * l.kernel + tap]);
      }
  return testing::relative_error(*y, expected);
}

// Groups of several channels in and out, in the model's layout: the compiler merges and packs them and
// chooses an algorithm.
struct GroupedLayer {
  int64_t groups = 8, inputs = 4, outputs = 4, size = 9, kernel = 3, stride = 1;  ///< channels of a group
  std::string decision = {};  ///< "{form=…}"; empty: the compiler chooses

  int64_t out() const { return (size - 1) / stride + 1; }
};

/// With padding of half a window.
double grouped_error(const std::string& target, const GroupedLayer& l, Weight weight = Weight::kConstant) {
  const int64_t channels = l.groups * l.outputs, pad = l.kernel / 2;
  const std::string text = fmt::format(
      "fn @main(%x: Tensor[(1, {0}, {1}, {1}), f32]) -> Tensor[(1, {2}, {3}, {3}), f32] {{\n"
      "  %y = nn.conv(%x, @w: Tensor[({2}, {4}, {5}, {5}), f32], channels={2}, kernel=[{5}, {5}], "
      "strides=[{6}, {6}], dilations=[1, 1], padding=({7}, {7}, {7}, {7}), groups={8}) {9}\n"
      "  return %y\n}}\n",
      l.groups * l.inputs, l.size, channels, l.out(), l.inputs, l.kernel, l.stride, pad, l.groups,
      l.decision);
  const ConstantPtr w = testing::random_tensor(DType::kF32, {channels, l.inputs, l.kernel, l.kernel}, 3);
  const ConstantPtr x = testing::random_tensor(DType::kF32, {1, l.groups * l.inputs, l.size, l.size}, 4);
  const ConstantPtr y = run(target, text, x, w, weight);
  std::vector<double> expected;
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
      expected.push_back(total);
    }
  return testing::relative_error(*y, expected);
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
  // Of few points, whose sums are kept while parts of the window go by.
  EXPECT_LT(plain_error(GetParam(), {.outputs = 96, .height = 112, .width = 112, .kernel = 16, .stride = 16}),
            2e-6);
  EXPECT_LT(plain_error(GetParam(),
                        {.inputs = 5, .outputs = 64, .height = 28, .width = 28, .kernel = 7, .padding = 3}),
            2e-6);
}

// One chain of so many additions would be off by three to six times as much.
TEST_P(PlainConvolutionOnCpu, SumsOfManyTermsAreMadeInParts) {
  EXPECT_LT(plain_error(GetParam(), {.inputs = 512, .kernel = 3, .stride = 2, .padding = 1}), 1e-6);
  EXPECT_LT(plain_error(GetParam(), {.inputs = 4096, .outputs = 64, .height = 9, .width = 9, .kernel = 1}),
            1e-6);
}

// Large enough to be computed by Winograd's algorithm, a phase of the dilation at a time; some with lines
// left over.
TEST_P(PlainConvolutionOnCpu, MatchesTheDefinitionDilated) {
  for (const PlainLayer& l :
       {PlainLayer{
            .inputs = 64, .outputs = 64, .height = 28, .width = 28, .kernel = 3, .padding = 2, .dilation = 2},
        PlainLayer{
            .inputs = 48, .outputs = 72, .height = 33, .width = 29, .kernel = 3, .padding = 6, .dilation = 6},
        PlainLayer{
            .inputs = 64, .outputs = 40, .height = 31, .width = 26, .kernel = 3, .padding = 1, .dilation = 3},
        PlainLayer{.inputs = 64, .outputs = 64, .height = 25, .width = 40, .kernel = 3, .dilation = 4}})
    EXPECT_LT(plain_error(GetParam(), l), 1e-5)
        << l.height << " x " << l.width << ", " << l.dilation << " apart";
}

TEST_P(PlainConvolutionOnCpu, MatchesTheDefinitionForSequences) {
  EXPECT_LT(sequence_error(GetParam(), 1, 128, 128, 500, 4), 2e-6);
  EXPECT_LT(sequence_error(GetParam(), 1, 40, 72, 131, 1), 2e-6);
  EXPECT_LT(sequence_error(GetParam(), 3, 64, 100, 77, 2), 2e-6);
  EXPECT_LT(sequence_error(GetParam(), 5, 32, 48, 60, 16), 2e-6);
  EXPECT_LT(sequence_error(GetParam(), 1, 64, 200, 7, 1), 2e-6);
}

TEST_P(PlainConvolutionOnCpu, MatchesTheDefinitionWhereWeightsAreData) {
  for (const PlainLayer& l : {PlainLayer{.inputs = 24, .outputs = 40, .kernel = 3, .padding = 1},
                              PlainLayer{.inputs = 17, .outputs = 5, .kernel = 5, .stride = 2, .padding = 2},
                              PlainLayer{.inputs = 64, .outputs = 33, .kernel = 1},
                              PlainLayer{.inputs = 3, .outputs = 16, .kernel = 7, .stride = 2, .padding = 3}})
    EXPECT_LT(plain_error(GetParam(), l, Weight::kInput), 2e-6) << l.inputs << " to " << l.outputs;
  for (const GroupedLayer& l :
       {GroupedLayer{}, GroupedLayer{.groups = 3, .inputs = 20, .outputs = 33, .size = 12},
        GroupedLayer{.groups = 40, .inputs = 1, .outputs = 1, .size = 15, .kernel = 5, .stride = 2}})
    EXPECT_LT(grouped_error(GetParam(), l, Weight::kInput), 2e-6) << l.groups << " groups";
}

// Taps in the padding are left out.
TEST_P(PlainConvolutionOnCpu, MatchesTheDefinitionForVolumes) {
  EXPECT_LT(volume_error(GetParam(), 24, 40, 4, 9), 2e-6);
  EXPECT_LT(volume_error(GetParam(), 3, 16, 1, 12), 2e-6);
  // Winograd's algorithm may be chosen.
  EXPECT_LT(volume_error(GetParam(), 64, 32, 2, 7), kWinogradError);
  EXPECT_LT(volume_error(GetParam(), 32, 64, 4, 28), kWinogradError);
}

TEST_P(PlainConvolutionOnCpu, MatchesTheDefinitionTransposed) {
  EXPECT_LT(transposed_error(GetParam(), {}), 2e-6);
  EXPECT_LT(transposed_error(GetParam(), {.kernel = 4, .extra = 0}), 2e-6);
  EXPECT_LT(transposed_error(GetParam(), {.outputs = 3}), 2e-6);
  EXPECT_LT(transposed_error(GetParam(), {.kernel = 5, .padding = 2}), 2e-6);
  EXPECT_LT(transposed_error(GetParam(), {.kernel = 5, .stride = 3, .padding = 1, .extra = 2}), 2e-6);
  EXPECT_LT(transposed_error(GetParam(), {.kernel = 7, .stride = 4, .padding = 0, .extra = 0}), 2e-6);
  EXPECT_LT(transposed_error(GetParam(), {.kernel = 2, .stride = 3, .padding = 0, .extra = 0}), 2e-6);
}

TEST_P(PlainConvolutionOnCpu, MatchesTheDefinitionTransposedAndDilated) {
  EXPECT_LT(transposed_error(GetParam(), {.side = 14, .stride = 1, .extra = 0, .dilation = 2}), 2e-6);
  EXPECT_LT(transposed_error(GetParam(), {.side = 14, .dilation = 2}), 2e-6);
  EXPECT_LT(transposed_error(GetParam(), {.side = 14, .stride = 3, .extra = 2, .dilation = 2}), 2e-6);
  EXPECT_LT(transposed_error(GetParam(), {.side = 14, .kernel = 2, .stride = 3, .extra = 0, .dilation = 4}),
            2e-6);
  // Images of a point, and smaller than the window.
  EXPECT_LT(transposed_error(GetParam(), {.side = 1, .stride = 1, .extra = 0, .dilation = 3}), 2e-6);
  EXPECT_LT(transposed_error(GetParam(), {.side = 3, .stride = 1, .extra = 0, .dilation = 3}), 2e-6);
}

// The reduction is cut, and taps in the padding are left out.
TEST_P(PlainConvolutionOnCpu, MatchesTheDefinitionForSmallImagesOfManyChannels) {
  const PlainLayer layer{.inputs = 320, .outputs = 64, .height = 7, .width = 7, .padding = 1};
  // Winograd's algorithm may be chosen.
  auto check = [&](PlainLayer l) { EXPECT_LT(plain_error(GetParam(), l), kWinogradError); };
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
            kWinogradError);
}

// The only line of the result is one of the padding.
TEST_P(PlainConvolutionOnCpu, IsZeroWhereEveryWindowLiesInThePaddingAlone) {
  const ConstantPtr y =
      run(GetParam(),
          "fn @main(%x: Tensor[(1, 8, 7, 1, 6), f32]) -> Tensor[(1, 16, 7, 1, 6), f32] {\n"
          "  %y = nn.conv(%x, @w: Tensor[(16, 8, 1, 1, 1), f32], channels=16, "
          "kernel=[1, 1, 1], strides=[1, 2, 1], dilations=[1, 1, 1], padding=(0, 1, 0, 0, 0, "
          "0))\n  return %y\n}\n",
          testing::random_tensor(DType::kF32, {1, 8, 7, 1, 6}, 4),
          testing::random_tensor(DType::kF32, {16, 8, 1, 1, 1}, 3), Weight::kConstant);
  for (size_t i = 0; i < y->size / sizeof(float); ++i) ASSERT_EQ(y->as<float>()[i], 0.0F) << i;
}

INSTANTIATE_TEST_SUITE_P(Targets, PlainConvolutionOnCpu,
                         ::testing::Values("x86-64-v2", "x86-64-v3", "x86-64-v4"));

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
TEST(GroupedConvolution, TakesSingleChannelsAlongTheirRows) {
  check_groups({.groups = 24, .inputs = 1, .outputs = 1, .size = 40});
  check_groups({.groups = 5, .inputs = 1, .outputs = 1, .size = 7});
  check_groups({.groups = 3, .inputs = 1, .outputs = 1, .size = 29, .kernel = 5});
  check_groups({.groups = 6, .inputs = 1, .outputs = 1, .size = 57, .stride = 2});
}
TEST(GroupedConvolution, TakesGroupsOfAnyWidth) {
  check_groups({.groups = 3, .inputs = 5, .outputs = 7, .size = 6});
  check_groups({.groups = 2, .inputs = 12, .outputs = 20, .size = 11, .kernel = 1});
}
// As decisions may ask for: a block then has outputs of two groups.
TEST(GroupedConvolution, TakesBlocksThatDoNotDivideAGroup) {
  const std::string target = "x86-64-v3";
  if (!runs_here(target)) GTEST_SKIP() << "this machine has no " << target;
  const GroupedLayer image{
      .groups = 2, .inputs = 192, .outputs = 192, .size = 13, .decision = "{form=direct, block=56}"};
  EXPECT_LT(grouped_error(target, image), 2e-5);
  EXPECT_LT(sequence_error(target, 1, 144, 144, 101, 1, 2, "{form=direct, block=16}"), 2e-6);
}

}  // namespace
}  // namespace gantry
