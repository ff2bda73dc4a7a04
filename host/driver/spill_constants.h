// Weights that wait on the disk while code is generated.
#pragma once

#include "host/graph/graph.h"
#include "host/support/spill_file.h"

namespace gantry {

/// Moves the large constants that nobody else holds into the file, if they are large together: passes are
/// done with them, and what is left to do needs memory of its own. What does not fit onto the disk stays in
/// memory.
void spill_constants(Graph& graph, SpillFile& file);

}  // namespace gantry
