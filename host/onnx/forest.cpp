#include "host/onnx/forest.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "host/onnx/data_axes.h"
#include "host/ops/elementwise.h"

namespace gantry {
namespace {

using Test = Forest::Test;

/// Branches on the longest path; what is no tree is a user error.
int64_t depth_of(NodeImport& n, const Forest& forest) {
  const auto branches = static_cast<int64_t>(forest.branches.size());
  const auto states = branches + static_cast<int64_t>(forest.leaves.size());
  enum class Mark : uint8_t { kNew, kOpen, kDone };
  std::vector<Mark> marks(forest.branches.size(), Mark::kNew);
  std::vector<int64_t> depths(forest.branches.size(), 0);
  int64_t deepest = 0;
  std::vector<int64_t> open;  // a path may be long: no recursion
  for (const int64_t root : forest.roots) {
    open.push_back(root);
    while (!open.empty()) {
      const int64_t state = open.back();
      if (state < 0 || state >= states) n.fail("a tree goes on to node {}, of {}", state, states);
      if (state >= branches || marks[static_cast<size_t>(state)] == Mark::kDone) {
        open.pop_back();
        continue;
      }
      const auto at = static_cast<size_t>(state);
      const Forest::Branch& branch = forest.branches[at];
      const bool first = marks[at] == Mark::kNew;
      marks[at] = Mark::kOpen;
      int64_t below = 0;
      bool waits = false;
      for (const int64_t next : {branch.yes, branch.no}) {
        if (next < 0 || next >= states) n.fail("a tree goes on to node {}, of {}", next, states);
        if (next >= branches) continue;
        const Mark mark = marks[static_cast<size_t>(next)];
        if (mark == Mark::kDone) below = std::max(below, depths[static_cast<size_t>(next)]);
        if (mark == Mark::kOpen) n.fail("a tree comes back to node {}", next);
        if (mark == Mark::kNew) {
          if (!first) n.fail("a tree comes back to node {}", next);
          open.push_back(next);
          waits = true;
        }
      }
      if (waits) continue;
      depths[at] = below + 1;
      marks[at] = Mark::kDone;
      open.pop_back();
    }
    if (root < branches) deepest = std::max(deepest, depths[static_cast<size_t>(root)]);
  }
  return deepest;
}

class ForestTables {
 public:
  ForestTables(NodeImport& n, const Forest& forest, DType dtype) : n_(n), forest_(forest), dtype_(dtype) {}

  /// Elements by state.
  Term integers(const std::function<int64_t(const Forest::Branch&)>& of_branch) const {
    std::vector<int64_t> values;
    for (const Forest::Branch& branch : forest_.branches) values.push_back(of_branch(branch));
    values.resize(forest_.branches.size() + forest_.leaves.size(), 0);
    return {n_, index_constant(n_, values)};
  }
  /// Where a test leads; leaves stay.
  Term next(bool passed) const {
    std::vector<int64_t> values;
    for (const Forest::Branch& branch : forest_.branches) values.push_back(passed ? branch.yes : branch.no);
    for (size_t i = 0; i < forest_.leaves.size(); ++i) values.push_back(static_cast<int64_t>(values.size()));
    return {n_, index_constant(n_, values)};
  }
  Term splits() const {
    std::vector<double> values;
    for (const Forest::Branch& branch : forest_.branches) values.push_back(branch.split);
    values.resize(forest_.branches.size() + forest_.leaves.size(), 0);
    return floats(values, {static_cast<int64_t>(values.size())});
  }
  /// By state the values that pass, filled up with NaN, which nothing equals.
  Term members() const {
    size_t longest = 1;
    for (const Forest::Branch& branch : forest_.branches) longest = std::max(longest, branch.members.size());
    const size_t states = forest_.branches.size() + forest_.leaves.size();
    std::vector<double> values(states * longest, std::numeric_limits<double>::quiet_NaN());
    for (size_t i = 0; i < forest_.branches.size(); ++i) {
      const std::vector<double>& own = forest_.branches[i].members;
      std::copy(own.begin(), own.end(), values.begin() + static_cast<std::ptrdiff_t>(i * longest));
    }
    return floats(values, {static_cast<int64_t>(states), static_cast<int64_t>(longest)});
  }
  /// By leaf and target what it adds; `absent` for what it does not have.
  Term weights(double absent) const {
    const auto targets = static_cast<size_t>(forest_.targets);
    std::vector<double> values(forest_.leaves.size() * targets, absent);
    for (size_t i = 0; i < forest_.leaves.size(); ++i) {
      std::vector<bool> met(targets, false);
      for (const auto& [target, weight] : forest_.leaves[i]) {
        const auto at = static_cast<size_t>(target);
        double& value = values[i * targets + at];
        value = met[at] ? value + weight : weight;
        met[at] = true;
      }
    }
    return floats(values, {static_cast<int64_t>(forest_.leaves.size()), forest_.targets});
  }

