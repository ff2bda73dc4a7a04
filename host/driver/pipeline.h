// The graph passes, in order, as one list.
#pragma once

#include "host/driver/compile.h"
#include "host/passes/pass.h"

namespace gantry {

/// What passes may ask of the target and of the options.
PassContext make_pass_context(const Target& target, const CompileOptions& options);

/// Runs the passes of `options.opt_level` for the target; the observer sees the graph before the first and
/// after each. After it, every node of main is one kernel or a view.
void run_graph_passes(Graph& graph, const Target& target, const CompileOptions& options);

}  // namespace gantry
