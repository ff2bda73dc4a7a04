// What conversions between the orders of images cost.
#include "host/costs/conversion_cost.h"

#include <gtest/gtest.h>

#include <utility>

#include "host/codegen/find_target.h"
#include "host/graph/dim.h"

namespace gantry::costs {
namespace {

TensorType image(Shape shape) {
  return {DType::kF32, std::move(shape)};
}

TEST(ConversionCost, IsWhatIsReadAndWrittenAtTheSpeedOfWhereItFits) {
  const Target target = find_target("x86-64-v3");
  const MachineModel& machine = target.machine;
  const double small = 64 * 14 * 14 * 4, large = 64.0 * 512 * 512 * 4;
  EXPECT_DOUBLE_EQ(conversion_cost(image({1, 64, 14, 14}), target), 2 * small / machine.l2_bytes_per_cycle);
  EXPECT_DOUBLE_EQ(conversion_cost(image({1, 64, 512, 512}), target), 2 * large / machine.memory_bytes_per_cycle);
}

TEST(ConversionCost, IsNothingWhereElementsLieAlikeInBothOrders) {
  for (const char* name : {"x86-64-v3", "cortex-a76", "cuda:sm_80/x86-64-v3"}) {
    const Target target = find_target(name);
    EXPECT_EQ(conversion_cost(image({1, 1024, 1, 1}), target), 0) << name;
    EXPECT_EQ(conversion_cost(image({Dim::symbol("N"), 1024, 1}), target), 0) << name;
    EXPECT_EQ(conversion_cost(image({8, 1, 28, 28}), target), 0) << name;
    EXPECT_GT(conversion_cost(image({1, 1024, 2, 1}), target), 0) << name;
    EXPECT_GT(conversion_cost(image({1, Dim::symbol("C"), Dim::symbol("H"), 1}), target), 0) << name;
    EXPECT_GT(transposition_cost(image({1, 1, 28, 28}), target), 0) << name << ": axes may be any there";
  }
}

TEST(ConversionCost, OfFewChannelsIsMoreThanTheirBytesTake) {
  const Target target = find_target("x86-64-v4");
  const double few = conversion_cost(image({1, 3, 28, 28}), target), same = conversion_cost(image({1, 28, 28, 3}), target);
  EXPECT_GT(few, 2 * same);
  EXPECT_EQ(conversion_cost(image({1, 8, 28, 12}), target), conversion_cost(image({1, 28, 8, 12}), target));
  const double bytes = 3.0 * 2240 * 2240 * 4;
  EXPECT_DOUBLE_EQ(conversion_cost(image({1, 3, 2240, 2240}), target), 2 * bytes / target.machine.memory_bytes_per_cycle)
      << "where memory takes longer";
  const Target gpu = find_target("cuda:sm_80/x86-64-v3");
  EXPECT_EQ(conversion_cost(image({1, 3, 28, 28}), gpu), conversion_cost(image({1, 28, 28, 3}), gpu));
}

TEST(ConversionCost, GrowsWithElementsAndTheirBytes) {
  for (const char* name : {"x86-64-v3", "cuda:sm_80/x86-64-v3"}) {
    const Target target = find_target(name);
    const TensorType floats = image({1, 64, 224, 224});
    TensorType halves = floats;
    halves.dtype = DType::kF16;
    EXPECT_GT(conversion_cost(floats, target), 1.5 * conversion_cost(halves, target)) << name;
    EXPECT_GT(conversion_cost(image({4, 64, 224, 224}), target), 3 * conversion_cost(floats, target)) << name;
  }
}

}  // namespace
}  // namespace gantry::costs
