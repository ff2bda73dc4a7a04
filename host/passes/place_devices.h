// What place_devices knows of nodes; the pass itself is declared in passes.h.
#pragma once

#include "host/graph/graph.h"

namespace gantry {

/// True if a kernel on a GPU can take what the node reads and writes, 480 values and symbols of their shapes together,
/// and every tensor expression of the node (of a fused node: of its body's nodes) can be scheduled for one: all but
/// operations whose loop nest is written by hand for CPUs only.
bool runs_on_gpu(const Node& node);

/// What place_devices has said is as though it had not: for text of such a graph that a CPU is to run alone.
void forget_devices(Graph& graph);

}  // namespace gantry
