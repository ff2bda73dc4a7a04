// com.microsoft's quantised ops whose data have their channels last, as ONNX Runtime writes them where it
// saves a model that it has optimised: beside their definitions in doubles.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/onnx/model_text.h"
#include "tests/onnx/one_node.h"

namespace gantry {
namespace {

using testing::OneNode;
using Bytes = std::vector<uint8_t>;
constexpr const char* kMicrosoft = "com.microsoft";

/// Bytes that look random and are the same everywhere.
Bytes bytes(size_t count, uint64_t seed) {
  Bytes values;
  for (const double x : model_text::elements(count, seed))
    values.push_back(static_cast<uint8_t>(x * 64 + 128));
  return values;
}

OneNode& parameters(OneNode& node, float scale, uint8_t zero_point) {
  return node.input<float>(DType::kF32, {}, {scale}).input<uint8_t>(DType::kU8, {}, {zero_point});
}

/// Of two images of 4 x 5 with 3 channels, and a weight (2, 3, 3, 3) for windows that are padded by 1 in
/// front alone.
std::vector<double> convolution(const Bytes& x, const Bytes& w, const std::vector<double>& w_scale) {
  std::vector<double> y;
  for (int n = 0; n < 2; ++n)
    for (int i = 0; i < 3; ++i)
      for (int j = 0; j < 4; ++j)
        for (int o = 0; o < 2; ++o) {
          double sum = o == 0 ? 100 : -200;  // the bias
          for (int c = 0; c < 3; ++c)
            for (int a = 0; a < 3; ++a)
              for (int b = 0; b < 3; ++b) {
                const int row = i + a - 1, column = j + b - 1;
                if (row < 0 || row >= 4 || column < 0 || column >= 5) continue;
                const size_t at = static_cast<size_t>(((n * 4 + row) * 5 + column) * 3 + c);
                const size_t of = static_cast<size_t>(((o * 3 + c) * 3 + a) * 3 + b);
                sum += (x[at] - 120.0) * (w[of] - 130.0);
              }
          y.push_back(std::clamp(std::nearbyint(sum * 0.02 * w_scale[static_cast<size_t>(o)] / 0.5) + 90, 0.0,
                                 255.0));
        }
  return y;
}

TEST(ChannelsLast, ConvolutionsHaveWeightsInTheUsualOrder) {
  const Bytes x = bytes(2 * 4 * 5 * 3, 1), w = bytes(2 * 3 * 3 * 3, 2);
  OneNode node(kMicrosoft, "QLinearConv", 13);
  parameters(node.input(DType::kU8, {2, 4, 5, 3}, x), 0.02F, 120);
  node.input(DType::kU8, {2, 3, 3, 3}, w).input<float>(DType::kF32, {2}, {0.01F, 0.02F});
  node.input<uint8_t>(DType::kU8, {2}, {130, 130});
  parameters(node, 0.5F, 90).input<int32_t>(DType::kI32, {2}, {100, -200});
  node.with("channels_last", int64_t{1}).with_list("pads", {1, 1, 0, 0});
  const Bytes y = node.run<uint8_t>(DType::kU8);
  const std::vector<double> expected = convolution(x, w, {0.01, 0.02});
  ASSERT_EQ(y.size(), expected.size());
  int off = 0;
  for (size_t i = 0; i < y.size(); ++i) {
    EXPECT_NEAR(y[i], expected[i], 1) << i;
    if (y[i] != expected[i]) ++off;
  }
  EXPECT_LE(off, 1);  // scaled in f32: a step away at a tie
}

TEST(ChannelsLast, ConvolutionsOfTheOtherOrderAreOnnxs) {
  const Bytes x = bytes(2 * 3 * 6, 3), w = bytes(4 * 3 * 2, 4);
  std::vector<Bytes> results;
  for (const char* domain : {"", kMicrosoft}) {
    OneNode node(domain, "QLinearConv", 13);
    parameters(node.input(DType::kU8, {2, 3, 6}, x), 0.02F, 120);
    parameters(node.input(DType::kU8, {4, 3, 2}, w), 0.01F, 130);
    parameters(node, 0.5F, 90);
    results.push_back(node.run<uint8_t>(DType::kU8));
  }
  EXPECT_EQ(results[0].size(), 2U * 4 * 5);
  EXPECT_EQ(results[0], results[1]);
}

TEST(ChannelsLast, MaximaAreOfEachChannel) {
  OneNode node(kMicrosoft, "NhwcMaxPool", 13);
  node.input<uint8_t>(DType::kU8, {1, 2, 3, 2}, {1, 60, 2, 50, 3, 40, 4, 30, 5, 20, 6, 10});
  node.with_list("kernel_shape", {2, 2}).with_list("strides", {1, 1});
  EXPECT_THAT(node.run<uint8_t>(DType::kU8), ::testing::ElementsAre(5, 60, 6, 50));
}

TEST(ChannelsLast, MeansAreOfEachChannel) {
  OneNode node(kMicrosoft, "QLinearAveragePool", 13);
  parameters(node.input<uint8_t>(DType::kU8, {1, 3, 2}, {10, 200, 20, 100, 40, 0}), 0.5F, 10);
  parameters(node, 0.5F, 10).with("channels_last", int64_t{1}).with_list("kernel_shape", {2});
  EXPECT_THAT(node.run<uint8_t>(DType::kU8), ::testing::ElementsAre(15, 150, 30, 50));
}

/// The mean of each of two channels is 100 and 50, less the zero point.
TEST(ChannelsLast, MeansOfWholeImagesAreOfAnySize) {
  using namespace model_text;  // NOLINT
  for (const bool last : {false, true}) {
    const Graph graph = imported_graph(
        open_input("x", last ? "1 H W 2" : "1 2 H W", 2) + open_input("s", "") + open_input("z", "", 2) +
            node("QLinearGlobalAveragePool", "x s z s z", "y",
                 "domain: 'com.microsoft' " + integer("channels_last", last ? 1 : 0)),
        "y");
    const Bytes x = last ? Bytes{90, 50, 100, 40, 110, 60} : Bytes{90, 100, 110, 50, 40, 60};
    const Shape sizes = last ? Shape{1, 3, 1, 2} : Shape{1, 2, 3, 1};
    const float scale = 0.25F;
    const uint8_t zero_point = 7;
    const ConstantPtr y = testing::interpret_function(
        graph.main, {make_constant({DType::kU8, sizes}, x.data()), make_constant({DType::kF32, {}}, &scale),
                     make_constant({DType::kU8, {}}, &zero_point)})[0];
    ASSERT_EQ(y->size, 2U);
    EXPECT_EQ(y->as<uint8_t>()[0], 100);
    EXPECT_EQ(y->as<uint8_t>()[1], 50);
  }
}

}  // namespace
}  // namespace gantry
