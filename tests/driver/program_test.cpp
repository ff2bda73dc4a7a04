// Whatever layouts, groups, tiles and loops a target leads to, the program computes what the graph says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "host/codegen/find_target.h"
#include "host/ops/op.h"
#include "host/support/error.h"
#include "tests/driver/graph_evaluation.h"

namespace gantry::test {
namespace {

struct Case {
  const char* name;
  std::string nodes;          ///< of a function of %x, the result is %y
  std::string input, output;  ///< shapes
  std::map<std::string, int64_t> symbols;
};

std::string conv(const std::string& x, int out, int in, int kernel, const std::string& rest) {
  auto k = std::to_string(kernel);
  return "nn.conv(" + x + ", @w" + std::to_string(out) + "_" + k + ": Tensor[(" + std::to_string(out) + ", " +
         std::to_string(in) + ", " + k + ", " + k + "), f32], channels=" + std::to_string(out) +
         ", kernel=[" + k + ", " + k + "], " + rest + ")";
}
std::string same(int padding, int stride = 1, int groups = 1, int dilation = 1) {
  auto p = std::to_string(padding), s = std::to_string(stride), d = std::to_string(dilation);
  return "strides=[" + s + ", " + s + "], dilations=[" + d + ", " + d + "], padding=(" + p + ", " + p + ", " +
         p + ", " + p + "), groups=" + std::to_string(groups);
}

std::string shape(int batch, int channels, int height, int width) {
  return "(" + std::to_string(batch) + ", " + std::to_string(channels) + ", " + std::to_string(height) +
         ", " + std::to_string(width) + ")";
}
/// A depthwise convolution of a window that keeps the image's size at stride 1, and an activation.
Case depthwise(const char* name, int batch, int channels, int height, int width, int kernel, int stride = 1,
               int dilation = 1) {
  int pad = (kernel - 1) * dilation / 2;
  auto out = [&](int extent) { return (extent + 2 * pad - (kernel - 1) * dilation - 1) / stride + 1; };
  return {name,
          "  %a = " + conv("%x", channels, 1, kernel, same(pad, stride, channels, dilation)) +
              "\n  %y = nn.relu(%a)\n",
          shape(batch, channels, height, width),
          shape(batch, channels, out(height), out(width)),
          {}};
}
/// Pooling of channels-last data, as after a convolution.
Case pool(const char* name, const std::string& kind, int channels, int height, int width,
          const std::string& window, int out_height, int out_width) {
  return {
      name,
      "  %a = " + conv("%x", channels, 2, 1, same(0)) + "\n  %y = nn." + kind + "_pool(%a, " + window + ")\n",
      shape(2, 2, height, width),
      shape(2, channels, out_height, out_width),
      {}};
}

Case transposed(const char* name, int in, int out, int height, int width, int kernel, int stride, int padding,
                int output_padding, int groups = 1) {
  auto k = std::to_string(kernel), s = std::to_string(stride), p = std::to_string(padding),
       e = std::to_string(output_padding);
  auto extent = [&](int n) { return (n - 1) * stride + kernel + output_padding - 2 * padding; };
  return {name,
          "  %y = nn.conv_transpose(%x, @w: Tensor[(" + std::to_string(in) + ", " +
              std::to_string(out / groups) + ", " + k + ", " + k + "), f32], kernel=[" + k + ", " + k +
              "], strides=[" + s + ", " + s + "], dilations=[1, 1], padding=(" + p + ", " + p + ", " + p +
              ", " + p + "), output_padding=[" + e + ", " + e + "], groups=" + std::to_string(groups) + ")\n",
          shape(2, in, height, width),
          shape(2, out, extent(height), extent(width)),
          {}};
}

/// Attention of 6 heads in groups of three that share 13 keys and values, made of the data as well, so that
/// they are no constants.
std::string shared_keys() {
  std::string text =
      "  %row = max(%x, axes=[2], keepdims=true)\n  %g = strided_slice(%row, begin=(0, 0, 0, 0), "
      "end=(2, 2, 1, 8), strides=[1, 1, 1, 1])\n";
  for (const std::string name : {"k", "v"}) {
    text += "  %" + name + " = multiply(@w" + name + ": Tensor[(2, 2, 13, 8), f32], %g)\n  %" + name +
            "1 = reshape(%" + name + ", shape=(2, 2, 1, 13, 8))\n  %" + name + "2 = broadcast_to(%" + name +
            "1, shape=(2, 2, 3, 13, 8))\n  %" + name + "3 = reshape(%" + name + "2, shape=(2, 6, 13, 8))\n";
  }
  return text +
         "  %t = transpose(%k3, axes=[0, 1, 3, 2])\n  %t2 = multiply(%t, const(f32, [], [0.015625]))\n"
         "  %s = matmul(%x, %t2)\n  %w = nn.softmax(%s, axis=3)\n  %y = matmul(%w, %v3)\n";
}

/// Images of whole tiles and not, with interiors and without; channels of whole vectors and not.
std::vector<Case> window_cases() {
  const std::string k3s2 = "kernel=[3, 3], strides=[2, 2], dilations=[1, 1], padding=(1, 1, 1, 1)";
  const std::string uneven = "kernel=[3, 2], strides=[1, 2], dilations=[1, 1], padding=(0, 1, 2, 0)";
  return {
      depthwise("Depthwise3On7", 1, 32, 7, 7, 3),
      depthwise("Depthwise3On14", 2, 16, 5, 14, 3),
      depthwise("Depthwise3On29", 1, 21, 6, 29, 3),
      depthwise("Depthwise3On56", 1, 32, 30, 56, 3),
      depthwise("Depthwise3Strided", 2, 24, 15, 28, 3, 2),
      depthwise("Depthwise3StridedWide", 1, 16, 27, 57, 3, 2),
      depthwise("Depthwise5On14", 1, 33, 14, 14, 5),
      depthwise("Depthwise5Strided", 1, 16, 28, 29, 5, 2),
      depthwise("Depthwise7On7", 1, 48, 7, 7, 7),
      depthwise("Depthwise7On28", 2, 16, 9, 28, 7),
      depthwise("Depthwise7OnLess", 1, 16, 3, 2, 7),
      depthwise("DilatedDepthwise", 1, 16, 13, 30, 3, 1, 2),
      {"SymbolicDepthwise5",
       "  %y = " + conv("%x", 19, 1, 5, same(2, 2, 19)) + "\n",
       "(N, 19, 2*H, 2*W)",
       "(N, 19, H, W)",
       {{"N", 2}, {"H", 4}, {"W", 9}}},
      pool("MaxPoolOfTiles", "max", 32, 28, 28, k3s2, 14, 14),
      pool("MaxPoolWide", "max", 17, 9, 57, k3s2, 5, 29),
      pool("UnevenMaxPool", "max", 16, 10, 15, uneven, 10, 8),
      pool("AveragePool", "avg", 20, 14, 28, k3s2, 7, 14),
      pool("AveragePoolWithPadding", "avg", 16, 10, 15, uneven + ", count_include_pad=true", 10, 8),
      pool("AveragePoolUnpadded", "avg", 24, 12, 16,
           "kernel=[2, 2], strides=[2, 2], dilations=[1, 1], "
           "padding=(0, 0, 0, 0)",
           6, 8),
  };
}

/// Concatenated parts of whole vectors and not, with what follows; transpositions with what surrounds them.
std::vector<Case> movement_cases() {
  auto parts = [](const std::vector<int>& channels) {
    std::string text, names;
    for (size_t i = 0; i < channels.size(); ++i) {
      const std::string name = "%p" + std::to_string(i);
      text += "  " + name + " = nn.conv(%x, @w" + std::to_string(i) + ": Tensor[(" +
              std::to_string(channels[i]) + ", 3, 1, 1), f32], channels=" + std::to_string(channels[i]) +
              ", kernel=[1, 1], " + same(0) + ")\n";
      names += name + ", ";
    }
    return text + "  %c = concatenate(" + names + "axis=1)\n";
  };
  const std::string scale64 = "  %s = multiply(%c, @scale: Tensor[(1, 64, 1, 1), f32])\n  %y = nn.relu(%s)\n",
                    scale61 = "  %s = multiply(%c, @scale: Tensor[(1, 61, 1, 1), f32])\n  %y = nn.relu(%s)\n";
  return {
      {"ConcatOfVectors", parts({16, 32, 16}) + scale64, shape(2, 3, 5, 7), shape(2, 64, 5, 7), {}},
      {"ConcatOfUnevenParts", parts({5, 20, 1, 35}) + scale61, shape(1, 3, 5, 7), shape(1, 61, 5, 7), {}},
      {"ConcatOfSymbolicImages",
       parts({24, 8, 32}) + scale64,
       "(N, 3, H, W)",
       "(N, 64, H, W)",
       {{"N", 2}, {"H", 3}, {"W", 5}}},
      transposed("TransposedConvOf2", 5, 7, 6, 9, 2, 2, 0, 0),
      transposed("TransposedConvOf3", 4, 20, 5, 6, 3, 2, 1, 1),
      transposed("TransposedConvOf4", 3, 16, 7, 5, 4, 2, 1, 0),
      transposed("TransposedConvOf5By3", 3, 6, 4, 6, 5, 3, 2, 0),
      transposed("TransposedConvOfStride1", 3, 6, 6, 7, 3, 1, 1, 0),
      transposed("TransposedConvOfPoints", 6, 8, 1, 1, 5, 2, 1, 0),
      transposed("TransposedConvOfFew", 6, 8, 2, 1, 4, 1, 0, 0),
      {"TransposedConvCutAtItsBeginning",
       "  %y = nn.conv_transpose(%x, @w: Tensor[(3, 16, 3, 1), f32], kernel=[3, 1], strides=[2, 1], "
       "dilations=[1, 1], padding=(2, 0, 0, 0), output_padding=[1, 0], groups=1)\n",
       shape(2, 3, 10, 5),
       shape(2, 16, 20, 5),
       {}},
      transposed("TransposedConvOfGroups", 8, 6, 6, 7, 4, 2, 1, 0, 2),
      transposed("TransposedConvOfChannels", 16, 16, 9, 6, 4, 2, 1, 0, 16),
      {"PlainMaxPoolStrided",
       "  %y = nn.max_pool(%x, kernel=[3, 3], strides=[2, 2], dilations=[1, 1], padding=(1, 1, 1, 1))\n",
       shape(2, 3, 15, 41),
       shape(2, 3, 8, 21),
       {}},
      {"PlainAveragePoolBy3",
       "  %y = nn.avg_pool(%x, kernel=[3, 3], strides=[3, 3], dilations=[1, 1], padding=(0, 1, 0, 1))\n",
       shape(1, 4, 12, 64),
       shape(1, 4, 4, 22),
       {}},
      {"MaximumOfImages",
       "  %y = max(%x, axes=[2, 3], keepdims=true)\n",
       shape(2, 5, 7, 7),
       shape(2, 5, 1, 1),
       {}},
      {"SumOfImagesDropped",
       "  %y = sum(%x, axes=[2, 3], keepdims=false)\n",
       shape(2, 5, 9, 28),
       "(2, 5)",
       {}},
      {"ConcatOfRows", "  %y = concatenate(%x, %x, axis=1)\n", "(3, 9, 20)", "(3, 18, 20)", {}},
      {"TransposedSum",
       "  %a = transpose(%x, axes=[0, 2, 1])\n  %b = transpose(%a, axes=[0, 2, 1])\n  %c = add(%b, %x)\n"
       "  %d = transpose(%c, axes=[0, 2, 1])\n  %y = nn.relu(%d)\n",
       "(2, 19, 33)",
       "(2, 33, 19)",
       {}},
      {"OwnTranspositionsAroundANorm",
       "  %a = " + conv("%x", 20, 1, 7, same(3, 1, 20)) + "\n  %b = transpose(%a, axes=[0, 2, 3, 1])\n" +
           "  %c = nn.dense(%b, @d: Tensor[(20, 20), f32], units=20)\n" +
           "  %e = transpose(%c, axes=[0, 3, 1, 2])\n" +
           "  %f = multiply(%e, @scale: Tensor[(20, 1, 1), f32])\n  %y = add(%f, %x)\n",
       shape(2, 20, 6, 9),
       shape(2, 20, 6, 9),
       {}},
  };
}

std::vector<Case> cases() {
  return {
      {"Conv", "  %y = " + conv("%x", 20, 5, 3, same(1)) + "\n", "(1, 5, 9, 11)", "(1, 20, 9, 11)", {}},
      {"ConvOfOneChannel",
       "  %y = " + conv("%x", 1, 3, 3, same(1)) + "\n",
       "(2, 3, 6, 7)",
       "(2, 1, 6, 7)",
       {}},
      {"StridedConv",
       "  %y = " + conv("%x", 40, 3, 7, same(3, 2)) + "\n",
       "(1, 3, 21, 19)",
       "(1, 40, 11, 10)",
       {}},
      {"DilatedConv",
       "  %y = " + conv("%x", 17, 4, 3, same(2, 1, 1, 2)) + "\n",
       "(1, 4, 9, 8)",
       "(1, 17, 9, 8)",
       {}},
      {"PointwiseConv",
       "  %y = " + conv("%x", 33, 24, 1, same(0)) + "\n",
       "(2, 24, 5, 7)",
       "(2, 33, 5, 7)",
       {}},
      {"GroupedConv",
       "  %y = " + conv("%x", 24, 4, 3, same(1, 1, 3)) + "\n",
       "(1, 12, 7, 7)",
       "(1, 24, 7, 7)",
       {}},
      {"DepthwiseConv",
       "  %y = " + conv("%x", 20, 1, 3, same(1, 2, 20)) + "\n",
       "(1, 20, 13, 11)",
       "(1, 20, 7, 6)",
       {}},
      {"NarrowDepthwiseConv",
       "  %y = " + conv("%x", 3, 1, 5, same(2, 1, 3)) + "\n",
       "(1, 3, 8, 9)",
       "(1, 3, 8, 9)",
       {}},
      {"ResidualBlock",
       "  %a = " + conv("%x", 16, 16, 3, same(1)) + "\n  %b = nn.relu(%a)\n  %c = " +
           conv("%b", 16, 16, 1, same(0)) + "\n  %d = add(%c, %x)\n  %y = nn.relu(%d)\n",
       "(1, 16, 7, 7)",
       "(1, 16, 7, 7)",
       {}},
      {"SymbolicConv",
       "  %y = " + conv("%x", 20, 3, 3, same(1)) + "\n",
       "(N, 3, H, W)",
       "(N, 20, H, W)",
       {{"N", 2}, {"H", 5}, {"W", 9}}},
      {"SymbolicDepthwise",
       "  %y = " + conv("%x", 18, 1, 3, same(1, 1, 18)) + "\n",
       "(N, 18, H, W)",
       "(N, 18, H, W)",
       {{"N", 1}, {"H", 4}, {"W", 7}}},
      {"MaxPool",
       "  %a = " + conv("%x", 18, 3, 1, same(0)) +
           "\n  %y = nn.max_pool(%a, kernel=[3, 3], strides=[2, 2], dilations=[1, 1], padding=(1, 1, 1, "
           "1))\n",
       "(1, 3, 12, 15)",
       "(1, 18, 6, 8)",
       {}},
      {"PlainMaxPool",
       "  %y = nn.max_pool(%x, kernel=[2, 3], strides=[2, 1], dilations=[1, 1], padding=(0, 1, 0, 1))\n",
       "(1, 3, 12, 15)",
       "(1, 3, 6, 15)",
       {}},
      {"Mean", "  %y = mean(%x, axes=[2, 3], keepdims=true)\n", "(2, 5, 7, 9)", "(2, 5, 1, 1)", {}},
      {"SumOfOuterAxis", "  %y = sum(%x, axes=[0], keepdims=false)\n", "(6, 37)", "(37)", {}},
      {"SumOfSymbolicRows",
       "  %y = sum(%x, axes=[1], keepdims=false)\n",
       "(N, T)",
       "(N)",
       {{"N", 3}, {"T", 45}}},
      {"Transpose", "  %y = transpose(%x, axes=[0, 2, 3, 1])\n", "(2, 19, 5, 21)", "(2, 5, 21, 19)", {}},
      {"SymbolicTranspose",
       "  %y = transpose(%x, axes=[1, 0])\n",
       "(N, T)",
       "(T, N)",
       {{"N", 35}, {"T", 18}}},
      {"Dense", "  %y = nn.dense(%x, @w: Tensor[(30, 50), f32], units=50)\n", "(7, 30)", "(7, 50)", {}},
      {"DenseOfOneRow",
       "  %y = nn.dense(%x, @w: Tensor[(40, 70), f32], units=70)\n",
       "(1, 40)",
       "(1, 70)",
       {}},
      {"DenseOfSymbolicRows",
       "  %y = nn.dense(%x, @w: Tensor[(12, 36), f32], units=36)\n",
       "(N, T, 12)",
       "(N, T, 36)",
       {{"N", 2}, {"T", 11}}},
      {"AttentionScores",
       "  %t = transpose(%x, axes=[0, 2, 1])\n  %y = matmul(%x, %t)\n",
       "(3, 10, 8)",
       "(3, 10, 10)",
       {}},
      {"SymbolicMatmul",
       "  %t = transpose(%x, axes=[0, 2, 1])\n  %y = matmul(%x, %t)\n",
       "(2, T, 8)",
       "(2, T, T)",
       {{"T", 21}}},
      {"HeadsThatShareKeys", shared_keys(), "(2, 6, M, 8)", "(2, 6, M, 8)", {{"M", 21}}},
      {"OneQueryOfHeadsThatShareKeys", shared_keys(), "(2, 6, 1, 8)", "(2, 6, 1, 8)", {}},
      {"TriangleFromASymbolicDiagonal",
       "  %a = trilu(%x, upper=true, k=N - 4)\n  %y = trilu(%a, upper=false, k=N)\n",
       "(2, N, 9)",
       "(2, N, 9)",
       {{"N", 6}}},
      {"ConvOfWholeRows",
       "  %y = nn.conv(%x, @w: Tensor[(20, 1, 3, 37), f32], channels=20, kernel=[3, 37], strides=[2, 1], "
       "dilations=[1, 1], padding=(1, 0, 2, 0), groups=1)\n",
       "(2, 1, 11, 37)",
       "(2, 20, 6, 1)",
       {}},
      {"ConvOfWholeRowsOfChannels",
       "  %y = nn.conv(%x, @w: Tensor[(20, 3, 2, 5), f32], channels=20, kernel=[2, 5], strides=[1, 1], "
       "dilations=[2, 1], padding=(0, 0, 0, 0), groups=1)\n",
       "(N, 3, 11, 5)",
       "(N, 20, 9, 1)",
       {{"N", 2}}},
      {"ConvOfWholePlanes",
       "  %y = nn.conv(%x, @w: Tensor[(8, 2, 2, 3, 4), f32], channels=8, kernel=[2, 3, 4], strides=[1, 1, "
       "1], "
       "dilations=[1, 1, 1], padding=(0, 0, 0, 0, 0, 0), groups=1)\n",
       "(2, 2, 7, 3, 4)",
       "(2, 8, 6, 1, 1)",
       {}},
      {"ConvOfWholeImages",
       "  %y = nn.conv(%x, @w: Tensor[(12, 5, 3, 4), f32], channels=12, kernel=[3, 4], strides=[1, 1], "
       "dilations=[1, 1], padding=(0, 0, 0, 0), groups=1)\n",
       "(3, 5, 3, 4)",
       "(3, 12, 1, 1)",
       {}},
      {"TurnedAndStraightOperands",
       "  %t = transpose(%x, axes=[0, 2, 3, 1])\n  %r = reshape(%x, shape=(2, 19, 21, 35))\n"
       "  %y = add(%t, %r)\n",
       "(2, 35, 19, 21)",
       "(2, 19, 21, 35)",
       {}},
      {"ChannelScale",
       "  %a = " + conv("%x", 20, 3, 1, same(0)) +
           "\n  %m = mean(%a, axes=[2, 3], keepdims=true)\n  %y = multiply(%a, %m)\n",
       "(1, 3, 4, 8)",
       "(1, 20, 4, 8)",
       {}},
      {"Concat",
       "  %a = " + conv("%x", 20, 3, 1, same(0)) +
           "\n  %b = nn.relu(%a)\n  %y = concatenate(%a, %b, %a, axis=1)\n",
       "(1, 3, 4, 4)",
       "(1, 60, 4, 4)",
       {}},
  };
}

class ProgramOfTarget : public testing::TestWithParam<std::string> {};

// Weights of small integers, as the arguments are.
Graph graph_of(const Case& c) {
  std::string text = "fn @main(%x: Tensor[" + c.input + ", f32]) -> Tensor[" + c.output + ", f32] {\n" +
                     c.nodes + "  return %y\n}\n";
  Graph blank = parse_graph(text, op_set());
  std::map<std::string, ConstantPtr> weights;
  for (const Value* constant : blank.main.constants()) {
    std::byte* bytes = nullptr;
    auto data = allocate_constant(constant->type, &bytes);
    auto* values = reinterpret_cast<float*>(bytes);
    int64_t count = element_count(constant->type.shape).value();
    for (int64_t i = 0; i < count; ++i) values[i] = static_cast<float>((i * 7 + i / 5) % 9 - 4);
    weights[constant->name] = data;
  }
  return parse_graph(text, op_set(), weights);
}

void check_cases(const Target& target, const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    Graph graph = graph_of(c);
    Arguments arguments = random_arguments(graph, c.symbols);
    std::vector<float> expected = interpret_graph(bind_symbols(graph, c.symbols), arguments);
    float largest = 0;
    for (float value : expected) largest = std::max(largest, std::abs(value));
    const float tolerance = 1e-4f + 3e-6f * largest;  // algorithms that transform their tiles round
    for (int opt_level : {0, 3}) {
      SCOPED_TRACE(opt_level);
      try {
        std::vector<float> actual = evaluate_program(graph, target, opt_level, arguments, c.symbols);
        EXPECT_THAT(actual, testing::Pointwise(testing::FloatNear(tolerance), expected));
      } catch (const Error& error) {
        ADD_FAILURE() << error.what();
      }
    }
  }
}

TEST_P(ProgramOfTarget, ComputesWhatTheGraphSays) {
  check_cases(find_target(GetParam()), cases());
}
TEST_P(ProgramOfTarget, ComputesConcatenationsAndTranspositions) {
  check_cases(find_target(GetParam()), movement_cases());
}
TEST_P(ProgramOfTarget, ComputesWindowsOverEdges) {
  check_cases(find_target(GetParam()), window_cases());
}

INSTANTIATE_TEST_SUITE_P(Cpu, ProgramOfTarget,
                         testing::Values("x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
                           return name;
                         });

}  // namespace
}  // namespace gantry::test
