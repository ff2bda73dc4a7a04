// Executes loop IR one element at a time: slow, but it checks everything. For tests and for finding the pass
// that broke a kernel.
#pragma once

#include <map>
#include <span>
#include <string>

#include "host/loops/stmt.h"

namespace gantry {

/// What becomes of elements of results that a kernel does not store to.
enum class Unstored {
  kError,
  kKept,  ///< they stay as they are: how many count is another result
};

/// Runs the kernel on dense buffers given in the order of its arguments; scratch and local buffers are its
/// own. Kernels for a GPU run as emulate_launches() makes them; races between threads are errors
/// too. Vectors, predicates and parallel loops mean what host/loops/stmt.h says. Internal errors name the
/// kernel and the statement: an access out of bounds, an element read before it was stored to, a division by
/// zero, a symbol without a value.
void evaluate(const LoopKernel& kernel, const std::vector<std::span<std::byte>>& arguments,
              const std::map<std::string, int64_t>& symbols = {}, Unstored unstored = Unstored::kError);

}  // namespace gantry
