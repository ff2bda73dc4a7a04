#include "host/costs/tile_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/codegen/find_target.h"

namespace gantry::costs {
namespace {

int registers(const ProductTile& tile) {
  return tile.rows * tile.vectors + tile.vectors;
}

std::vector<Target> cpu_targets() {
  std::vector<Target> targets;
  for (Target& target : known_targets()) {
    if (target.family != nullptr) targets.push_back(target);
  }
  return targets;
}

TEST(TileModel, EveryTileFitsTheRegisterFileOfItsTarget) {
  for (const Target& target : cpu_targets()) {
    for (const ProductTile& tile : product_tile_space({64, 56, 56, 576}, target.machine)) {
      EXPECT_LE(registers(tile), target.machine.vector_registers) << target.name;
      EXPECT_LE(tile.lanes * 4, target.machine.vector_bytes) << target.name;
    }
  }
}

TEST(TileModel, HidesTheLatencyOfMultiplyAddsOnALargeProduct) {
  for (const Target& target : cpu_targets()) {
    ProductTile tile = choose_product_tile({512, 196, 1, 2048}, target.machine);
    // With fewer accumulators than this, the units wait for their own results.
    EXPECT_GE(tile.rows * tile.vectors, target.machine.fma_latency * target.machine.fma_per_cycle)
        << target.name;
  }
}

TEST(TileModel, PredictsNoFewerCyclesThanTheMultiplyAddsNeed) {
  MachineModel machine;
  ProductWork work{96, 30, 4, 128};
  for (const ProductTile& tile : product_tile_space(work, machine)) {
    double multiply_adds = 96.0 * 30 * 4 * 128 / tile.lanes;
    EXPECT_GE(predicted_cycles(work, tile, machine), multiply_adds / machine.fma_per_cycle);
  }
}

TEST(TileModel, ChargesForWhatIsComputedInVainAtTheEdge) {
  MachineModel machine;
  ProductWork fits{64, 12, 1, 256}, misfits{64, 13, 1, 256};
  ProductTile tile{4, 2, 6};
  EXPECT_GT(predicted_cycles(misfits, tile, machine), 1.3 * predicted_cycles(fits, tile, machine));
}

TEST(TileModel, KeepsToTheBlockOfWeightsThatArePackedAlready) {
  MachineModel machine;
  machine.vector_bytes = 64;
  machine.vector_registers = 32;
  EXPECT_EQ(choose_product_tile({1000, 49, 1, 512}, machine, 48).channel_block(), 48);
  // No tile of this machine has such a block: one row of whatever vectors divide it.
  EXPECT_EQ(choose_product_tile({1000, 49, 1, 512}, machine, 7).channel_block(), 7);
}

TEST(TileModel, ShortAxesGetShortVectors) {
  MachineModel machine;
  machine.vector_bytes = 64;
  EXPECT_EQ(choose_lanes(1000, 4, machine), 16);
  EXPECT_EQ(choose_lanes(7, 4, machine), 4);
  EXPECT_EQ(choose_lanes(1, 4, machine), 1);
  EXPECT_EQ(choose_lanes(1000, 8, machine), 8);
}

}  // namespace
}  // namespace gantry::costs
