// Whether a target can compute by the decisions that a graph holds already.
#pragma once

#include "host/graph/graph.h"
#include "host/machine/target.h"

namespace gantry {

/// User error for a graph with a node that is to be computed by a tile unit which the target has not, or has
/// but computes such products by a better one: text of a graph that alter_layout has been through for another
/// target, or before the target got the better one; for a decision on a node of an op that has no forms; for
/// one that is not what was made of the node; for a form or a knob that there is not; and for a decision that
/// nothing is made of the node by: in a group of fuse_ops, and where `deciding` is false, anywhere.
/// `deciding`: alter_layout is among the passes that are to run.
void expect_forms_of(const Graph& graph, const Target& target, bool deciding);

}  // namespace gantry