 private:
  Term floats(const std::vector<double>& values, Shape shape) const {
    const TensorType type{dtype_, std::move(shape)};
    if (dtype_ == DType::kF64) return {n_, n_.constant_value(make_constant(type, values.data()), "trees")};
    const std::vector<float> narrow(values.begin(), values.end());
    return {n_, n_.constant_value(make_constant(type, narrow.data()), "trees")};
  }

  NodeImport& n_;
  const Forest& forest_;
  DType dtype_;
};

/// Whether values (N, trees) pass the tests of their states.
class Tests {
 public:
  Tests(const Forest& forest, const ForestTables& tables) : forest_(forest), tables_(tables) {
    for (const Forest::Branch& branch : forest.branches) {
      if (std::ranges::find(kinds_, branch.test) == kinds_.end()) kinds_.push_back(branch.test);
      missing_ = missing_ || branch.missing;
    }
  }

  Term passed(const Term& value, const Term& state) const {
    Term result = passes(kinds_.front(), value, state);
    if (kinds_.size() > 1) {
      const Term kind =
          gather(tables_.integers([](const auto& b) { return static_cast<int64_t>(b.test); }), state, 0);
      for (size_t i = 1; i < kinds_.size(); ++i) {
        const Term is_this = equal(kind, kind.number_like(static_cast<double>(kinds_[i])));
        result = where(is_this, passes(kinds_[i], value, state), result);
      }
    }
    if (!missing_) return result;
    const Term tracks = gather(tables_.integers([](const auto& b) { return b.missing ? 1 : 0; }), state, 0);
    return either(result, both(value.apply(op::isnan), not_equal(tracks, tracks.number_like(0))));
  }

 private:
  Term passes(Test test, const Term& value, const Term& state) const {
    if (test == Test::kMember) {
      const Term hits = equal(value.unsqueezed(-1), gather(tables_.members(), state, 0)).cast(DType::kI32);
      const Term count = sum(hits, {-1});
      return not_equal(count, count.number_like(0));
    }
    const Term split = gather(tables_.splits(), state, 0);
    switch (test) {
      case Test::kAtMost:
        return less_equal(value, split);
      case Test::kLess:
        return less(value, split);
      case Test::kAtLeast:
        return greater_equal(value, split);
      case Test::kMore:
        return less(split, value);
      case Test::kEqual:
        return equal(value, split);
      default:
        return not_equal(value, split);
    }
  }

  const Forest& forest_;
  const ForestTables& tables_;
  std::vector<Test> kinds_;
  bool missing_ = false;
};

/// Smallest or largest over axis 1; what only absent weights meet is 0.
Term extreme(const Term& weights, bool is_largest, double absent) {
  const Term found = is_largest ? largest(weights, {1}) : -largest(-weights, {1});
  return where(equal(found, found.number_like(absent)), 0, found);
}

}  // namespace

Term evaluate_forest(const Term& x, const Forest& forest, TreeAggregate aggregate) {
  NodeImport& n = x.node();
  if (forest.roots.empty() || forest.leaves.empty()) n.fail("has no trees");
  for (const Forest::Branch& branch : forest.branches) {
    const bool beyond = x.dim(1).is_constant() && branch.feature >= x.dim(1).value();
    if (branch.feature < 0 || beyond)
      n.fail("a tree asks for feature {} of {}", branch.feature, to_string(x.shape()));
  }
  for (const Forest::Leaf& leaf : forest.leaves) {
    for (const auto& [target, weight] : leaf)
      if (target < 0 || target >= forest.targets)
        n.fail("a leaf has target {} of {}", target, forest.targets);
  }
  const int64_t depth = depth_of(n, forest);
  const auto trees = static_cast<int64_t>(forest.roots.size());
  const ForestTables tables(n, forest, x.dtype());
  Term state = Term(n, index_constant(n, forest.roots)).reshaped({1, trees}).broadcast({x.dim(0), trees});
  if (depth > 0) {
    const Tests tests(forest, tables);
    const Term feature = tables.integers([](const auto& b) { return b.feature; });
    const Term yes = tables.next(true), no = tables.next(false);
    for (int64_t step = 0; step < depth; ++step) {
      const Term value = gather_elements(x, gather(feature, state, 0), 1);
      state = where(tests.passed(value, state), gather(yes, state, 0), gather(no, state, 0));
    }
  }
  const Term leaf = state - static_cast<double>(forest.branches.size());
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto weights = [&](double absent) {
    return gather(tables.weights(absent), leaf, 0);
  };  // (N, trees, targets)
  switch (aggregate) {
    case TreeAggregate::kMin:
      return extreme(weights(kInfinity), false, kInfinity);
    case TreeAggregate::kMax:
      return extreme(weights(-kInfinity), true, -kInfinity);
    case TreeAggregate::kAverage:
      return sum(weights(0), {1}) / static_cast<double>(trees);
    case TreeAggregate::kSum:
      break;
  }
  return sum(weights(0), {1});
}

}  // namespace gantry
