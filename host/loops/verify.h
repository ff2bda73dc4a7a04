// The verifier of loop programs: what every step of lowering must leave true.
//
// Scope. A variable is bound once on the way to where it is used, and nothing else of its name is in scope
// there; symbols are among the kernel's. A buffer is used where it lives: arguments and scratch everywhere,
// others inside their Allocate. A name stands for one buffer at a time, and all buffers of a name are alike
// (copies of a body have copies of its locals).
//
// Types. Operands, values and conditions agree in dtype and lanes, as host/tensor/expr.h says; indices are
// kI64; nothing of tensor expressions (reads, reductions) is left; inputs are not stored to, and outputs are.
//
// Accesses lie within their buffers. Refused is what is shown to be wrong: values of the loops' variables
// under which every loop, let, condition and predicate on the way is known and lets the access through, and
// its index is outside. What depends on loaded values is not judged; sizes that are symbols are tried.
//
// Loops. Vectorized and unrolled ones have constant extents, of at most kMaxLanes lanes
// (host/loops/loop_limits.h). Block and thread loops are where a GPU's may be: a thread of a block is chosen
// once, and extents are constants of at most 1024 threads. Barriers, shuffles and matrix instructions are
// inside launches, where no condition, bound or loop around them depends on the thread. What a device does
// not have (prefetches on a GPU, shared memory on a CPU) is not used on it.
#pragma once

#include <string_view>

#include "host/loops/stmt.h"

namespace gantry {

/// An internal error names the kernel, the step, what is wrong and the statement.
void verify(const LoopKernel& kernel, std::string_view step);

/// Whether lowering runs the verifier after every step where its caller does not ask for it: in debug builds, and in
/// tests once they have said so.
bool verifies_always();
/// Before threads that lower something are started.
void verify_always(bool on);

}  // namespace gantry
