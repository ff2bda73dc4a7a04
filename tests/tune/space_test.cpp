// What there is to try for a node: all of it fits.
#include "host/tune/space.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "host/codegen/find_target.h"
#include "host/ops/conv.h"
#include "host/ops/dense.h"
#include "tests/forms/given_forms.h"

namespace gantry::tune {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Le;
using testing::SizeIs;

forms::FormContext context_of(const char* cpu, Precision precision = Precision::kFp32) {
  return {with_precision(find_target(cpu), precision), false, {}};
}

ConvAttrs window(int64_t outputs, int64_t groups = 1) {
  ConvAttrs attrs;
  attrs.channels = outputs;
  attrs.groups = groups;
  attrs.kernel = {3, 3};
  attrs.strides = {1, 1};
  attrs.dilations = {1, 1};
  attrs.padding = {1, 1, 1, 1};
  return attrs;
}

/// Over images of that many channels and points a side.
LoneNode<ConvAttrs> convolution(int64_t inputs, int64_t outputs, int64_t side, int64_t groups = 1) {
  return {nn::conv, window(outputs, groups), TensorType{DType::kF32, {1, inputs, side, side}},
          TensorType{DType::kF32, {outputs, inputs / groups, 3, 3}}};
}

LoneNode<DenseAttrs> product(int64_t rows, int64_t depth, int64_t units) {
  DenseAttrs attrs;
  attrs.units = units;
  return {nn::dense, attrs, TensorType{DType::kF32, {rows, depth}}, TensorType{DType::kF32, {depth, units}}};
}

/// Empty where the form has no such knob.
std::vector<int64_t> values(const Space& space, const char* form, const char* knob) {
  const auto found = std::ranges::find(space.forms, form, &FormKnobs::form);
  if (found == space.forms.end()) return {};
  const auto at = std::ranges::find(found->knobs, knob, &KnobValues::name);
  return at == found->knobs.end() ? std::vector<int64_t>() : at->values;
}

TEST(Space, OfAProductOfOneRowHasTilesOfOneRow) {
  const LoneNode node = product(1, 64, 96);
  const FormQuestion question = node.question();
  const forms::FormContext context = context_of("x86-64-v3");
  const Space space = space_of(question, context, {"packed", {{"block", 16}}});
  EXPECT_THAT(values(space, "packed", "rows"), ElementsAre(1));
}

TEST(Space, HasBlocksWhoseSumsRegistersHold) {
  // Of 16 registers of 8 sums each one is for the data: of a row of 7 vectors there are sums and weights.
  const forms::FormContext context = context_of("x86-64-v3");
  const LoneNode node = convolution(32, 256, 12);
  const FormQuestion question = node.question();
  const Space space = space_of(question, context, {"direct", {{"block", 16}}});
  EXPECT_THAT(values(space, "direct", "block"), AllOf(Each(Le(56)), Contains(8), Contains(48)));
  // More than one block of few outputs would be zeros.
  const LoneNode narrow = convolution(32, 16, 12);
  const FormQuestion of_narrow = narrow.question();
  EXPECT_THAT(values(space_of(of_narrow, context, {"direct", {{"block", 8}}}), "direct", "block"),
              ElementsAre(8, 16));
}

TEST(Space, ABlockThatIsProposedIsOneOfItsOwn) {
  const forms::FormContext context = context_of("x86-64-v3");
  const LoneNode node = convolution(32, 256, 12);
  const FormQuestion question = node.question();
  EXPECT_THAT(values(space_of(question, context, {"direct", {{"block", 128}}}), "direct", "block"),
              Contains(128));
}

TEST(Space, OfWinogradsAlgorithmHasChunksOfTheTilesThatThereAre) {
  const LoneNode node = convolution(32, 32, 12);
  const FormQuestion question = node.question();
  const forms::FormContext context = context_of("x86-64-v3");
  const Space space = space_of(question, context, {"winograd2", {{"block", 16}}});
  // 6 x 6 tiles of 2 x 2 results.
  EXPECT_THAT(values(space, "winograd2", "chunk"),
              AllOf(Each(Le(36)), Contains(36), Contains(18), Contains(12), Contains(9)));
}

TEST(Space, OfTileUnitsHasTheBlocksThatDivideTheProduct) {
  const LoneNode node = product(128, 64, 96);
  const FormQuestion question = node.question();
  const forms::FormContext context = context_of("sapphirerapids", Precision::kFp32Split3);
  const Space space = space_of(question, context, {"tiles", {{"parts", 3}}});
  EXPECT_THAT(values(space, "tiles", "rows"), ElementsAre(32, 43, 64, 128));
  EXPECT_THAT(values(space, "tiles", "columns"), ElementsAre(32, 96));
}

TEST(Space, OfGroupsHasNumbersThatDivideThem) {
  const LoneNode node = convolution(48, 48, 9, 6);
  const FormQuestion question = node.question();
  const forms::FormContext context = context_of("x86-64-v3");
  const Space space = space_of(question, context, {"direct", {{"block", 8}}});
  EXPECT_THAT(values(space, "direct", "merged_groups"), ElementsAre(1, 2, 3, 6));
}

TEST(Space, HasAllFormsThatWriteImagesInThatOrder) {
  const LoneNode node = convolution(32, 32, 28);
  const FormQuestion question = node.question(true);
  const forms::FormContext context = context_of("x86-64-v3");
  const Space space = space_of(question, context, {"winograd4", {{"block", 16}}});
  EXPECT_EQ(space.misfit({"direct", {{"block", 16}}}), std::nullopt)
      << "images are converted in front of both";
  EXPECT_NE(space.misfit({"direct", {{"block", 16}, {"plain_data", 1}}}), std::nullopt);
  EXPECT_NE(space.misfit({"direct", {{"block", 16}, {"rows", 13}}}), std::nullopt);
  EXPECT_THAT(values(space, "direct", "plain_data"), ElementsAre(0));
}

TEST(Layouts, OfAFirstConvolutionAreTheImageAsItIsAndConverted) {
  const LoneNode node = convolution(3, 32, 28);
  const FormQuestion question = node.question(true);
  const forms::FormContext context = context_of("x86-64-v3");
  const Decision plain{"direct", {{"block", 16}, {"plain_data", 1}}};
  const std::vector<OtherLayout> layouts = layouts_of(question, context, plain);
  ASSERT_THAT(layouts, SizeIs(1));
  EXPECT_EQ(layouts[0].orders, "images channels-last");
  EXPECT_EQ(layouts[0].decision.knob("plain_data"), 0);
  EXPECT_THAT(layouts[0].space.proposed, Contains(layouts[0].decision));
  EXPECT_NE(layouts[0].space.misfit(plain), std::nullopt);
}

TEST(Layouts, OfADepthwiseConvolutionAreThoseOfItsForms) {
  const LoneNode node = convolution(32, 32, 28, 32);
  const FormQuestion question = node.question(true);
  const forms::FormContext context = context_of("x86-64-v3");
  const std::vector<OtherLayout> layouts = layouts_of(question, context, {"depthwise", {}});
  ASSERT_THAT(layouts, SizeIs(1));
  EXPECT_EQ(layouts[0].orders, "images as the model has them");
  EXPECT_EQ(layouts[0].decision, (Decision{"plain", {}}));
}

TEST(Layouts, OfProductsAreNone) {
  const LoneNode node = product(4, 64, 96);
  const FormQuestion question = node.question();
  EXPECT_THAT(layouts_of(question, context_of("x86-64-v3"), {"packed", {{"block", 16}}}), IsEmpty());
}

}  // namespace
}  // namespace gantry::tune
