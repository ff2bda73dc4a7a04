#include "host/targets/cpu/tile_costs.h"

#include <algorithm>
#include <array>

#include "host/ops/tiles.h"
#include "host/support/divide.h"
#include "host/support/error.h"
#include "host/targets/arm/tile_model.h"
#include "host/targets/cpu/tile_blocks.h"
#include "host/targets/x86/tile_model.h"

namespace gantry::cpu {
namespace {

const TileModel& model_of(TileUnit unit) {
  static const std::array kModels{&x86::kAmxModel, &x86::kVdpbf16psModel, &arm::kBfmmlaModel};
  const auto found = std::ranges::find(kModels, unit, &TileModel::unit);
  internal_check(found != kModels.end(), "no figures of the tile unit {}", name_of(unit));
  return **found;
}

}  // namespace

TileCosts tile_costs(TileUnit unit, const MachineModel& machine) {
  return model_of(unit).costs(machine);
}

double other_slack(TileUnit unit) {
  return model_of(unit).other_slack;
}

bool weights_in_first_level(TileUnit unit) {
  return model_of(unit).weights_in_first_level;
}

double TileProduct::tiles() const {
  return full_tiles(rows, unit) * double(ceil_div(columns, geometry_of(unit).columns));
}

double TileProduct::dots() const {
  const TileGeometry& tile = geometry_of(unit);
  return tiles() * double(depth_blocks * (tile.block_depth / tile.depth)) *
         double(tile_products(parts).size());
}

}  // namespace gantry::cpu
