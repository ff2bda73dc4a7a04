#include "host/onnx/forest_steps.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "host/ops/trees.h"

namespace gantry {
namespace {

using Test = Forest::Test;

int64_t passing_outcomes(Test test) {
  using namespace outcome;  // NOLINT
  switch (test) {
    case Test::kAtMost:
      return kLess | kEqual;
    case Test::kLess:
      return kLess;
    case Test::kAtLeast:
      return kMore | kEqual;
    case Test::kMore:
      return kMore;
    case Test::kNotEqual:
      return kLess | kMore | kNan;
    default:
      return kEqual;
  }
}

class StepBuilder {
 public:
  StepBuilder(NodeImport& n, const Forest& forest) : n_(n), forest_(forest) {}

  ForestSteps build() {
    made_.steps.resize(forest_.branches.size());
    for (size_t i = 0; i < forest_.branches.size(); ++i) add(i);
    for (const int64_t root : forest_.roots) made_.roots.push_back(state(root));
    return std::move(made_);
  }

 private:
  int64_t state(int64_t given) const {
    const auto branches = static_cast<int64_t>(forest_.branches.size());
    const auto states = branches + static_cast<int64_t>(forest_.leaves.size());
    if (given < 0 || given >= states) n_.fail("a tree goes on to node {}, of {}", given, states);
    return given < branches ? given : branches - 1 - given;
  }

  void add(size_t at) {
    const Forest::Branch& branch = forest_.branches[at];
    const ForestStep outcomes{branch.feature, 0, 0, state(branch.yes), state(branch.no)};
    if (branch.test == Test::kMember) {
      std::vector<double> members = branch.members;
      std::ranges::sort(members);
      const auto [last, end] = std::ranges::unique(members);
      members.erase(last, end);
      return search(at, outcomes, members, branch.missing);
    }
    ForestStep& step = made_.steps[at] = outcomes;
    step.split = branch.split;
    step.passes = passing_outcomes(branch.test) | (branch.missing ? outcome::kNan : 0);
    // The numbers differ from a split that is none, which no outcome says.
    if (branch.test == Test::kNotEqual && std::isnan(branch.split)) step.no = step.yes;
  }

  /// Makes of step `at` a search among sorted members: below the middle one, or from it on. NaN goes to where
  /// it passes.
  void search(size_t at, ForestStep outcomes, std::span<const double> members, bool nan_passes) {
    const int64_t nan = nan_passes ? outcome::kNan : 0;
    if (members.size() <= 1) {
      outcomes.passes = outcome::kEqual | nan;
      outcomes.split = members.empty() ? std::numeric_limits<double>::quiet_NaN() : members[0];
      made_.steps[at] = outcomes;
      return;
    }
    const size_t middle = members.size() / 2, below = made_.steps.size(), from = below + 1;
    made_.steps.resize(below + 2);
    made_.steps[at] = {outcomes.feature, outcome::kLess | nan, members[middle], static_cast<int64_t>(below),
                       static_cast<int64_t>(from)};
    search(below, outcomes, members.first(middle), nan_passes);
    search(from, outcomes, members.subspan(middle), false);
  }

  NodeImport& n_;
  const Forest& forest_;
  ForestSteps made_;
};

/// Depth first; a path may be long, so that there is no recursion.
class PathLengths {
 public:
  PathLengths(NodeImport& n, const ForestSteps& forest)
      : n_(n), steps_(forest.steps), lengths_(steps_.size(), kNew) {}

  std::vector<int64_t> run(const std::vector<int64_t>& roots) {
    for (const int64_t root : roots) {
      enter(root);
      while (!open_.empty()) visit(open_.back());
    }
    return std::move(lengths_);
  }

 private:
  static constexpr int64_t kNew = -1, kOpen = -2;

  bool enter(int64_t state) {
    if (state < 0 || lengths_[static_cast<size_t>(state)] >= 0) return false;
    int64_t& length = lengths_[static_cast<size_t>(state)];
    if (length == kOpen) n_.fail("a tree comes back to node {}", state);
    length = kOpen;
    open_.push_back(state);
    return true;
  }

  /// Goes on to a state that has not been visited; the length of a step whose both are known is.
  void visit(int64_t state) {
    const ForestStep& step = steps_[static_cast<size_t>(state)];
    if (enter(step.yes) || enter(step.no)) return;
    const auto below = [&](int64_t next) { return next < 0 ? 0 : lengths_[static_cast<size_t>(next)]; };
    lengths_[static_cast<size_t>(state)] = 1 + std::max(below(step.yes), below(step.no));
    open_.pop_back();
  }

  NodeImport& n_;
  const std::vector<ForestStep>& steps_;
  std::vector<int64_t> lengths_;
  std::vector<int64_t> open_;
};

}  // namespace

ForestSteps forest_steps(NodeImport& n, const Forest& forest) {
  return StepBuilder(n, forest).build();
}

std::vector<int64_t> path_lengths(NodeImport& n, const ForestSteps& forest) {
  return PathLengths(n, forest).run(forest.roots);
}

}  // namespace gantry
