// The graph passes, run in order.
#pragma once

#include <functional>

#include "host/driver/compile.h"
#include "host/passes/node_decision.h"
#include "host/passes/pass.h"

namespace gantry {

/// What passes may ask of the target and of the options.
PassContext make_pass_context(const Target& target, const CompileOptions& options);

/// How a pass went.
struct PassRun {
  int64_t rewrites = 0;
  double milliseconds = 0;
};

/// Runs one pass, where it applies, and notes it in graph.passes; verifies the graph and tells the observer as the
/// options say, under the name `stage`.
PassRun run_pass(const Pass& pass, const std::string& stage, Graph& graph, PassContext& context,
                 const CompileOptions& options);

/// User error for the first decision that no node has taken and that is not left out: it names the line. With
/// `deciding`, the pass that decides was among those that ran.
void expect_all_taken(const GivenDecisions& given, const Target& target, bool deciding,
                      const std::function<bool(const NodeDecision&)>& left_out = {});

/// What was decided while passes ran.
struct GraphDecisions {
  std::vector<NodeDecision> nodes;  ///< in their order
  NetworkDecision network = {};
};

/// Runs the passes of `options.opt_level` for the target; the observer sees the graph before the first and
/// after each. After it, every node of main is one kernel or a view. User error for a graph with decisions
/// that the target cannot compute by (see expect_forms_of). Returns what was decided for it.
GraphDecisions run_graph_passes(Graph& graph, const Target& target, const CompileOptions& options);

}  // namespace gantry
