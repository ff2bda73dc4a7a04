/// The instructions of AArch64 that multiply tiles, each in a file of its name.
#pragma once

#include "host/codegen/cpu_family.h"
#include "host/targets/arm/tile_units.h"

namespace gantry::arm {

extern const TileInstruction kBfmmla;

}  // namespace gantry::arm
