#include "host/passes/alter_layout.h"

#include <fmt/format.h>

#include <limits>

#include "host/ops/conv.h"
#include "host/passes/dilation_phases.h"
#include "host/tensor/interpret.h"
#include "tests/passes/pass_test.h"

namespace gantry {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

LayoutPolicy blocks_of(int64_t block) {
  LayoutPolicy policy;
  policy.conv_block = [block](const ConvAttrs&, const TensorType&, const TensorType&) { return block; };
  policy.dense_block = [block](const TensorType&, int64_t) { return block; };
  return policy;
}

LayoutPolicy products(ConvAlgorithm algorithm) {
  LayoutPolicy policy = blocks_of(8);
  policy.conv_algorithm = [algorithm](const ConvAttrs&, const TensorType&, const TensorType&) {
    return algorithm;
  };
  policy.dense_gemm = [](const TensorType&, int64_t) { return true; };
  policy.matmul_gemm = [](const TensorType&, const TensorType&) { return true; };
  return policy;
}

std::string altered(const std::string& text, const LayoutPolicy& policy) {
  Graph graph = parse_graph(text, table());
  alter_layout(graph, policy, fresh_context());
  verify(graph, table(), "alter_layout");
  fold_constant(graph, fresh_context());
  dead_code(graph, fresh_context());
  verify(graph, table(), "dead_code");
  return print(graph, table());
}
std::string altered(const std::string& text, int64_t block = 8) {
  return altered(text, blocks_of(block));
}

size_t count_of(const std::string& text, const std::string& word) {
  size_t count = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

const std::string kConv =
    "nn.conv(%x, @w: Tensor[(6, 4, 3, 3), f32], channels=6, kernel=[3, 3], strides=[1, 1], dilations=[1, 1], "
    "padding=(1, 1, 1, 1))";

TEST(AlterLayout, RunsAConvolutionChannelsLastWithPackedWeights) {
  std::string text =
      altered("fn @main(%x: Tensor[(N, 4, H, W), f32]) -> Tensor[(N, 6, H, W), f32] {\n  %y = " + kConv +
              "\n  return %y\n}\n");
  EXPECT_THAT(text, HasSubstr("channels_last=true"));
  EXPECT_THAT(text, HasSubstr("Tensor[(1, 3, 3, 4, 8), f32]")) << "one block of 8 channels, two of them zero";
  EXPECT_EQ(count_of(text, "transpose("), 2u) << text;
}

TEST(AlterLayout, ReadsAnImageAsTheModelHasItWhereTheTargetWants) {
  LayoutPolicy policy = blocks_of(8);
  policy.conv_plain_data = [](const ConvAttrs& attrs, const TensorType&, const TensorType&) {
    return attrs.plain_data;
  };
  const std::string text =
      altered("fn @main(%x: Tensor[(1, 4, 5, 5), f32]) -> Tensor[(1, 6, 5, 5), f32] {\n  %a = " + kConv +
                  "\n  %b = nn.conv(%a, @v: Tensor[(6, 6, 1, 1), f32], channels=6, kernel=[1, 1], "
                  "strides=[1, 1], dilations=[1, 1], padding=(0, 0, 0, 0))\n  return %b\n}\n",
              policy);
  EXPECT_EQ(count_of(text, "plain_data=true"), 1u) << "the result of the first is channels-last:\n" << text;
  EXPECT_EQ(count_of(text, "transpose("), 1u) << "only at the end:\n" << text;
}

TEST(AlterLayout, TakesTheModelsOwnTranspositionsForTheOrderThatItMakes) {
  std::string text =
      altered("fn @main(%x: Tensor[(1, 4, 5, 5), f32]) -> Tensor[(1, 6, 5, 5), f32] {\n  %a = " + kConv +
              "\n  %b = transpose(%a, axes=[0, 2, 3, 1])\n  %c = nn.relu(%b)\n"
              "  %d = transpose(%c, axes=[0, 3, 1, 2])\n"
              "  %e = multiply(%d, @scale: Tensor[(6, 1, 1), f32])\n  %f = add(%e, %a)\n  return %f\n}\n");
  EXPECT_EQ(count_of(text, "transpose("), 2u) << "only at the ends:\n" << text;
}

TEST(AlterLayout, KeepsElementwiseOpsBetweenConvolutionsChannelsLast) {
  std::string text =
      altered("fn @main(%x: Tensor[(1, 4, 5, 5), f32]) -> Tensor[(1, 6, 5, 5), f32] {\n  %a = " + kConv +
              "\n  %b = nn.relu(%a)\n"
              "  %c = nn.conv(%b, @v: Tensor[(6, 6, 1, 1), f32], channels=6, kernel=[1, 1], "
              "strides=[1, 1], dilations=[1, 1], padding=(0, 0, 0, 0))\n"
              "  %d = add(%c, %b)\n  return %d\n}\n");
  EXPECT_EQ(count_of(text, "transpose("), 2u) << "only at the ends:\n" << text;
}

TEST(AlterLayout, TurnsAPooledImageIntoAVectorWithoutMovingBytes) {
  std::string text = altered(
      "fn @main(%x: Tensor[(2, 4, 5, 5), f32]) -> Tensor[(2, 6), f32] {\n  %a = " + kConv +
      "\n  %b = mean(%a, axes=[2, 3], keepdims=true)\n  %c = reshape(%b, shape=(2, 6))\n  return %c\n}\n");
  EXPECT_EQ(count_of(text, "transpose("), 1u) << text;
}

TEST(AlterLayout, ReducesAnImageInItsOrderWhereWhatIsLeftKeepsItsOwn) {
  auto reduced = [](const std::string& axes, const std::string& shape) {
    return altered("fn @main(%x: Tensor[(6, 4, 6, 5), f32]) -> Tensor[(" + shape + "), f32] {\n  %a = " +
                   kConv + "\n  %b = max(%a, axes=[" + axes + "], keepdims=false)\n  return %b\n}\n");
  };
  for (const auto& [axes, shape] :
       {std::pair{"2, 3", "6, 6"}, {"1, 2, 3", "6"}, {"0, 2, 3", "6"}, {"1, 3", "6, 6"}})
    EXPECT_EQ(count_of(reduced(axes, shape), "transpose("), 1u) << "only of %x; axes " << axes;
  EXPECT_EQ(count_of(reduced("0, 3", "6, 6"), "transpose("), 2u) << "channels would come behind the lines";
}

TEST(AlterLayout, LeavesGraphsWithoutConvolutionsAlone) {
  const std::string text =
      "fn @main(%x: Tensor[(2, 4, 5, 5), f32]) -> Tensor[(2, 4, 5, 5), f32] {\n  %a = nn.relu(%x)\n  return "
      "%a\n}\n";
  EXPECT_THAT(altered(text), Not(HasSubstr("transpose")));
}

TEST(AlterLayout, ABlockOfZeroLeavesTheOpAsItIs) {
  std::string text =
      altered("fn @main(%x: Tensor[(N, 4, H, W), f32]) -> Tensor[(N, 6, H, W), f32] {\n  %y = " + kConv +
                  "\n  return %y\n}\n",
              0);
  EXPECT_THAT(text, Not(HasSubstr("channels_last=true")));
}

const std::string kConvFunction =
    "fn @main(%x: Tensor[(N, 4, H, W), f32]) -> Tensor[(N, 6, H, W), f32] {\n  %y = " + kConv +
    "\n  return %y\n}\n";

TEST(AlterLayout, WeightsOfTheProductFormAreAMatrixOfTapsAndChannels) {
  EXPECT_THAT(altered(kConvFunction, products(ConvAlgorithm::kGemm)),
              AllOf(HasSubstr("algorithm=gemm"), HasSubstr("Tensor[(36, 6), f32]")));
}

TEST(AlterLayout, WeightsForWinogradAreTransformedWhenCompiling) {
  EXPECT_THAT(altered(kConvFunction, products(ConvAlgorithm::kWinograd4)),
              AllOf(HasSubstr("algorithm=winograd4"), HasSubstr("Tensor[(36, 4, 6), f32]"),
                    Not(HasSubstr("nn.winograd_weight"))));
}

TEST(AlterLayout, WhatWinogradDoesNotFitBecomesAPlainProduct) {
  std::string text = altered(
      "fn @main(%x: Tensor[(N, 4, H, W), f32]) -> Tensor[(N, 6, H, W), f32] {\n  %y = nn.conv(%x, @w: "
      "Tensor[(6, "
      "2, 1, 1), f32], channels=6, kernel=[1, 1], strides=[1, 1], dilations=[1, 1], padding=(0, 0, 0, 0), "
      "groups=2)\n  return %y\n}\n",
      products(ConvAlgorithm::kWinograd2));
  EXPECT_THAT(text, AllOf(HasSubstr("algorithm=gemm"), HasSubstr("const(f32, [2, 2, 3]")));
}

TEST(AlterLayout, DepthwiseConvolutionsHaveAFormOfTheirOwn) {
  std::string text = altered(
      "fn @main(%x: Tensor[(N, 4, H, W), f32]) -> Tensor[(N, 4, H, W), f32] {\n  %y = nn.conv(%x, @w: "
      "Tensor[(4, "
      "1, 1, 1), f32], channels=4, kernel=[1, 1], strides=[1, 1], dilations=[1, 1], padding=(0, 0, 0, 0), "
      "groups=4)\n  return %y\n}\n",
      products(ConvAlgorithm::kGemm));
  EXPECT_THAT(text, AllOf(HasSubstr("depthwise_packed=true"), Not(HasSubstr("algorithm="))));
}

TEST(AlterLayout, DilatedConvolutionsAreComputedByPhasesWhereThePolicyWantsThat) {
  LayoutPolicy policy = products(ConvAlgorithm::kGemm);
  TensorType data, result;
  policy.conv_phases = [&](const ConvAttrs&, const TensorType&, const TensorType&,
                           const DilationPhases& phases) {
    data = phases.data;
    result = phases.result;
    return true;
  };
  const auto conv = [&](const char* dilations, const char* strides, const char* out) {
    return altered(
        fmt::format(
            "fn @main(%x: Tensor[(N, 4, 9, 8), f32]) -> Tensor[(N, 2, {2}), f32] {{\n  %y = nn.conv(%x, @w: "
            "Tensor[(2, 4, 3, 3), f32], channels=2, kernel=[3, 3], strides=[{1}], dilations=[{0}], "
            "padding=(2, 2, 2, 2))\n  return %y\n}}\n",
            dilations, strides, out),
        policy);
  };
  // 9 lines are 5 and 4 of each phase, each with one before and after.
  EXPECT_THAT(conv("2, 2", "1, 1", "9, 8"), AllOf(Not(HasSubstr("dilations=")), Not(HasSubstr("padding="))));
  EXPECT_EQ(data.str(), "Tensor[(4*N, 4, 7, 6), f32]");
  EXPECT_EQ(result.str(), "Tensor[(4*N, 2, 5, 4), f32]");
  EXPECT_THAT(conv("2, 1", "1, 1", "9, 10"), HasSubstr("dilations=[2, 1]"));
  EXPECT_THAT(conv("2, 2", "2, 2", "5, 4"), HasSubstr("dilations=[2, 2]"));
}

TEST(AlterLayout, DepthwiseConvolutionsOfPlainDataStayAsTheyAreWhereThePolicyWantsThatSo) {
  LayoutPolicy policy = products(ConvAlgorithm::kGemm);
  policy.depthwise_plain = [](const ConvAttrs&, const TensorType&) { return true; };
  const std::string conv =
      "nn.conv(%x, @w: Tensor[(4, 1, 1, 1), f32], channels=4, kernel=[1, 1], strides=[1, 1], dilations=[1, "
      "1], "
      "padding=(0, 0, 0, 0), groups=4)";
  const std::string head = "fn @main(%x: Tensor[(N, 4, H, W), f32]) -> Tensor[(N, 4, H, W), f32] {\n  %y = ";
  EXPECT_THAT(altered(head + conv + "\n  return %y\n}\n", policy),
              AllOf(Not(HasSubstr("depthwise_packed")), Not(HasSubstr("transpose"))));
  // What lies channels-last already is read so.
  const std::string first =
      "nn.conv(%x, @v: Tensor[(4, 4, 1, 1), f32], channels=4, kernel=[1, 1], strides=[1, 1], dilations=[1, "
      "1], "
      "padding=(0, 0, 0, 0))\n  %z = ";
  std::string second = conv;
  second.replace(second.find("%x"), 2, "%y");
  EXPECT_THAT(altered(head + first + second + "\n  return %z\n}\n", policy),
              HasSubstr("depthwise_packed=true"));
}

TEST(AlterLayout, MatrixProductsTakeTheFormThatTheTargetWants) {
  std::string text = altered(
      "fn @main(%x: Tensor[(N, 4, 8), f32]) -> Tensor[(N, 4, 4), f32] {\n  %y = nn.dense(%x, @w: Tensor[(8, "
      "5), "
      "f32], units=5)\n  %z = matmul(%y, %y, transpose_b=true)\n  return %z\n}\n",
      products(ConvAlgorithm::kGemm));
  EXPECT_EQ(count_of(text, "gemm=true"), 2u) << text;
  EXPECT_THAT(text, HasSubstr("Tensor[(8, 5), f32]"));
}

/// A product whose weights are 1 but for one in each chunk of the depth.
std::string altered_product(float other, std::vector<int64_t> bits) {
  LayoutPolicy policy = blocks_of(8);
  policy.dense_fixed_point = [bits](const TensorType&, int64_t) {
    std::vector<LayoutPolicy::FixedPointBlock> formats;
    for (int64_t count : bits) formats.push_back({count, 16});
    return formats;
  };
  Graph graph = parse_graph(
      "fn @main(%x: Tensor[(2, 100), f32]) -> Tensor[(2, 5), f32] {\n"
      "  %y = nn.dense(%x, @w: Tensor[(100, 5), f32], units=5)\n  return %y\n}\n",
      table());
  std::vector<float> weights(500, 1);
  weights[7] = other;
  graph.main.constants().at(0)->constant = make_constant({DType::kF32, {100, 5}}, weights.data());
  alter_layout(graph, policy, fresh_context());
  verify(graph, table(), "alter_layout");
  fold_constant(graph, fresh_context());
  dead_code(graph, fresh_context());
  return print(graph, table());
}

TEST(AlterLayout, WeightsBecomeIntegersWhereTheseAreExactEnough) {
  const std::string integers = altered_product(2, {20, 24});
  EXPECT_THAT(integers, AllOf(HasSubstr("fixed_bits=20"), HasSubstr("Tensor[(1, 100, 10), i32]")));
  EXPECT_THAT(altered_product(2, {24}),
              AllOf(HasSubstr("fixed_bits=24"), HasSubstr("Tensor[(1, 100, 12), i32]")));
  EXPECT_THAT(altered_product(2, {}), AllOf(HasSubstr("weight_block=8"), Not(HasSubstr("fixed_bits"))));
  for (float other : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()})
    EXPECT_THAT(altered_product(other, {20, 24}),
                AllOf(HasSubstr("Tensor[(1, 100, 8), f32]"), Not(HasSubstr("fixed_bits"))));
}

TEST(AlterLayout, RecurrentWeightsArePackedAsAStepReadsThem) {
  LayoutPolicy policy = blocks_of(8);
  std::vector<int64_t> asked;
  policy.recurrent = [&asked](const TensorType& state, const std::vector<int64_t>& runs) {
    EXPECT_EQ(state.shape[1], Dim(3));
    asked.insert(asked.end(), runs.begin(), runs.end());
    return runs[0] == 28 ? RecurrentPacking{} : RecurrentPacking{.columns = 64, .sequences = 3};
  };
  auto with_units = [&](int units) {
    const std::string h = std::to_string(units), c = std::to_string(4 * units);
    return altered("fn @main(%x: Tensor[(5, 3, " + c + "), f32]) -> Tensor[(5, 1, 3, " + h +
                       "), f32] {\n  %y, %h, %c = nn.lstm_recurrence(%x, @r: Tensor[(1, " + h + ", " + c +
                       "), f32], @h0: Tensor[(1, 3, " + h + "), f32], @c0: Tensor[(1, 3, " + h +
                       "), f32], none)\n  return %y\n}\n",
                   policy);
  };
  EXPECT_THAT(with_units(64),
              AllOf(HasSubstr("weight_block=64, sequences=3"), HasSubstr("Tensor[(1, 16384), f32]")));
  // 4 x 13 columns are padded to 64.
  EXPECT_THAT(with_units(13), AllOf(HasSubstr("weight_block=64"), HasSubstr("Tensor[(1, 832), f32]")));
  EXPECT_THAT(with_units(7), AllOf(Not(HasSubstr("weight_block")), HasSubstr("Tensor[(1, 7, 28), f32]")));
  EXPECT_THAT(asked, ::testing::ElementsAre(256, 52, 28));
  const std::string unknown = altered(
      "fn @main(%x: Tensor[(5, 3, 16), f32], %h: Tensor[(1, 3, H), f32]) -> Tensor[(5, 1, 3, 16), f32] "
      "{\n  %y, %s = nn.rnn_recurrence(%x, @r: Tensor[(1, 16, 16), f32], %h)\n  return %y\n}\n",
      policy);
  EXPECT_THAT(unknown, Not(HasSubstr("weight_block")))
      << "a packed weight does not say how many units there are";
}

}  // namespace
}  // namespace gantry
