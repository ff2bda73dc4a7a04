// Places for values of known sizes in one memory.
#pragma once

#include <cstdint>
#include <vector>

#include "host/support/lifetimes.h"

namespace gantry {

struct MemoryPlacement {
  std::vector<int64_t> offsets;  ///< parallel to the lifetimes
  int64_t bytes = 0;             ///< the largest end of a value
};

/// Offsets such that no two values that live at one step overlap. Sizes are multiples of the alignment, and
/// so are the offsets then. The same for the same lifetimes, everywhere.
///
/// Values are placed one after another, each into the smallest gap that holds it. Which order is good depends
/// on the network: several are tried, by size, time, lifetime and more, until one takes no more than lives at
/// once, which is the least possible. Where none does, what lies highest is placed earlier, again and again,
/// within a bound of work that does not depend on the machine.
MemoryPlacement place_lifetimes(const std::vector<Lifetime<int64_t>>& lifetimes);

}  // namespace gantry
