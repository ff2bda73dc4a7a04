// A decision for a node by itself: whether it fits a kernel, what is predicted of that, and its features.
#pragma once

#include "host/driver/compile.h"
#include "host/tune/measurer.h"

namespace gantry::tune {

/// Lowers the node with what counts as its work behind it. `options`: of one target; thread-safe. `threads`:
/// that compute.
Look look_at_lone(const Function& function, const Node& node, const Decision& decision,
                  const CompileOptions& options, int threads);

}  // namespace gantry::tune
