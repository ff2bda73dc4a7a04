#include "host/targets/x86/tile_units.h"

#include <array>

namespace gantry::x86 {

std::span<const TileGeometry> tile_units() {
  static constexpr std::array kUnits{kAmxGeometry, kVdpbf16psGeometry, kVpdpbusdGeometry};
  return kUnits;
}

}  // namespace gantry::x86
