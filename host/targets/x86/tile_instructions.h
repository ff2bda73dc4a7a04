/// The instructions of x86-64 that multiply tiles: who has them, and what they cost.
#pragma once

#include "host/machine/cpu_family.h"

namespace gantry::x86 {

extern const TileInstruction kAmx, kVdpbf16ps, kVpdpbusd;

/// All of them, the best first.
std::span<const TileInstruction* const> tile_instructions();

}  // namespace gantry::x86
