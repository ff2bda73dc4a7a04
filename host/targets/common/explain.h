// How the nodes of a compiled graph are computed, and how long the analytic models say that takes: for
// reports.
#pragma once

#include <optional>
#include <string>

#include "host/graph/graph.h"
#include "host/machine/target.h"

namespace gantry {

struct Explanation {
  /// Form and knobs, the most telling first: "winograd4, block 32, 6 rows, chunks of 16". Empty: of an op
  /// that is computed in one way only.
  std::string decision;
  /// By the model that chose the form: on one core of a CPU. None where no model looks at such nodes.
  std::optional<double> cycles;
  /// On a GPU.
  std::optional<double> seconds;
};

/// Of an op after the last pass, its body's ops apart; not of a fused node. Symbolic extents count as typical
/// ones.
Explanation explain(const Node& node, const Target& target);

}  // namespace gantry
