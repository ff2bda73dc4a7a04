#include "host/tensor/tile_unit.h"

#include <array>

#include "host/targets/arm/tile_units.h"
#include "host/targets/x86/tile_units.h"

namespace gantry {
namespace {

// In the order of their numbers, which attributes in texts do not show.
constexpr std::array kUnits{x86::kAmxGeometry, arm::kBfmmlaGeometry, x86::kVdpbf16psGeometry};

constexpr bool stand_at_their_numbers() {
  for (size_t i = 0; i < kUnits.size(); ++i) {
    if (static_cast<size_t>(kUnits[i].unit) != i) return false;
  }
  return true;
}
static_assert(stand_at_their_numbers());

}  // namespace

std::span<const TileGeometry> tile_units() {
  return kUnits;
}

const TileGeometry& geometry_of(TileUnit unit) {
  return kUnits.at(static_cast<size_t>(unit));
}

}  // namespace gantry
