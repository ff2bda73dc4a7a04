// A forest whose branches are all of one kind, and the order of its nodes.
#pragma once

#include <vector>

#include "host/onnx/forest.h"

namespace gantry {

/// A branch that compares a feature with a split: the outcomes of host/ops/trees.h that pass. States are
/// places among the steps, or -1 - leaf.
struct ForestStep {
  int64_t feature = 0, passes = 0;
  double split = 0;
  int64_t yes = 0, no = 0;
};

struct ForestSteps {
  std::vector<ForestStep> steps;  ///< those of the forest's branches first
  std::vector<int64_t> roots;
};
/// An error of the node where a state is none of the forest's.
ForestSteps forest_steps(NodeImport& n, const Forest& forest);

/// By step, branches on the longest path from there; of those that no tree comes to -1. An error of the node
/// where a path comes back to a step.
std::vector<int64_t> path_lengths(NodeImport& n, const ForestSteps& forest);

}  // namespace gantry
