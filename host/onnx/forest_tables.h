// The tables of tree_ensemble (host/ops/trees.h) for a forest.
#pragma once

#include <vector>

#include "host/onnx/forest.h"
#include "host/ops/trees.h"

namespace gantry {

/// As the op has them; indices in the narrowest type that is made of them.
struct ForestTables {
  std::vector<int64_t> trees, tests, next, begins, targets;  ///< begins and targets empty: absent
  std::vector<double> splits, weights;
  TreesAttrs attrs;  ///< all but the reduction
};

/// Nodes that no tree comes to are left out; branches that trees have in common are there once, and so are
/// leaves of the same weights in trees without common branches. A test of membership becomes a search among
/// the members. What is no tree is an error of the node.
ForestTables forest_tables(NodeImport& n, const Forest& forest, DType dtype);

}  // namespace gantry
