/// The instructions of AArch64 that multiply tiles: who has them, and what they cost.
#pragma once

#include "host/machine/cpu_family.h"

namespace gantry::arm {

extern const TileInstruction kBfmmla;

/// All of them, the best first.
std::span<const TileInstruction* const> tile_instructions();

}  // namespace gantry::arm
