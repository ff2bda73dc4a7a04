// tree_ensemble: rows of features go down decision trees.
#pragma once

#include <cstdint>

#include "host/graph/attrs.h"
#include "host/graph/graph.h"
#include "host/graph/op_handle.h"

namespace gantry {

/// How a feature compares with a branch's split, as bits. A split that is NaN compares in no way with
/// numbers.
namespace outcome {
inline constexpr int64_t kLess = 1, kEqual = 2, kMore = 4, kNan = 8, kAny = 15;
}  // namespace outcome

/// What becomes of the weights that a target has from the leaves of all trees.
enum class TreeReduction : uint8_t { kSum, kMin, kMax };

/// tree_ensemble(x, trees, tests, splits, next, weights, begins, targets) -> (N, targets), of the dtype of x:
/// f32(N, F) or f64(N, F). Targets that no leaf has are 0, or with min and max an infinity.
///
/// Branches of all trees stand one after another, and so do leaves. A state s in a tree is its branch s, or
/// below 0 its leaf -1 - s, counted from the tree's own first ones:
///   trees: i32(T, 4), of each tree the state in which it begins, its first branch, its first leaf, and how
///   many branches
///     its longest path has. Several trees may have branches in common
///   tests: i16 or i32 (B): the branch's feature; where branches differ in what they pass (`own`), shifted,
///   with that in
///     the bits below
///   splits: (B) of the dtype of x
///   next: i16 or i32 (B, 2): the state after a test that passes, and after one that fails
///   weights: (E) of the dtype of x, those of a leaf side by side
///   begins: i32(L + 1): leaf i has weights [begins[i], begins[i + 1]); absent: every leaf has `leaf_weights`
///   targets: i16 or i32 (E): which target a weight is of; absent: of leaves' weights the i-th is of target i
/// Constants that lead outside of the tables are refused.
struct TreesAttrs : AttrsOf<TreesAttrs> {
  int64_t targets = 1;
  int64_t features = 1;                               ///< all tests are of features below
  int64_t leaf_weights = 1;                           ///< of every leaf, without `begins`
  int64_t passes = outcome::kLess | outcome::kEqual;  ///< outcomes that pass in all branches
  /// Outcomes of which each branch says for itself whether they pass too: none; kNan, in one bit of its test;
  /// or kAny, in four.
  int64_t own = 0;
  int64_t steps = 1;  ///< branches on the longest paths of all trees together: how much work a row is
  TreeReduction reduction = TreeReduction::kSum;
  void fields(AttrVisitor& visit) override {
    visit("targets", targets);
    visit("features", features);
    visit("leaf_weights", leaf_weights);
    visit("passes", passes);
    visit("own", own);
    visit("steps", steps);
    visit.enumeration("reduction", reduction, {"sum", "min", "max"});
  }
};

/// Its inputs, in order.
enum class TreeInput : uint8_t { kX, kTrees, kTests, kSplits, kNext, kWeights, kBegins, kTargets };

/// Bits of a test below its feature.
constexpr int64_t own_bits(int64_t own) {
  return own == outcome::kAny ? 4 : own == outcome::kNan ? 1 : 0;
}

namespace op {
inline constexpr Op<TreesAttrs> tree_ensemble{"tree_ensemble"};
}  // namespace op

/// A user error unless every walk down the trees stays inside the tables. Nothing is said of a node some of
/// whose tables are no constants.
void check_trees(const Node& node);

}  // namespace gantry
