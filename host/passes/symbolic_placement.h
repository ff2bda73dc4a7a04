// Places for values of symbolic sizes in one memory.
#pragma once

#include <vector>

#include "host/graph/dim.h"
#include "host/support/lifetimes.h"

namespace gantry {

struct SymbolicPlacement {
  std::vector<Dim> offsets;  ///< parallel to the lifetimes
  Dim bytes;                 ///< the largest end of a value
};

/// Offsets such that no two values that live at one step overlap, whatever the symbols (>= 0) come to. They and
/// `bytes` are multiples of kMemoryAlignment. The same for the same lifetimes, everywhere.
///
/// Several plans are made, and held against the least that any plan needs where all symbols are one of a few sizes; the
/// one whose mean ratio is best is taken. One shares places: values that do not live together lie at one offset, in
/// memory for the largest of them. The others take the order of values in a plan for known sizes (place_lifetimes()), and
/// put each value on the highest of those below that live with it: as good as that plan where sizes are in its
/// proportion, and right for all. Those whose expressions would be long are not looked at.
SymbolicPlacement place_symbolic(const std::vector<Lifetime<Dim>>& lifetimes);

}  // namespace gantry
