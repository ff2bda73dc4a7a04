// Which of LLVM's back ends this gantry is linked with; GANTRY_LLVM_BACKENDS chooses them when it is built.
#pragma once

#include "host/machine/target.h"

namespace gantry {

/// True if there is code generation for the target, and for the CPU beside a GPU.
bool can_generate(const Target& target);
/// Unless there is, a user error that says which code this gantry generates.
void expect_code_generation(const Target& target);
/// Tells LLVM of its back ends, at the first call.
void initialise_backends();

}  // namespace gantry
