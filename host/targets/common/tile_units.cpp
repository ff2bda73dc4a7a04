// The tile units of all targets, in one list.
#include "host/machine/tile_unit.h"

#include <algorithm>
#include <vector>

#include "host/support/error.h"

namespace gantry {

// Each folder's file tile_units.cpp.
#define GANTRY_CPU_FAMILY(folder)             \
  namespace folder {                          \
  std::span<const TileGeometry> tile_units(); \
  }
#define GANTRY_GPU_FAMILY(folder)
#include "host/targets/common/targets.def"
#undef GANTRY_CPU_FAMILY

namespace {

std::vector<TileGeometry> numbered_units() {
  std::vector<TileGeometry> units;
#define GANTRY_CPU_FAMILY(folder) \
  for (const TileGeometry& unit : folder::tile_units()) units.push_back(unit);
#include "host/targets/common/targets.def"
#undef GANTRY_CPU_FAMILY
#undef GANTRY_GPU_FAMILY
  for (size_t i = 0; i < units.size(); ++i) units[i].unit = static_cast<TileUnit>(i);
  return units;
}

}  // namespace

std::span<const TileGeometry> tile_units() {
  static const std::vector<TileGeometry> kUnits = numbered_units();
  return kUnits;
}

const TileGeometry& geometry_of(TileUnit unit) {
  return tile_units()[static_cast<size_t>(unit)];
}

TileUnit tile_unit_named(std::string_view name) {
  const auto units = tile_units();
  const auto found = std::ranges::find(units, name, &TileGeometry::name);
  internal_check(found != units.end(), "there is no tile unit {}", name);
  return found->unit;
}

}  // namespace gantry
