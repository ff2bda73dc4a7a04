// A node of a network by itself, to try decisions on without the others.
#pragma once

#include "host/graph/graph.h"

namespace gantry::tune {

/// A graph of the node and of what counts as its work behind it (work_nodes); what they read of others are
/// parameters, or the constants that they are. The node is the first one, and has the decision.
Graph lone_node(const Function& function, const Node& node, const Decision& decision);

}  // namespace gantry::tune
