// The graph passes, in order, as one list.
#pragma once

#include "host/driver/compile.h"

namespace gantry {

/// Runs the passes of `options.opt_level` for the target; the observer sees the graph before the first and
/// after each. After it, every node of main is one kernel or a view.
void run_graph_passes(Graph& graph, const Target& target, const CompileOptions& options);

}  // namespace gantry
