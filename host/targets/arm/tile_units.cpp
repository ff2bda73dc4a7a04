#include "host/targets/arm/tile_units.h"

#include <array>

namespace gantry::arm {

std::span<const TileGeometry> tile_units() {
  static constexpr std::array kUnits{kBfmmlaGeometry};
  return kUnits;
}

}  // namespace gantry::arm
