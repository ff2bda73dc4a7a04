/// Graphs evaluated node by node on their tensor expressions, without passes or lowering.
#pragma once

#include <vector>

#include "host/graph/graph.h"

namespace gantry::testing {

/// Results of one node; loop nests written by hand are executed as loop IR. Dimensions of the node's types
/// and attributes must be constant, the inputs (null where an optional one is absent) of these types.
std::vector<ConstantPtr> interpret_node(const Node& node, const std::vector<ConstantPtr>& inputs);

/// Outputs of a function for inputs parallel to its parameters; bodies of fused nodes are functions again.
std::vector<ConstantPtr> interpret_function(const Function& function, const std::vector<ConstantPtr>& inputs);

}  // namespace gantry::testing
