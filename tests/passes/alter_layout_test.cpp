#include "host/passes/alter_layout.h"

#include <fmt/format.h>

#include <limits>
#include <stdexcept>

#include "host/codegen/find_target.h"
#include "host/forms/conv_case.h"
#include "host/ops/conv.h"
#include "host/ops/dense.h"
#include "host/ops/movement.h"
#include "host/ops/recurrent.h"
#include "host/passes/dilation_phases.h"
#include "host/tensor/interpret.h"
#include "tests/forms/given_forms.h"
#include "tests/passes/pass_test.h"

namespace gantry {
namespace {

using testing::ElementsAre;

bool is_depthwise(const FormQuestion& question) {
  const ConvAttrs* conv = question.node.match(nn::conv);
  return conv != nullptr && forms::is_depthwise(*conv, question.node.inputs[0]->type);
}

/// On a CPU: weights in blocks; recurrences stay as they are.
GivenForms blocks_of(int64_t block) {
  return {find_target("x86-64-v2"), [block](const FormQuestion& question, const FormSet&) -> Decision {
            if (is_depthwise(question)) return {"depthwise", {}};
            if (block == 0 || question.node.attrs_if<RecurrenceAttrs>() != nullptr) return {"plain", {}};
            return {question.node.is(nn::conv) ? "direct" : "packed", {{"block", block}}};
          }};
}

/// On a GPU: matrix products, and convolutions as `conv` says.
GivenForms products(const Decision& conv) {
  return {find_target("cuda:sm_80"), [conv](const FormQuestion& question, const FormSet&) -> Decision {
            if (is_depthwise(question)) return {"depthwise", {}};
            return question.node.is(nn::conv) ? conv : Decision{"gemm", {}};
          }};
}

std::string altered(const std::string& text, const FormSet& forms) {
  Graph graph = parse_graph(text, table());
  alter_layout(graph, forms, fresh_context());
  verify(graph, table(), "alter_layout");
  fold_constant(graph, fresh_context());
  dead_code(graph, fresh_context());
  verify(graph, table(), "dead_code");
  return print(graph, table());
}
std::string altered(const std::string& text, int64_t block = 8) {
  return altered(text, blocks_of(block));
}

size_t transpositions(const std::string& text) {
  return count_of(parse_graph(text, table()), op::transpose);
}

/// The only node of an op, in a graph of its own.
template <typename AttrsType>
class Only {
 public:
  Only(const std::string& text, const Op<AttrsType>& op) : graph_(parse_graph(text, table())) {
    for (const Node* node : graph_.main.nodes()) {
      if (!node->is(op)) continue;
      EXPECT_EQ(attrs_, nullptr) << "another one in " << text;
      attrs_ = node->match(op);
      node_ = node;
    }
    if (attrs_ == nullptr) throw std::runtime_error("none in " + text);
  }
  const AttrsType* operator->() const { return attrs_; }
  std::string data_type() const { return node_->inputs.at(0)->type.str(); }
  std::string result_type() const { return node_->result()->type.str(); }
  std::string weight_type() const { return node_->inputs.at(1)->type.str(); }

