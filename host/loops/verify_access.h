// Accesses that are shown to be outside of their buffers. Private to host/loops.
#pragma once

#include <optional>
#include <string>

#include "host/loops/loop_path.h"

namespace gantry {

/// A place where an access is made that is outside of the buffer, as text ("x[20], of 16 elements, at i = 5"); nothing
/// where none is found. `predicate` may be null.
std::optional<std::string> find_outside(const LoopPath& path, const BufferNode& buffer, const Expr& index,
                                        const Expr& predicate);

}  // namespace gantry
