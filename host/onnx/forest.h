// Ensembles of decision trees, as models have them.
#pragma once

#include <utility>
#include <vector>

#include "host/onnx/term.h"

namespace gantry {

/// Trees over rows of features. A state is a branch or, from branches.size() on, a leaf.
struct Forest {
  enum class Test : uint8_t { kAtMost, kLess, kAtLeast, kMore, kEqual, kNotEqual, kMember };
  struct Branch {
    int64_t feature = 0;
    Test test = Test::kAtMost;
    double split = 0;             ///< what the feature is compared with
    std::vector<double> members;  ///< of kMember
    int64_t yes = 0, no = 0;      ///< the next state
    bool missing = false;         ///< NaN passes the test
  };
  using Leaf = std::vector<std::pair<int64_t, double>>;  ///< targets and what it adds to them

  std::vector<Branch> branches;
  std::vector<Leaf> leaves;
  std::vector<int64_t> roots;  ///< a state for each tree
  int64_t targets = 1;
};

enum class TreeAggregate : uint8_t { kAverage, kSum, kMin, kMax };

/// What the trees make of rows x (N, features) of f32 or f64: (N, targets) of that dtype. A target that no
/// leaf has is 0.
Term evaluate_forest(const Term& x, const Forest& forest, TreeAggregate aggregate);

}  // namespace gantry
