/// The attribute that says which instructions compute a product on tiles.
#pragma once

#include <vector>

#include "host/graph/attrs.h"
#include "host/machine/tile_unit.h"

namespace gantry {

inline void visit_tile_unit(AttrVisitor& visit, TileUnit& unit) {
  std::vector<std::string_view> names;
  for (const TileGeometry& known : tile_units()) names.push_back(known.name);
  visit.enumeration("tile_unit", unit, std::span<const std::string_view>(names));
}

}  // namespace gantry
