// What a cost model learns from: a node, a decision for it, and a machine, as numbers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "host/graph/graph.h"
#include "host/machine/target.h"

namespace gantry::tune {

/// Of equal length and order for all nodes and decisions of a build of gantry. `predicted` as of Prospect.
/// Knobs that a decision leaves out, and extents that are not known, are NaN: missing.
std::vector<float> features_of(const Node& node, const Decision& decision, std::optional<double> predicted,
                               const Target& target, int threads);
/// What each is called, in that order: "form.direct", "knob.block", "data.0", …: for files that other builds
/// read, whose forms and knobs may be others.
const std::vector<std::string>& feature_names();

}  // namespace gantry::tune
