#include "host/onnx/forest_tables.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <utility>

#include "host/onnx/forest_steps.h"

namespace gantry {
namespace {

constexpr int64_t kNowhere = -1;

/// Trees that have branches in common, straight or through others, are one group.
class Groups {
 public:
  explicit Groups(const ForestSteps& forest)
      : parents_(forest.roots.size()), owners_(forest.steps.size(), kNowhere) {
    std::iota(parents_.begin(), parents_.end(), 0);
    for (size_t tree = 0; tree < parents_.size(); ++tree) claim(forest, tree);
  }

  /// The groups' trees, both in the order of the first trees.
  std::vector<std::vector<size_t>> all() {
    std::map<size_t, std::vector<size_t>> groups;
    for (size_t tree = 0; tree < parents_.size(); ++tree) groups[group_of(tree)].push_back(tree);
    std::vector<std::vector<size_t>> list;
    for (auto& [first, trees] : groups) list.push_back(std::move(trees));
    return list;
  }

 private:
  size_t group_of(size_t tree) {
    while (parents_[tree] != tree) tree = parents_[tree] = parents_[parents_[tree]];
    return tree;
  }

  /// Goes down to what another tree has.
  void claim(const ForestSteps& forest, size_t tree) {
    std::vector<int64_t> open{forest.roots[tree]};
    while (!open.empty()) {
      const int64_t state = open.back();
      open.pop_back();
      if (state < 0) continue;
      int64_t& owner = owners_[static_cast<size_t>(state)];
      if (owner != kNowhere) {
        const size_t a = group_of(static_cast<size_t>(owner)), b = group_of(tree);
        parents_[std::max(a, b)] = std::min(a, b);
        continue;
      }
      owner = static_cast<int64_t>(tree);
      open.push_back(forest.steps[static_cast<size_t>(state)].no);
      open.push_back(forest.steps[static_cast<size_t>(state)].yes);
    }
  }

  std::vector<size_t> parents_;  ///< the first tree of a group is its own
  std::vector<int64_t> owners_;  ///< by step the first tree that came there
};

class TableBuilder {
 public:
  TableBuilder(const Forest& forest, const ForestSteps& steps, const std::vector<int64_t>& lengths,
               DType dtype)
      : forest_(forest),
        steps_(steps),
        lengths_(lengths),
        dtype_(dtype),
        places_(steps.steps.size(), kNowhere) {}

  ForestTables build() {
    choose_outcomes();
    made_.attrs.targets = forest_.targets;
    made_.attrs.steps = 0;
    made_.trees.resize(4 * steps_.roots.size());
    begins_ = {0};
    for (const std::vector<size_t>& trees : Groups(steps_).all()) add_group(trees);
    if (made_.tests.empty()) {  // tables have elements
      add_step({});
      made_.next.assign(2, -1);
    }
    if (made_.weights.empty()) add_weight(0, 0);
    const auto last = static_cast<int64_t>(made_.tests.size()) - 1;
    for (size_t tree = 0; tree < steps_.roots.size(); ++tree)
      made_.trees[4 * tree + 1] = std::min(made_.trees[4 * tree + 1], last);
    choose_leaf_form();
    return std::move(made_);
  }

 private:
  bool is_met(size_t step) const { return lengths_[step] >= 0; }

  void choose_outcomes() {
    int64_t all = outcome::kAny, any = 0;
    for (size_t i = 0; i < steps_.steps.size(); ++i) {
      if (!is_met(i)) continue;
      all &= steps_.steps[i].passes;
      any |= steps_.steps[i].passes;
      made_.attrs.features = std::max(made_.attrs.features, steps_.steps[i].feature + 1);
    }
    const int64_t differing = any & ~all;
    made_.attrs.own = differing == 0 || any == 0   ? 0
                      : differing == outcome::kNan ? outcome::kNan
                                                   : outcome::kAny;
    made_.attrs.passes = made_.attrs.own == outcome::kAny ? 0 : any == 0 ? outcome::kEqual : all;
  }

