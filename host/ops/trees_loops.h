// Loop nests of tree_ensemble (trees.h).
#pragma once

#include <utility>
#include <vector>

#include "host/loops/stmt.h"
#include "host/ops/trees.h"
#include "host/tensor/tensor.h"

namespace gantry {

/// Rows are independent of each other, and threads take blocks of them. A walk waits for memory in each of
/// its steps, so that a few are made side by side: of kLanes rows in one tree or, of rows that are left over,
/// in kLanes trees.
///
///   parallel for block of rows
///     for 8 rows of the block
///       for tree
///         state[0..8) = where the tree begins
///         for stretch of kStretch steps of the tree's longest path, while a state is a branch
///           for step of the stretch
///             state[i] = leaf ? state[i] : next[state[i], x[row i, feature] passes the test of state[i] ? 0
///             : 1]
///         sums[row i] += weights of the leaf state[i]
///
/// Few rows in many trees are shared by trees as well: parts of the trees have sums of their own, which are
/// then added.
class TreeLoops {
 public:
  /// `in`: the op's inputs, null where absent.
  TreeLoops(const TreesAttrs& attrs, const std::vector<Tensor>& in);

  void build(LoopBuilder& b) const;
  /// On a GPU a thread makes one walk at a time.
  void build_launches(LoopBuilder& b) const;

  TreesAttrs attrs;
  DType dtype = DType::kF32;
  Expr rows, features;
  int64_t trees = 0;
  int begins = -1, targets = -1;  ///< these inputs' places among those that are present; -1: absent
};

}  // namespace gantry
