/// The attribute that says which instructions compute a product on tiles.
#pragma once

#include "host/graph/attrs.h"
#include "host/tensor/tile_unit.h"

namespace gantry {

inline void visit_tile_unit(AttrVisitor& visit, TileUnit& unit) {
  visit.enumeration("tile_unit", unit,
                    {name_of(TileUnit::kAmx), name_of(TileUnit::kBfmmla), name_of(TileUnit::kVdpbf16ps)});
}

}  // namespace gantry
