/// The instructions of x86-64 that multiply tiles, each in a file of its name.
#pragma once

#include "host/codegen/cpu_family.h"
#include "host/targets/x86/tile_units.h"

namespace gantry::x86 {

extern const TileInstruction kAmx, kVdpbf16ps, kVpdpbusd;

}  // namespace gantry::x86
