// How nodes are computed: `gantry ir --forms` and `gantry ir --explain NODE`.
#pragma once

#include <string>
#include <vector>

#include "host/driver/compile.h"

namespace gantry::cli {

/// What alter_layout decides for the model's nodes, in their order. Errors: as lower_program.
std::vector<NodeDecision> decide_forms(const Graph& graph, const Target& target, CompileOptions options,
                                       bool candidates);

/// For each decision of the node, or of one with its name in theirs: the candidates, what is predicted for them, and
/// why they were not taken. User errors say which nodes there are. `width` of the terminal; 0: unlimited.
std::string candidates_text(const std::vector<NodeDecision>& decisions, const std::string& node, size_t width);
/// The same for programs.
std::string candidates_json(const std::vector<NodeDecision>& decisions, const std::string& node);

}  // namespace gantry::cli