  /// Branches of a group stand one after another, in the order in which paths that pass come to them.
  void add_group(const std::vector<size_t>& trees) {
    const auto first = static_cast<int64_t>(made_.tests.size()), leaf = leaf_count();
    leaves_.clear();
    std::vector<int64_t> order;
    for (const size_t tree : trees) list_steps(steps_.roots[tree], order);
    for (const int64_t step : order) add_step(steps_.steps[static_cast<size_t>(step)]);
    for (const int64_t step : order) {
      made_.next.push_back(place_of(steps_.steps[static_cast<size_t>(step)].yes));
      made_.next.push_back(place_of(steps_.steps[static_cast<size_t>(step)].no));
    }
    for (const size_t tree : trees) {
      const int64_t root = steps_.roots[tree], length = root < 0 ? 0 : lengths_[static_cast<size_t>(root)];
      const int64_t row[] = {place_of(root), first, leaf, length};
      std::ranges::copy(row, made_.trees.begin() + static_cast<std::ptrdiff_t>(4 * tree));
      made_.attrs.steps += length;
    }
  }

  void list_steps(int64_t root, std::vector<int64_t>& order) {
    std::vector<int64_t> open{root};
    while (!open.empty()) {
      const int64_t state = open.back();
      open.pop_back();
      if (state < 0 || places_[static_cast<size_t>(state)] != kNowhere) continue;
      places_[static_cast<size_t>(state)] = static_cast<int64_t>(order.size());
      order.push_back(state);
      open.push_back(steps_.steps[static_cast<size_t>(state)].no);
      open.push_back(steps_.steps[static_cast<size_t>(state)].yes);
    }
  }

  void add_step(const ForestStep& step) {
    const int64_t own = made_.attrs.own, bits = own_bits(own);
    const int64_t passes = own == outcome::kAny   ? step.passes
                           : own == outcome::kNan ? step.passes / outcome::kNan
                                                  : 0;
    made_.tests.push_back((step.feature << bits) | passes);
    made_.splits.push_back(step.split);
  }

  /// The state in the group's numbers.
  int64_t place_of(int64_t state) {
    return state >= 0 ? places_[static_cast<size_t>(state)] : -1 - leaf_of(-1 - state);
  }

  int64_t leaf_of(int64_t leaf) {
    std::map<int64_t, double> sums;
    for (const auto& [target, weight] : forest_.leaves[static_cast<size_t>(leaf)]) {
      const auto [at, is_new] = sums.try_emplace(target, weight);
      if (!is_new) at->second += weight;
    }
    std::vector<std::pair<int64_t, uint64_t>> key;  // bits, as NaN is equal to nothing
    for (const auto& [target, weight] : sums)
      key.emplace_back(target,
                       std::bit_cast<uint64_t>(dtype_ == DType::kF32 ? static_cast<float>(weight) : weight));
    const auto [at, is_new] = leaves_.try_emplace(std::move(key), static_cast<int64_t>(leaves_.size()));
    if (is_new) {
      for (const auto& [target, weight] : sums) add_weight(target, weight);
      begins_.push_back(static_cast<int64_t>(made_.weights.size()));
    }
    return at->second;
  }

  void add_weight(int64_t target, double weight) {
    made_.weights.push_back(weight);
    made_.targets.push_back(target);
  }

  int64_t leaf_count() const { return static_cast<int64_t>(begins_.size()) - 1; }

  /// Says by attributes what it can of which weights a leaf has, and of which targets they are.
  void choose_leaf_form() {
    const int64_t each = begins_.at(1);
    bool alike = true, in_order = true;
    for (int64_t leaf = 0; leaf < leaf_count(); ++leaf) {
      const int64_t begin = begins_[static_cast<size_t>(leaf)], end = begins_[static_cast<size_t>(leaf) + 1];
      alike = alike && end - begin == each;
      for (int64_t i = begin; i < end; ++i)
        in_order = in_order && made_.targets[static_cast<size_t>(i)] == i - begin;
    }
    if (alike) made_.attrs.leaf_weights = each;
    if (!alike) made_.begins = begins_;
    if (in_order) made_.targets.clear();
  }

  const Forest& forest_;
  const ForestSteps& steps_;
  const std::vector<int64_t>& lengths_;
  DType dtype_;
  ForestTables made_;
  std::vector<int64_t> places_;  ///< by step its place in its group
  std::vector<int64_t> begins_;
  std::map<std::vector<std::pair<int64_t, uint64_t>>, int64_t> leaves_;  ///< of the group
};

}  // namespace

ForestTables forest_tables(NodeImport& n, const Forest& forest, DType dtype) {
  const ForestSteps steps = forest_steps(n, forest);
  const std::vector<int64_t> lengths = path_lengths(n, steps);
  return TableBuilder(forest, steps, lengths, dtype).build();
}

}  // namespace gantry
