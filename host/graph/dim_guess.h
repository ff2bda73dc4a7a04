// Symbolic dimensions at guessed values, for plans that are right whatever they come to.
#pragma once

#include "host/graph/dim.h"

namespace gantry {

/// The value where every symbol is `symbol`; `otherwise` where that overflows.
int64_t guessed(const Dim& dim, int64_t symbol, int64_t otherwise);

}  // namespace gantry
