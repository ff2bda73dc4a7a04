// Builtins called on constants.
#pragma once

#include <vector>

#include "host/graph/graph.h"

namespace gantry::testing {

/// The results of a node that calls one, whose types are concrete. Throws an Error with the builtin's
/// message.
std::vector<ConstantPtr> interpret_builtin(const Node& node, const std::vector<ConstantPtr>& inputs);

}  // namespace gantry::testing
