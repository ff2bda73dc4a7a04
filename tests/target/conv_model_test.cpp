// The choice of algorithms and plans for convolutions on CPUs.
#include <gtest/gtest.h>

#include "host/target/cpu/conv_model.h"
#include "host/target/cpu/winograd_model.h"

namespace gantry {
namespace {

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

/// With padding of half a window.
ConvAttrs square_window(int64_t outputs, int64_t kernel = 3, int64_t stride = 1, int64_t groups = 1) {
  ConvAttrs attrs;
  attrs.channels = outputs;
  attrs.groups = groups;
  attrs.kernel = {kernel, kernel};
  attrs.strides = {stride, stride};
  attrs.dilations = {1, 1};
  attrs.padding = {kernel / 2, kernel / 2, kernel / 2, kernel / 2};
  return attrs;
}

ConvAlgorithm chosen(int64_t channels, int64_t size, int64_t outputs, int64_t kernel = 3,
                     int64_t stride = 1) {
  const int64_t result = (size - 1) / stride + 1;
  return cpu::choose_conv_algorithm(
      square_window(outputs, kernel, stride), {DType::kF32, {1, channels, size, size}},
      {DType::kF32, {1, outputs, result, result}}, find_target("x86-64-v4").machine);
}

TEST(ConvModel, ChoosesWinogradForLargeImagesOfManyChannels) {
  EXPECT_GE(winograd_tile(chosen(64, 224, 64)), 4);
  EXPECT_GE(winograd_tile(chosen(64, 56, 64)), 4);
  EXPECT_GE(winograd_tile(chosen(128, 28, 128)), 4);
}

TEST(ConvModel, SumsTheSlicesOfVolumesInWinogradsAlgorithm) {
  ConvAttrs attrs = square_window(64);
  for (auto* spatial : {&attrs.kernel, &attrs.strides, &attrs.dilations})
    spatial->insert(spatial->begin(), spatial == &attrs.kernel ? 3 : 1);
  attrs.padding = {1, 1, 1, 1, 1, 1};
  auto algorithm = [&](int64_t channels) {
    return cpu::choose_conv_algorithm(attrs, {DType::kF32, {1, channels, 8, 56, 56}},
                                      {DType::kF32, {1, 64, 8, 56, 56}}, find_target("x86-64-v4").machine);
  };
  EXPECT_GE(winograd_tile(algorithm(64)), 2);
  EXPECT_EQ(algorithm(24), ConvAlgorithm::kDirect) << "a vector of inputs would be of two slices";
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
  const ConvAttrs attrs = square_window(128, 3, 1, 32);
  const TensorType image{DType::kF32, {1, 128, 56, 56}};
  const int64_t merged = cpu::choose_merged_groups(attrs, image, image, find_target("x86-64-v4").machine);
  EXPECT_GT(merged, 1);
  EXPECT_EQ(attrs.groups % merged, 0);
}

// Of a model whose images may have any size, deeper layers are planned for smaller ones.
TEST(ConvModel, GuessesUnknownExtentsFromThoseOfTheModel) {
  auto algorithm = [](int64_t channels, int64_t parts) {
    auto extent = [&](const char* name) { return floordiv(Dim::symbol(name), Dim(parts)); };
    const TensorType image{DType::kF32, {1, channels, extent("height"), extent("width")}};
    return cpu::choose_conv_algorithm(square_window(channels), image, image,
                                      find_target("x86-64-v4").machine);
  };
  EXPECT_GE(winograd_tile(algorithm(64, 4)), 4);
  EXPECT_EQ(algorithm(512, 32), ConvAlgorithm::kDirect);
}

TEST(ConvModel, ChoosesWinogradForGroupsOfManyChannels) {
  ConvAttrs attrs = square_window(224, 3, 1, 4);
  const TensorType image{DType::kF32, {1, 224, 56, 56}};
  const MachineModel& machine = find_target("x86-64-v4").machine;
  attrs.algorithm = cpu::choose_conv_algorithm(attrs, image, image, machine);
  EXPECT_GE(winograd_tile(attrs.algorithm), 4);
  EXPECT_EQ(56 % cpu::winograd_block(attrs, image, image, machine), 0) << "blocks are whole in a group";
}

TEST(ConvModel, KeepsToDirectConvolutionsForWindowsThatWinogradDoesNotFit) {
  EXPECT_EQ(chosen(64, 56, 64, 1), ConvAlgorithm::kDirect);
  EXPECT_EQ(chosen(64, 56, 128, 3, 2), ConvAlgorithm::kDirect);
  EXPECT_EQ(chosen(3, 224, 64), ConvAlgorithm::kDirect);
}

}  // namespace
}  // namespace gantry
