// Whether a target can compute a graph that somebody has written: by the decisions that it holds, with the sizes that are
// known.
#pragma once

#include "host/graph/graph.h"
#include "host/machine/target.h"

namespace gantry {

/// User error for a graph with a node that is to be computed on tile registers which the target has not: text
/// of a graph that alter_layout has been through for another target; for a decision on a node of an op that has no
/// forms; and for one that is not what was made of the node.
void expect_forms_of(const Graph& graph, const Target& target);

/// User error for a graph with a node whose symbols no input has as dimensions, and no node gives values: a module of it
/// could not be run.
void expect_sizes_of_inputs(const Graph& graph);

}  // namespace gantry
