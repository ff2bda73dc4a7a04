#include "host/costs/tile_costs.h"

#include <vector>

#include "host/costs/tile_blocks.h"
#include "host/ops/tiles.h"
#include "host/support/divide.h"
#include "host/support/error.h"

namespace gantry::costs {
namespace {

/// In the order of the units' numbers.
std::vector<const TileCostModel*> models_of_units() {
  std::vector<const TileCostModel*> models(tile_units().size());
  for (const CpuFamily* family : cpu_families()) {
    for (const TileInstruction* instruction : family->tile_instructions)
      models[static_cast<size_t>(tile_unit_named(instruction->geometry->name))] = &instruction->costs;
  }
  return models;
}

}  // namespace

const TileCostModel& cost_model_of(TileUnit unit) {
  static const std::vector<const TileCostModel*> kModels = models_of_units();
  const TileCostModel* model = kModels.at(static_cast<size_t>(unit));
  internal_check(model != nullptr, "no figures of the tile unit {}", name_of(unit));
  return *model;
}

double TileProduct::tiles() const {
  return full_tiles(rows, unit) * double(ceil_div(columns, geometry_of(unit).columns));
}

double TileProduct::dots() const {
  const TileGeometry& tile = geometry_of(unit);
  return tiles() * double(depth_blocks * (tile.block_depth / tile.depth)) *
         double(tile_products(parts).size());
}

}  // namespace gantry::costs
