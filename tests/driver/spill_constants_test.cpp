// Which weights wait on the disk, and that they stay what they are.
#include "host/driver/spill_constants.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "host/graph/spilled_constant.h"
#include "host/passes/weight_packing.h"

namespace gantry {
namespace {

ConstantPtr filled(int64_t megabytes, int value) {
  std::byte* bytes = nullptr;
  auto constant = allocate_constant({DType::kU8, {megabytes << 20}}, &bytes);
  std::memset(bytes, value, constant->size);
  return constant;
}

bool is_all(const ConstantData& constant, int value) {
  return std::all_of(constant.bytes, constant.bytes + constant.size,
                     [&](std::byte byte) { return byte == std::byte(value); });
}

TEST(SpillConstants, MovesLargeOnesThatNobodyElseHolds) {
  Graph graph;
  const ConstantPtr held = filled(2, 3);
  Value* large = graph.main.add_constant("large", filled(40, 1));
  Value* other = graph.main.add_constant("other", filled(30, 2));
  Value* shared = graph.main.add_constant("shared", held);
  const int seven = 7;
  Value* small = graph.main.add_constant("small", make_constant({DType::kI32, {}}, &seven));
  SpillFile file(::testing::TempDir());
  spill_constants(graph, file);
  EXPECT_TRUE(is_spilled(large->constant->owner));
  EXPECT_TRUE(is_spilled(other->constant->owner));
  EXPECT_FALSE(is_spilled(shared->constant->owner));
  EXPECT_FALSE(is_spilled(small->constant->owner));
  EXPECT_EQ(large->constant->type, large->type);
  EXPECT_TRUE(is_all(*large->constant, 1));
  EXPECT_TRUE(is_all(*other->constant, 2));
}

TEST(SpillConstants, LeavesThoseOfSmallModelsInMemory) {
  Graph graph;
  Value* weight = graph.main.add_constant("weight", filled(30, 1));
  SpillFile file(::testing::TempDir());
  spill_constants(graph, file);
  EXPECT_FALSE(is_spilled(weight->constant->owner));
}

TEST(SpillConstants, StayInMemoryWhereTheDiskDoesNotTakeThem) {
  Graph graph;
  Value* weight = graph.main.add_constant("weight", filled(70, 1));
  SpillFile file(::testing::TempDir() + "/no/such/folder");
  spill_constants(graph, file);
  EXPECT_FALSE(is_spilled(weight->constant->owner));
  EXPECT_TRUE(is_all(*weight->constant, 1));
}

TEST(SpillConstants, PackedWeightsOfLargeNetworksAreMadeThere) {
  SpillFile file(::testing::TempDir());
  Function small, large;
  small.add_constant("w", filled(63, 1));
  for (int i = 0; i < 2; ++i) large.add_constant("w", filled(32, i));
  EXPECT_EQ(spill_if_large(small, &file), nullptr);
  EXPECT_EQ(spill_if_large(large, &file), &file);
  Function packed;
  const Value* on_disk = WeightPacker(packed, {}, {}, &file).constant("w", filled(1, 3));
  EXPECT_TRUE(is_spilled(on_disk->constant->owner));
  EXPECT_TRUE(is_all(*on_disk->constant, 3));
  const Value* in_memory = WeightPacker(packed, {}).constant("w", filled(1, 4));
  EXPECT_FALSE(is_spilled(in_memory->constant->owner));
}

}  // namespace
}  // namespace gantry
