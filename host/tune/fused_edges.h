// What kernels take in that could be a kernel of its own.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "host/passes/fusion_report.h"
#include "host/passes/network_decision.h"
#include "host/tune/task.h"

namespace gantry::tune {

/// Two nodes of a kernel, of which the second reads the first.
struct FusedEdge {
  std::string what;  ///< "nn.relu apart from nn.conv", "multiply apart from nn.conv, which reads it"
  Separation edge;
  NodeName anchor;  ///< of their kernel
};

/// Of each kernel with an anchor: what follows the anchor, one node behind the other, and what the anchor
/// copies, where the two are of different nodes of the model. `report`: of a graph that lives.
std::vector<FusedEdge> fused_edges(const FusionReport& report);

/// With the numbers of its nodes, the first of these names; none: no node reads another of these.
std::optional<NumberedSeparation> numbered(const Function& function, const Separation& edge);

}  // namespace gantry::tune