 private:
  Graph graph_;
  const Node* node_ = nullptr;
  const AttrsType* attrs_ = nullptr;
};

const std::string kConv =
    "nn.conv(%x, @w: Tensor[(6, 4, 3, 3), f32], channels=6, kernel=[3, 3], strides=[1, 1], dilations=[1, 1], "
    "padding=(1, 1, 1, 1))";

const std::string kConvFunction =
    "fn @main(%x: Tensor[(N, 4, H, W), f32]) -> Tensor[(N, 6, H, W), f32] {\n  %y = " + kConv +
    "\n  return %y\n}\n";

TEST(AlterLayout, RunsAConvolutionChannelsLastWithPackedWeights) {
  const std::string text = altered(kConvFunction);
  const Only conv(text, nn::conv);
  EXPECT_TRUE(conv->channels_last);
  EXPECT_EQ(conv.weight_type(), "Tensor[(1, 3, 3, 4, 8), f32]") << "one block of 8 channels, two of them zero";
  EXPECT_EQ(transpositions(text), 2u) << text;
}

TEST(AlterLayout, ReadsAnImageAsTheModelHasItWhereTheTargetWants) {
  const GivenForms forms(find_target("x86-64-v2"), [](const FormQuestion& question, const FormSet&) -> Decision {
    Decision decision{"direct", {{"block", 8}}};
    decision.set("plain_data", question.plain_data ? 1 : 0);
    return decision;
  });
  const std::string text =
      altered("fn @main(%x: Tensor[(1, 4, 5, 5), f32]) -> Tensor[(1, 6, 5, 5), f32] {\n  %a = " + kConv +
                  "\n  %b = nn.conv(%a, @v: Tensor[(6, 6, 1, 1), f32], channels=6, kernel=[1, 1], "
                  "strides=[1, 1], dilations=[1, 1], padding=(0, 0, 0, 0))\n  return %b\n}\n",
              forms);
  const Graph graph = parse_graph(text, table());
  std::vector<bool> plain;
  for (const Node* node : graph.main.nodes()) {
    if (const auto* conv = node->match(nn::conv)) plain.push_back(conv->form.plain_data);
  }
  EXPECT_THAT(plain, ElementsAre(true, false)) << "the result of the first is channels-last";
  EXPECT_EQ(transpositions(text), 1u) << "only at the end:\n" << text;
}

TEST(AlterLayout, TakesTheModelsOwnTranspositionsForTheOrderThatItMakes) {
  std::string text =
      altered("fn @main(%x: Tensor[(1, 4, 5, 5), f32]) -> Tensor[(1, 6, 5, 5), f32] {\n  %a = " + kConv +
              "\n  %b = transpose(%a, axes=[0, 2, 3, 1])\n  %c = nn.relu(%b)\n"
              "  %d = transpose(%c, axes=[0, 3, 1, 2])\n"
              "  %e = multiply(%d, @scale: Tensor[(6, 1, 1), f32])\n  %f = add(%e, %a)\n  return %f\n}\n");
  EXPECT_EQ(transpositions(text), 2u) << "only at the ends:\n" << text;
}

TEST(AlterLayout, KeepsElementwiseOpsBetweenConvolutionsChannelsLast) {
  std::string text =
      altered("fn @main(%x: Tensor[(1, 4, 5, 5), f32]) -> Tensor[(1, 6, 5, 5), f32] {\n  %a = " + kConv +
              "\n  %b = nn.relu(%a)\n"
              "  %c = nn.conv(%b, @v: Tensor[(6, 6, 1, 1), f32], channels=6, kernel=[1, 1], "
              "strides=[1, 1], dilations=[1, 1], padding=(0, 0, 0, 0))\n"
              "  %d = add(%c, %b)\n  return %d\n}\n");
  EXPECT_EQ(transpositions(text), 2u) << "only at the ends:\n" << text;
}

TEST(AlterLayout, TurnsAPooledImageIntoAVectorWithoutMovingBytes) {
  std::string text = altered(
      "fn @main(%x: Tensor[(2, 4, 5, 5), f32]) -> Tensor[(2, 6), f32] {\n  %a = " + kConv +
      "\n  %b = mean(%a, axes=[2, 3], keepdims=true)\n  %c = reshape(%b, shape=(2, 6))\n  return %c\n}\n");
  EXPECT_EQ(transpositions(text), 1u) << text;
}

TEST(AlterLayout, ReducesAnImageInItsOrderWhereWhatIsLeftKeepsItsOwn) {
  auto reduced = [](const std::string& axes, const std::string& shape) {
    return altered("fn @main(%x: Tensor[(6, 4, 6, 5), f32]) -> Tensor[(" + shape + "), f32] {\n  %a = " +
                   kConv + "\n  %b = max(%a, axes=[" + axes + "], keepdims=false)\n  return %b\n}\n");
  };
  for (const auto& [axes, shape] :
       {std::pair{"2, 3", "6, 6"}, {"1, 2, 3", "6"}, {"0, 2, 3", "6"}, {"1, 3", "6, 6"}})
    EXPECT_EQ(transpositions(reduced(axes, shape)), 1u) << "only of %x; axes " << axes;
  EXPECT_EQ(transpositions(reduced("0, 3", "6, 6")), 2u) << "channels would come behind the lines";
}

TEST(AlterLayout, LeavesGraphsWithoutConvolutionsAlone) {
  const std::string text =
      "fn @main(%x: Tensor[(2, 4, 5, 5), f32]) -> Tensor[(2, 4, 5, 5), f32] {\n  %a = nn.relu(%x)\n  return "
      "%a\n}\n";
  EXPECT_THAT(altered(text), IsGraph(text));
}

TEST(AlterLayout, ABlockOfZeroLeavesTheOpAsItIs) {
  std::string expected = kConvFunction;
  expected.insert(expected.find("\n  return"), " {form=plain}");
  EXPECT_THAT(altered(kConvFunction, 0), IsGraph(expected));
}

TEST(AlterLayout, DecisionsOfNodesAreAppliedAsTheyAre) {
  const auto with = [](const std::string& decision) {
    std::string text = kConvFunction;
    return text.insert(text.find("\n  return"), " " + decision);
  };
  const GivenForms forms(find_target("x86-64-v2"), [](const FormQuestion&, const FormSet&) -> Decision {
    return {"gemm", {}};
  });
  EXPECT_THAT(altered(with("{form=plain}"), forms), IsGraph(with("{form=plain}")));
  const std::string text = altered(with("{form=direct, block=8}"), forms);
  EXPECT_THAT(text, ::testing::HasSubstr(") by (weight_block=8, channels_last=true) {form=direct, block=8}"));
  const Graph direct = parse_graph(text, op_set());
  const auto formed = std::ranges::find_if(direct.main.nodes(), [](const Node* node) { return node->is(nn::conv); });
  EXPECT_EQ((*formed)->decision, (Decision{"direct", {{"block", 8}}}));
  EXPECT_EQ((*formed)->attrs_as<ConvAttrs>().form.weight_block, 8);
  EXPECT_EQ((*formed)->attrs_as<ConvAttrs>().form.algorithm, ConvAlgorithm::kDirect);
  for (const char* wrong : {"{form=direct}", "{form=direct, block=6}", "{form=tiles, parts=2}", "{form=depthwise}",
                            "{form=direct, block=8, half=1}", "{form=direct, block=8, merged_groups=3}"})
    EXPECT_THROW(altered(with(wrong), forms), Error) << wrong;
}

TEST(AlterLayout, WeightsOfTheProductFormAreAMatrixOfTapsAndChannels) {
  const Only conv(altered(kConvFunction, products({"gemm", {}})), nn::conv);
  EXPECT_EQ(conv->form.algorithm, ConvAlgorithm::kGemm);
  EXPECT_EQ(conv.weight_type(), "Tensor[(36, 6), f32]");
}

TEST(AlterLayout, WeightsForWinogradAreTransformedWhenCompiling) {
  const std::string text = altered(kConvFunction, products({"winograd4", {}}));
  const Only conv(text, nn::conv);
  EXPECT_EQ(conv->form.algorithm, ConvAlgorithm::kWinograd4);
  EXPECT_EQ(conv.weight_type(), "Tensor[(36, 4, 6), f32]");
  EXPECT_EQ(count_of(parse_graph(text, table()), nn::winograd_weight), 0u);
}

TEST(AlterLayout, WhatWinogradDoesNotFitBecomesAPlainProduct) {
  const Only conv(altered(
      "fn @main(%x: Tensor[(N, 4, H, W), f32]) -> Tensor[(N, 6, H, W), f32] {\n  %y = nn.conv(%x, @w: "
      "Tensor[(6, "
      "2, 1, 1), f32], channels=6, kernel=[1, 1], strides=[1, 1], dilations=[1, 1], padding=(0, 0, 0, 0), "
      "groups=2)\n  return %y\n}\n",
      *forms::make_forms(find_target("cuda:sm_80"))), nn::conv);
  EXPECT_EQ(conv->form.algorithm, ConvAlgorithm::kGemm);
  EXPECT_EQ(conv.weight_type(), "Tensor[(2, 2, 3), f32]");
}

TEST(AlterLayout, DepthwiseConvolutionsHaveAFormOfTheirOwn) {
  const Only conv(altered(
      "fn @main(%x: Tensor[(N, 4, H, W), f32]) -> Tensor[(N, 4, H, W), f32] {\n  %y = nn.conv(%x, @w: "
      "Tensor[(4, "
      "1, 1, 1), f32], channels=4, kernel=[1, 1], strides=[1, 1], dilations=[1, 1], padding=(0, 0, 0, 0), "
      "groups=4)\n  return %y\n}\n",
      products({"gemm", {}})), nn::conv);
  EXPECT_TRUE(conv->form.depthwise_packed);
  EXPECT_EQ(conv->form.algorithm, ConvAlgorithm::kDirect);
}

TEST(AlterLayout, DilatedConvolutionsAreComputedByPhasesWhereThatIsDecided) {
  const GivenForms forms(find_target("x86-64-v2"), [](const FormQuestion& question, const FormSet& all) -> Decision {
    const Decision phases{"gemm", {{"phases", 1}}};
    return all.misfit(question, phases) ? Decision{"gemm", {}} : phases;
  });
  const auto conv = [&](const char* dilations, const char* strides, const char* out) {
    return Only(altered(
        fmt::format(
            "fn @main(%x: Tensor[(N, 4, 9, 8), f32]) -> Tensor[(N, 2, {2}), f32] {{\n  %y = nn.conv(%x, @w: "
            "Tensor[(2, 4, 3, 3), f32], channels=2, kernel=[3, 3], strides=[{1}], dilations=[{0}], "
            "padding=(2, 2, 2, 2))\n  return %y\n}}\n",
            dilations, strides, out),
        forms), nn::conv);
  };
  // 9 lines are 5 and 4 of each phase, each with one before and after.
  const Only phases = conv("2, 2", "1, 1", "9, 8");
  EXPECT_THAT(phases->dilations, ElementsAre(1, 1));
  EXPECT_THAT(phases->padding, ElementsAre(Dim(0), Dim(0), Dim(0), Dim(0)));
  EXPECT_EQ(phases.data_type(), "Tensor[(4*N, 7, 6, 4), f32]");
  EXPECT_EQ(phases.result_type(), "Tensor[(4*N, 5, 4, 2), f32]");
  EXPECT_THAT(conv("2, 1", "1, 1", "9, 10")->dilations, ElementsAre(2, 1));
  EXPECT_THAT(conv("2, 2", "2, 2", "5, 4")->dilations, ElementsAre(2, 2));
}

TEST(AlterLayout, DepthwiseConvolutionsOfPlainDataStayAsTheyAreWhereThatIsDecided) {
  const GivenForms forms(find_target("x86-64-v2"), [](const FormQuestion& question, const FormSet&) -> Decision {
    if (!is_depthwise(question)) return {"gemm", {}};
    return {question.plain_data ? "plain" : "depthwise", {}};
  });
  const std::string conv =
      "nn.conv(%x, @w: Tensor[(4, 1, 1, 1), f32], channels=4, kernel=[1, 1], strides=[1, 1], dilations=[1, "
      "1], "
      "padding=(0, 0, 0, 0), groups=4)";
  const std::string head = "fn @main(%x: Tensor[(N, 4, H, W), f32]) -> Tensor[(N, 4, H, W), f32] {\n  %y = ";
  const std::string alone = head + conv + "\n  return %y\n}\n";
  EXPECT_THAT(altered(alone, forms), IsGraph(head + conv + " {form=plain}\n  return %y\n}\n"));
  // What lies channels-last already is read so.
  const std::string first =
      "nn.conv(%x, @v: Tensor[(4, 4, 1, 1), f32], channels=4, kernel=[1, 1], strides=[1, 1], dilations=[1, "
      "1], "
      "padding=(0, 0, 0, 0))\n  %z = ";
  std::string second = conv;
  second.replace(second.find("%x"), 2, "%y");
  const Graph both = parse_graph(altered(head + first + second + "\n  return %z\n}\n", forms), table());
  const auto last = std::ranges::find_if(both.main.nodes(), [](const Node* node) {
    const auto* attrs = node->match(nn::conv);
    return attrs != nullptr && attrs->groups == 4;
  });
  ASSERT_NE(last, both.main.nodes().end());
  EXPECT_TRUE((*last)->match(nn::conv)->form.depthwise_packed);
}

TEST(AlterLayout, MatrixProductsTakeTheFormThatTheTargetWants) {
  std::string text = altered(
      "fn @main(%x: Tensor[(N, 4, 8), f32]) -> Tensor[(N, 4, 4), f32] {\n  %y = nn.dense(%x, @w: Tensor[(8, "
      "5), "
      "f32], units=5)\n  %z = matmul(%y, %y, transpose_b=true)\n  return %z\n}\n",
      products({"gemm", {}}));
  const Only dense(text, nn::dense);
  EXPECT_TRUE(dense->form.gemm);
  EXPECT_EQ(dense.weight_type(), "Tensor[(8, 5), f32]");
  EXPECT_TRUE(Only(text, op::matmul)->form.gemm);
}

/// A product whose weights are 1 but for one in each chunk of the depth.
Only<DenseAttrs> altered_product(float other, std::vector<int64_t> bits) {
  const GivenForms forms(find_target("x86-64-v2"), [bits](const FormQuestion& question, const FormSet& all) -> Decision {
    for (int64_t count : bits) {
      const Decision integers{"packed", {{"block", 16}, {"bits", count}}};
      if (!all.misfit(question, integers)) return integers;
    }
    return {"packed", {{"block", 8}}};
  });
  Graph graph = parse_graph(
      "fn @main(%x: Tensor[(2, 100), f32]) -> Tensor[(2, 5), f32] {\n"
      "  %y = nn.dense(%x, @w: Tensor[(100, 5), f32], units=5)\n  return %y\n}\n",
      table());
  std::vector<float> weights(500, 1);
  weights[7] = other;
  graph.main.constants().at(0)->constant = make_constant({DType::kF32, {100, 5}}, weights.data());
  alter_layout(graph, forms, fresh_context());
  verify(graph, table(), "alter_layout");
  fold_constant(graph, fresh_context());
  dead_code(graph, fresh_context());
  return {print(graph, table()), nn::dense};
}

TEST(AlterLayout, WeightsBecomeIntegersWhereTheseAreExactEnough) {
  const auto short_ones = altered_product(2, {20, 24}), long_ones = altered_product(2, {24});
  EXPECT_EQ(short_ones->form.fixed_bits, 20);
  EXPECT_EQ(short_ones.weight_type(), "Tensor[(1, 100, 10), i32]");
  EXPECT_EQ(long_ones->form.fixed_bits, 24);
  EXPECT_EQ(long_ones.weight_type(), "Tensor[(1, 100, 12), i32]");
  const auto floats = altered_product(2, {});
  EXPECT_EQ(floats->form.weight_block, 8);
  EXPECT_EQ(floats->form.fixed_bits, 0);
  for (float other : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    const auto special = altered_product(other, {20, 24});
    EXPECT_EQ(special->form.fixed_bits, 0);
    EXPECT_EQ(special.weight_type(), "Tensor[(1, 100, 8), f32]");
  }
}

TEST(AlterLayout, RecurrentWeightsArePackedAsAStepReadsThem) {
  std::vector<int64_t> asked;
  const GivenForms forms(find_target("x86-64-v2"), [&asked](const FormQuestion& question, const FormSet&) -> Decision {
    const std::vector<int64_t> runs = recurrent_runs(question.node, question.weight->type.shape[1].value());
    asked.insert(asked.end(), runs.begin(), runs.end());
    return runs[0] == 28 ? Decision{"plain", {}} : Decision{"packed", {{"columns", 64}, {"sequences", 3}}};
  });
  auto with_units = [&](int units) {
    const std::string h = std::to_string(units), c = std::to_string(4 * units);
    return Only(altered("fn @main(%x: Tensor[(5, 3, " + c + "), f32]) -> Tensor[(5, 1, 3, " + h +
                       "), f32] {\n  %y, %h, %c = nn.lstm_recurrence(%x, @r: Tensor[(1, " + h + ", " + c +
                       "), f32], @h0: Tensor[(1, 3, " + h + "), f32], @c0: Tensor[(1, 3, " + h +
                       "), f32], none)\n  return %y\n}\n",
                   forms), nn::lstm_recurrence);
  };
  const auto whole = with_units(64), padded = with_units(13), plain = with_units(7);
  EXPECT_EQ(whole->form.weight_block, 64);
  EXPECT_EQ(whole->form.sequences, 3);
  EXPECT_EQ(whole.weight_type(), "Tensor[(1, 16384), f32]");
  EXPECT_EQ(padded->form.weight_block, 64);
  EXPECT_EQ(padded.weight_type(), "Tensor[(1, 832), f32]") << "4 x 13 columns are padded to 64";
  EXPECT_EQ(plain->form.weight_block, 0);
  EXPECT_EQ(plain.weight_type(), "Tensor[(1, 7, 28), f32]");
  EXPECT_THAT(asked, ::testing::ElementsAre(256, 52, 28));
  const std::string unknown = altered(
      "fn @main(%x: Tensor[(5, 3, 16), f32], %h: Tensor[(1, 3, H), f32]) -> Tensor[(5, 1, 3, 16), f32] "
      "{\n  %y, %s = nn.rnn_recurrence(%x, @r: Tensor[(1, 16, 16), f32], %h)\n  return %y\n}\n",
      forms);
  EXPECT_EQ(Only(unknown, nn::rnn_recurrence)->form.weight_block, 0)
      << "a packed weight does not say how many units there are";
}

}  // namespace
}  // namespace gantry
