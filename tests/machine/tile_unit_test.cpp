#include "host/machine/tile_unit.h"

#include <gtest/gtest.h>

#include "host/machine/cpu_family.h"
#include "host/machine/cpu_features.h"

namespace gantry {
namespace {

TEST(TileUnits, AreNumberedByTheirPlaces) {
  ASSERT_FALSE(tile_units().empty());
  for (size_t i = 0; i < tile_units().size(); ++i) {
    const TileGeometry& unit = tile_units()[i];
    EXPECT_EQ(unit.unit, static_cast<TileUnit>(i));
    EXPECT_EQ(tile_unit_named(unit.name), unit.unit);
  }
}

TEST(TileUnits, AreThoseOfTheFamiliesInstructions) {
  size_t count = 0;
  for (const CpuFamily* family : cpu_families()) {
    for (const TileInstruction* instruction : family->tile_instructions) {
      ++count;
      const TileGeometry& unit = geometry_of(tile_unit_named(instruction->geometry->name));
      EXPECT_EQ(unit.rows, instruction->geometry->rows) << unit.name;
      EXPECT_EQ(unit.columns, instruction->geometry->columns) << unit.name;
      EXPECT_FALSE(instruction->is_there({})) << unit.name;
      EXPECT_GT(instruction->costs.cycles({}).dot, 0) << unit.name;
    }
  }
  EXPECT_EQ(count, tile_units().size());
}

TEST(TileUnits, ATargetHasTheBestThatItsFeaturesAllow) {
  Target target;
  target.family = find_family("x86_64");
  EXPECT_EQ(tile_unit(target), std::nullopt);
  target.features = {"avx512bf16"};
  EXPECT_EQ(tile_unit(target), tile_unit_named("vdpbf16ps"));
  target.features = {"avx512bf16", "amx-bf16"};
  EXPECT_EQ(tile_unit(target), tile_unit_named("amx"));
  EXPECT_EQ(tile_unit(target, DType::kI8), std::nullopt);
  target.family = nullptr;
  EXPECT_EQ(tile_unit(target), std::nullopt) << "code of a GPU's";
}

}  // namespace
}  // namespace gantry
