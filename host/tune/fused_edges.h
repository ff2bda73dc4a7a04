// What kernels take in that could be a kernel of its own.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "host/passes/fusion_report.h"
#include "host/passes/network_decision.h"
#include "host/tune/task.h"

namespace gantry::tune {

/// A node that shares the kernel of an anchor, and the node of the kernel on whose other side it is.
struct FusedEdge {
  std::string what;  ///< "nn.relu apart from nn.conv", "multiply apart from nn.conv, which reads it"
  Separation edge;
  bool anchor_reads = false;  ///< the anchor is the reader, else the maker
};

/// Of each kernel with an anchor: what follows the anchor first, and what the anchor copies. `report`: of a
/// graph that lives.
std::vector<FusedEdge> fused_edges(const FusionReport& report);

/// With the numbers of its nodes, the first of these names; none: no node reads another of these.
std::optional<NumberedSeparation> numbered(const Function& function, const Separation& edge);

}  // namespace gantry::tune
