// Which form a convolution gets.
#include <gtest/gtest.h>

#include "host/codegen/find_target.h"
#include "host/ops/conv.h"
#include "host/ops/op.h"
#include "tests/forms/given_forms.h"
#include "tests/support/square_window.h"

namespace gantry {
namespace {

using testing::square_window;

Decision chosen(const ConvAttrs& attrs, const TensorType& data, const Target& target) {
  Shape weight{attrs.channels, data.shape[1].value() / attrs.groups};
  for (int64_t extent : attrs.kernel) weight.emplace_back(extent);
  const LoneNode conv(nn::conv, attrs, data, {DType::kF32, weight});
  return forms::make_forms(target)->choose(conv.question());
}

Decision chosen(int64_t channels, int64_t size, int64_t outputs, int64_t kernel = 3, int64_t stride = 1) {
  return chosen(square_window(outputs, kernel, stride), {DType::kF32, {1, channels, size, size}},
                find_target("x86-64-v4"));
}

/// Results a side of a tile of a Winograd form; 0 for others.
int tile_of(const Decision& decision) {
  return decision.form.starts_with("winograd") ? decision.form.back() - '0' : 0;
}

TEST(ConvForms, AreWinogradsForLargeImagesOfManyChannels) {
  EXPECT_GE(tile_of(chosen(64, 224, 64)), 4);
  EXPECT_GE(tile_of(chosen(64, 56, 64)), 4);
  EXPECT_GE(tile_of(chosen(128, 28, 128)), 4);
}

TEST(ConvForms, SumTheSlicesOfVolumesInWinogradsAlgorithm) {
  ConvAttrs attrs = square_window(64);
  for (auto* spatial : {&attrs.kernel, &attrs.strides, &attrs.dilations})
    spatial->insert(spatial->begin(), spatial == &attrs.kernel ? 3 : 1);
  attrs.padding = {1, 1, 1, 1, 1, 1};
  const auto of_channels = [&](int64_t channels) {
    return chosen(attrs, {DType::kF32, {1, channels, 8, 56, 56}}, find_target("x86-64-v4"));
  };
  EXPECT_GE(tile_of(of_channels(64)), 2);
  EXPECT_EQ(of_channels(24).form, "direct") << "a vector of inputs would be of two slices";
}

TEST(ConvForms, AreDirectWhereWeightsOutweighTheImage) {
  EXPECT_EQ(chosen(512, 7, 512).form, "direct");
}

// Of a model whose images may have any size, deeper layers are planned for smaller ones.
TEST(ConvForms, UnknownExtentsAreGuessedFromThoseOfTheModel) {
  const auto of_part = [](int64_t channels, int64_t parts) {
    const auto extent = [&](const char* name) { return floordiv(Dim::symbol(name), Dim(parts)); };
    return chosen(square_window(channels), {DType::kF32, {1, channels, extent("height"), extent("width")}},
                  find_target("x86-64-v4"));
  };
  EXPECT_GE(tile_of(of_part(64, 4)), 4);
  EXPECT_EQ(of_part(512, 32).form, "direct");
}

TEST(ConvForms, AreWinogradsForGroupsOfManyChannels) {
  const Decision decision =
      chosen(square_window(224, 3, 1, 4), {DType::kF32, {1, 224, 56, 56}}, find_target("x86-64-v4"));
  EXPECT_GE(tile_of(decision), 4);
  EXPECT_EQ(56 % decision.knob("block"), 0) << "blocks are whole in a group";
}

TEST(ConvForms, AreDirectForWindowsThatWinogradDoesNotFit) {
  EXPECT_EQ(chosen(64, 56, 64, 1).form, "direct");
  EXPECT_EQ(chosen(64, 56, 128, 3, 2).form, "direct");
  EXPECT_EQ(chosen(3, 224, 64).form, "direct");
}

TEST(ConvForms, OfGpusAreProductsWhereWinogradDoesNotFitOrIsNotExactEnough) {
  Target target = find_target("cuda:sm_80");
  const TensorType data{DType::kF32, {8, 64, 56, 56}};
  EXPECT_EQ(chosen(square_window(64, 3, 2), data, target), (Decision{"gemm", {}}));
  target.precision = Precision::kFp16;
  EXPECT_EQ(chosen(square_window(64), data, target), (Decision{"gemm", {}}));
}

TEST(ConvForms, KeepWeightsSmallWhereThatIsAsked) {
  const ConvAttrs attrs = square_window(64);
  const LoneNode conv(nn::conv, attrs, {DType::kF32, {1, 64, 56, 56}}, {DType::kF32, {64, 64, 3, 3}});
  const Target target = find_target("x86-64-v4");
  EXPECT_GE(tile_of(forms::make_forms(target)->choose(conv.question())), 4);
  EXPECT_EQ(forms::make_forms(target, true)->choose(conv.question()).form, "direct");
}

TEST(ConvForms, EveryCandidateSaysWhyItIsNotTaken) {
  const LoneNode conv(nn::conv, square_window(128), {DType::kF32, {1, 128, 28, 28}}, {DType::kF32, {128, 128, 3, 3}});
  const auto all = forms::make_forms(find_target("x86-64-v3"));
  const Decision taken = all->choose(conv.question());
  int taken_ones = 0;
  std::string six;
  for (const Candidate& one :
       compared(all->candidates(conv.question()), taken, [](const Decision&) { return 0.0; })) {
    EXPECT_EQ(one.why.empty(), one.decision == taken) << to_string(one.decision) << ": " << one.why;
    EXPECT_TRUE(one.cycles.has_value()) << to_string(one.decision);
    taken_ones += one.why.empty() ? 1 : 0;
    if (one.decision.form == "winograd6") six = one.why;
  }
  EXPECT_EQ(taken_ones, 1);
  EXPECT_EQ(six, "not exact enough over so many channels");
}

// What is said of a decision before it is applied is what its node does then.
TEST(ConvForms, ReadAndWriteImagesAsTheirAttributesSay) {
  const auto expect = [](const char* target, const char* decision, const ConvAttrs& attrs) {
    const int64_t inputs = attrs.groups > 1 ? 1 : 16;
    const LoneNode conv(nn::conv, attrs, {DType::kF32, {1, 16, 28, 28}},
                        {DType::kF32, {attrs.channels, inputs, attrs.kernel[0], attrs.kernel[1]}});
    const auto forms = forms::make_forms(with_precision(find_target(target), Precision::kAuto));
    const FormQuestion question = conv.question(true);
    const Decision parsed = parse_decision(decision);
    ASSERT_EQ(forms->misfit(question, parsed), std::nullopt) << decision;
    const NodeOrders orders = forms->orders(question, parsed);
    Function scratch("scratch");
    FormQuestion copied{.node = conv.node(), .weight = scratch.add_constant("w", conv.node().inputs[1]->constant)};
    WeightPacker packer(scratch, {});
    const FormedNode formed = forms->apply(copied, parsed, packer);
    if (formed.attrs == nullptr) {
      EXPECT_EQ(orders, NodeOrders{}) << decision;
      return;
    }
    const auto& made = static_cast<const ConvAttrs&>(*formed.attrs);
    EXPECT_EQ(orders.data == ImageOrder::kChannelsLast, made.data_channels_last()) << decision;
    EXPECT_EQ(orders.result == ImageOrder::kChannelsLast, made.channels_last) << decision;
    Node node{.op = conv.node().op, .attrs = formed.attrs};
    const bool staged = op_def(node).stages_input(node, 0) && !made.form.depthwise_packed && !formed.phases;
    EXPECT_EQ(orders.stages_data, staged) << decision;
  };
  ConvAttrs dilated = square_window(16);
  dilated.dilations = {2, 2};
  dilated.padding = {2, 2, 2, 2};
  for (const char* decision : {"{form=plain}", "{form=direct, block=16}", "{form=direct, block=16, plain_data=1}",
                               "{form=gemm}", "{form=winograd4, block=16}", "{form=tiles, parts=3}"})
    expect("sapphirerapids", decision, square_window(16));
  expect("sapphirerapids", "{form=depthwise}", square_window(16, 3, 1, 16));
  expect("sapphirerapids", "{form=direct, block=16, phases=1}", dilated);
  expect("sapphirerapids", "{form=winograd2, block=16, phases=1}", dilated);
  for (const char* decision : {"{form=plain}", "{form=gemm}", "{form=winograd4}"})
    expect("cuda:sm_80", decision, square_window(16));
}

// A question keeps what was found out while it was asked.
TEST(ConvForms, AreAppliedAlikeWhateverWasAskedBefore) {
  ConvAttrs dilated = square_window(32, 3, 1, 4);
  dilated.dilations = {2, 2};
  dilated.padding = {2, 2, 2, 2};
  const LoneNode conv(nn::conv, dilated, {DType::kF32, {1, 32, 28, 28}}, {DType::kF32, {32, 8, 3, 3}});
  const auto forms = forms::make_forms(find_target("x86-64-v3"));
  const auto formed = [&](const FormQuestion& question, const Decision& decision) {
    Function scratch("scratch");
    FormQuestion applied{.node = question.node,
                         .weight = scratch.add_constant("w", conv.node().inputs[1]->constant)};
    applied.found = question.found;
    WeightPacker packer(scratch, {});
    const FormedNode made = forms->apply(applied, decision, packer);
    const auto image = [](const TensorType& type) { return type.str(); };
    return to_string(*made.attrs) + (made.phases ? " of " + image(made.phases->data) + " " + image(made.phases->result) +
                                                       " " + to_string(made.phases->attrs)
                                                 : "");
  };
  for (const char* text : {"{form=direct, block=8}", "{form=direct, block=16, merged_groups=2}",
                           "{form=direct, block=8, phases=1}", "{form=direct, block=16, merged_groups=2, phases=1}",
                           "{form=winograd2, block=8, merged_groups=4, phases=1}"}) {
    const Decision decision = parse_decision(text);
    const FormQuestion fresh = conv.question(true), asked = conv.question(true);
    EXPECT_FALSE(forms->candidates(asked).empty());
    EXPECT_EQ(forms->misfit(asked, decision), std::nullopt) << text;
    EXPECT_EQ(formed(asked, decision), formed(fresh, decision)) << text;
    EXPECT_NE(formed(fresh, decision).find(decision.knob("phases") != 0 ? " of Tensor[(4, 32, 16, 16), f32]" : "channels=32"),
              std::string::npos)
        << formed(fresh, decision);
  }
}

TEST(ConvForms, DecisionsThatDoNotFitSayWhy) {
  const LoneNode grouped(nn::conv, square_window(36, 3, 1, 3), {DType::kF32, {1, 6, 28, 28}}, {DType::kF32, {36, 2, 3, 3}});
  ConvAttrs dilated = square_window(32);
  dilated.dilations = {2, 2};
  dilated.padding = {2, 2, 2, 2};
  const LoneNode apart(nn::conv, dilated, {DType::kF32, {1, 32, 28, 28}}, {DType::kF32, {32, 32, 3, 3}});
  const auto why = [](const LoneNode<ConvAttrs>& conv, const char* target, const char* decision) {
    return forms::make_forms(find_target(target))->misfit(conv.question(true), parse_decision(decision)).value_or("");
  };
  EXPECT_EQ(why(grouped, "x86-64-v3", "{form=winograd2, block=8}"),
            "block divides the 12 outputs of a group, which 8 does not");
  EXPECT_EQ(why(grouped, "cuda:sm_80", "{form=winograd2}"),
            "form winograd2 takes groups in blocks of their outputs, which only CPUs have");
  EXPECT_EQ(why(apart, "x86-64-v3", "{form=direct, block=8, phases=1}"), "");
  EXPECT_EQ(why(apart, "x86-64-v3", "{form=direct, block=8, plain_data=1, phases=1}"),
            "plain_data is for convolutions that are not computed as phases, whose images are channels-last");
}

TEST(ConvForms, PhasesAreMadeOfADilationAlone) {
  ConvAttrs dilated = square_window(32);
  dilated.dilations = {2, 2};
  dilated.padding = {2, 2, 2, 2};
  const LoneNode conv(nn::conv, dilated, {DType::kF32, {1, 32, 28, 28}}, {DType::kF32, {32, 32, 3, 3}});
  const Decision decision = parse_decision("{form=direct, block=8, phases=1}");
  Function scratch("scratch");
  const FormQuestion question{.node = conv.node(),
                              .weight = scratch.add_constant("w", conv.node().inputs[1]->constant)};
  WeightPacker packer(scratch, {});
  const FormedNode formed = forms::make_forms(find_target("x86-64-v3"))->apply(question, decision, packer);
  const auto is_made = [&](const Dim& images, int64_t stride = 1) {
    auto attrs = std::make_shared<ConvAttrs>(static_cast<const ConvAttrs&>(*formed.attrs));
    attrs->strides = {stride, stride};
    Value* data = scratch.add_parameter("x", {DType::kF32, {images, 16, 16, 32}});
    const Node node{.op = conv.node().op, .attrs = attrs, .inputs = {data, formed.weights[0]}};
    return forms::is_made_by(node, decision);
  };
  const Dim n = Dim::symbol("N");
  for (const Dim& images : {Dim(4), Dim(12), Dim(25), n * 4}) EXPECT_TRUE(is_made(images)) << images.str();
  for (const Dim& images : {Dim(1), Dim(2), Dim(3), Dim(6), n}) EXPECT_FALSE(is_made(images)) << images.str();
  EXPECT_FALSE(is_made(4, 2)) << "strides";
}

// An answer is kept by all that it depends on.
TEST(ConvForms, OfOneSetAreThoseOfNodesAskedAboutAlone) {
  const Target target = find_target("x86-64-v4");
  const auto all = forms::make_forms(target);
  for (const int64_t size : {56, 7, 56, 112})
    for (const int64_t kernel : {3, 1}) {
      const TensorType data{DType::kF32, {1, 64, size, size}}, weight{DType::kF32, {64, 64, kernel, kernel}};
      const LoneNode conv(nn::conv, square_window(64, kernel), data, weight);
      for (const bool plain : {false, true})
        EXPECT_EQ(all->choose(conv.question(plain)), forms::make_forms(target)->choose(conv.question(plain))) << size;
    }
}

}  // namespace
}  // namespace gantry
