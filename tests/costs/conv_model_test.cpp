// Models and plans of convolutions on CPUs.
#include <gtest/gtest.h>

#include "host/codegen/find_target.h"
#include "host/costs/conv_model.h"
#include "host/costs/winograd_model.h"
#include "tests/support/square_window.h"

namespace gantry::costs {
namespace {

using testing::square_window;

TEST(ConvModel, ReadsImagesOfFewChannelsAsTheyLie) {
  ConvAttrs attrs;
  attrs.kernel = {7, 7};
  const MachineModel& wide = find_target("x86-64-v4").machine;
  EXPECT_TRUE(prefers_plain_data(attrs, {DType::kF32, {1, 3, 224, 224}}, wide));
  EXPECT_FALSE(prefers_plain_data(attrs, {DType::kF32, {1, 64, 56, 56}}, wide));
  EXPECT_FALSE(prefers_plain_data(attrs, {DType::kF32, {1, 3, 224, 224}}, find_target("cortex-a76").machine))
      << "products take lanes of neighbouring channels";
}

TEST(WinogradModel, DividesAnOddNumberOfTilesForTwoThreads) {
  const WinogradWork work{.tile = 4, .height = 28, .width = 28, .inputs = 128, .outputs = 32};
  const WinogradPlan plan = plan_winograd(work, find_target("x86-64-v4").machine);
  EXPECT_EQ(plan.chunk, 25);  // of 49
  EXPECT_FALSE(plan.input_at_root);
}

TEST(WinogradModel, KeepsAnImageTogetherWhereWeightsComeFromMemory) {
  const WinogradWork work{.tile = 2, .height = 14, .width = 14, .inputs = 512, .outputs = 512};
  const WinogradPlan plan = plan_winograd(work, find_target("x86-64-v4").machine);
  EXPECT_EQ(plan.chunk, 49);
  EXPECT_TRUE(plan.input_at_root);
}

TEST(ConvModel, ComputesNarrowGroupsSeveralAtOnce) {
  const ConvAttrs attrs = square_window(128, 3, 1, 32);
  const TensorType image{DType::kF32, {1, 128, 56, 56}};
  const int64_t merged = choose_merged_groups(attrs, image, image, find_target("x86-64-v4").machine);
  EXPECT_GT(merged, 1);
  EXPECT_EQ(attrs.groups % merged, 0);
}

}  // namespace
}  // namespace gantry::costs
