// What a cost model learns from: a node, a decision for it, and a machine, as numbers.
#pragma once

#include <optional>
#include <vector>

#include "host/codegen/target.h"
#include "host/graph/graph.h"

namespace gantry::tune {

/// Of equal length and order for all nodes and decisions of a build of gantry. `predicted` as of Prospect.
/// Knobs that a decision leaves out, and extents that are not known, are NaN: missing.
std::vector<float> features_of(const Node& node, const Decision& decision, std::optional<double> predicted,
                               const Target& target, int threads);

}  // namespace gantry::tune
