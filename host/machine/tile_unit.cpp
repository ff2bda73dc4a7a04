// The tile units of all targets, in one list.
#include "host/machine/tile_unit.h"

#include <algorithm>
#include <vector>

#include "host/machine/cpu_family.h"
#include "host/support/error.h"

namespace gantry {
namespace {

std::vector<TileGeometry> numbered_units() {
  std::vector<TileGeometry> units;
  for (const CpuFamily* family : cpu_families()) {
    for (const TileInstruction* instruction : family->tile_instructions) {
      units.push_back(*instruction->geometry);
      units.back().unit = static_cast<TileUnit>(units.size() - 1);
    }
  }
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
