// The least memory that any plan of given lifetimes needs.
#pragma once

#include <vector>

#include "host/graph/dim.h"
#include "host/support/lifetimes.h"

namespace gantry {

/// The maximum of sizes (>= 0) as an expression of those that may be it, for all that can be proven; 0 of none.
Dim largest_of(const std::vector<Dim>& dims);
/// The largest sum of bytes that live at once, an expression where sizes are symbolic: the maximum of the
/// sums that may be it, for all that can be proven.
Dim memory_bound(const std::vector<Lifetime<Dim>>& lifetimes);

/// A cache line, and the widest vector: at its multiples values begin.
inline constexpr int64_t kMemoryAlignment = 64;
/// What a value of so many bytes takes of a planned memory.
Dim aligned_bytes(const Dim& bytes);

}  // namespace gantry
