/// AMX's tile registers on a machine without them: their instructions trap, and a signal handler executes
/// them. Slow, but the code is what a CPU with AMX runs. Denormal numbers are kept, which AMX takes for zero.
#pragma once

#include <string>

namespace gantry::testing {

/// A target with tile registers whose modules run in this process: the CPU that has them, on the CPU itself
/// or emulated. Where neither works, as the CPU lacks AVX512-BF16 too, "".
/// The first call decides, and must come before a module is loaded: where they are emulated it installs a
/// handler of SIGILL for the rest of the process, and the runtime counts the features as present.
std::string target_with_tile_registers();

}  // namespace gantry::testing
