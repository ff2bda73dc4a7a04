// Which nodes go into one kernel.
#pragma once

#include <span>
#include <vector>

#include "host/graph/graph.h"
#include "host/passes/network_decision.h"

namespace gantry {

struct FusionRecord;

/// Nodes of one kernel in execution order; the last one is the only one whose results are seen outside.
struct FusionGroup {
  std::vector<Node*> members;
};

/// Every node of the function in one group, groups ordered by their last node. Without `enable` each node is
/// alone. `record`: where the rules that decided are put down (host/passes/fusion_reasons.h); null: nobody
/// asks. `apart`: nodes that share no group.
std::vector<FusionGroup> find_fusion_groups(const Function& function, bool enable,
                                            FusionRecord* record = nullptr,
                                            std::span<const Separation> apart = {});

}  // namespace gantry
