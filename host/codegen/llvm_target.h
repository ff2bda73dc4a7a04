// LLVM's machinery for a Target.
#pragma once

#include <llvm/IR/Function.h>
#include <llvm/Target/TargetMachine.h>

#include <memory>

#include "host/machine/target.h"

namespace gantry {

/// Position-independent code, small code model. Not for sharing between threads. Initialises LLVM at first
/// use. A user error where this gantry has no code generation for the target (backends.h).
std::unique_ptr<llvm::TargetMachine> make_target_machine(const Target& target);
/// Attributes of every function: the CPU's features and tuning, the vector width, freestanding code.
void set_function_attributes(llvm::Function& function, const Target& target);

}  // namespace gantry
