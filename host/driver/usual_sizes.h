// Dimensions of different names that broadcast, and nearly always are equal.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "host/graph/graph.h"

namespace gantry {

/// A graph for the sizes that networks are run with: where operands broadcast along dimensions of different
/// names (`batch` beside `mask_batch`), the names stand for one size.
struct UsualSizes {
  Graph graph;
  /// Symbols of the inputs, and the dimensions of other symbols that they equal.
  std::map<std::string, Dim> equal;
};

/// The graph as it is where all such dimensions are equal, without what repeats operands along them: of the
/// code that it has when they have one name. Nothing where no input's size decides on broadcasting, or the
/// graph cannot be where they are equal.
std::optional<UsualSizes> usual_sizes(const Graph& graph);

/// "mask_batch=batch,past=length-1"
std::string equal_text(const std::map<std::string, Dim>& equal);

}  // namespace gantry
