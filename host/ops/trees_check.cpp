// Walks down the tables of tree_ensemble, wherever they may lead.
#include <optional>
#include <vector>

#include "host/ops/support.h"
#include "host/ops/trees.h"

namespace gantry {
namespace {

/// Integers of an input that is a constant, or is absent.
class Integers {
 public:
  Integers(const Node& node, TreeInput input) {
    if (ops::has_input(node, static_cast<size_t>(input)))
      constant_ = node.inputs[static_cast<size_t>(input)]->constant.get();
  }
  explicit operator bool() const { return constant_ != nullptr; }
  int64_t size() const { return static_cast<int64_t>(constant_->size) / byte_width(constant_->type.dtype); }
  int64_t at(int64_t i) const {
    return constant_->type.dtype == DType::kI16 ? constant_->as<int16_t>()[i] : constant_->as<int32_t>()[i];
  }

 private:
  const ConstantData* constant_ = nullptr;
};

class TreeCheck {
 public:
  explicit TreeCheck(const Node& node)
      : attrs_(node.attrs_as<TreesAttrs>()),
        trees_(node, TreeInput::kTrees),
        tests_(node, TreeInput::kTests),
        next_(node, TreeInput::kNext),
        begins_(node, TreeInput::kBegins),
        targets_(node, TreeInput::kTargets),
        has_begins_(ops::has_input(node, static_cast<size_t>(TreeInput::kBegins))),
        has_targets_(ops::has_input(node, static_cast<size_t>(TreeInput::kTargets))),
        weights_(ops::input_type(node, static_cast<size_t>(TreeInput::kWeights)).shape[0].constant()) {}

  /// Whether all that is looked at is there.
  bool is_known() const {
    return trees_ && tests_ && next_ && weights_ && (begins_ || !has_begins_) && (targets_ || !has_targets_);
  }

  void run() {
    count_leaves();
    for (int64_t i = 0; has_targets_ && i < targets_.size(); ++i) {
      ops::require(targets_.at(i) >= 0 && targets_.at(i) < attrs_.targets, "a weight is of target {} of {}",
                   targets_.at(i), attrs_.targets);
    }
    for (int64_t i = 0; i < tests_.size(); ++i) {
      const int64_t feature = tests_.at(i) >> own_bits(attrs_.own);
      ops::require(feature >= 0 && feature < attrs_.features, "a tree asks for feature {} of {}", feature,
                   attrs_.features);
    }
    met_from_.assign(static_cast<size_t>(tests_.size()), -1);
    for (int64_t tree = 0; tree < trees_.size() / 4; ++tree) walk(tree);
  }

 private:
  void count_leaves() {
    if (!has_begins_) {
      const int64_t each = attrs_.leaf_weights;
      leaves_ = each == 0 ? INT64_MAX : *weights_ / each;
      const int64_t named = has_targets_ ? 0 : each;
      return ops::require(named <= attrs_.targets, "leaves have {} weights for {} targets", named,
                          attrs_.targets);
    }
    leaves_ = begins_.size() - 1;
    for (int64_t i = 0; i <= leaves_; ++i) {
      const int64_t before = i == 0 ? 0 : begins_.at(i - 1), count = begins_.at(i) - before;
      const bool fits = count >= 0 && begins_.at(i) <= *weights_;
      ops::require(fits && (has_targets_ || i == 0 || count <= attrs_.targets),
                   "leaves begin at weight {} after {} of {}", begins_.at(i), before, *weights_);
    }
  }

  void walk(int64_t tree) {
    const int64_t branch = trees_.at(tree * 4 + 1), leaf = trees_.at(tree * 4 + 2);
    // Where a tree is in its last leaf, the first one's and the first branch's place are read on the way.
    ops::require(branch >= 0 && branch < tests_.size() && leaf >= 0 && leaf < leaves_,
                 "tree {} is outside of its tables", tree);
    ops::require(trees_.at(tree * 4 + 3) >= 0, "tree {} has paths of {} branches", tree,
                 trees_.at(tree * 4 + 3));
    open_.push_back(trees_.at(tree * 4));
    while (!open_.empty()) {
      const int64_t state = open_.back(), at = branch + state;
      open_.pop_back();
      const bool inside = state < 0 ? leaf - 1 - state < leaves_ : at < tests_.size();
      ops::require(inside, "tree {} goes on to state {}, which it does not have", tree, state);
      if (state < 0 || met_from_[static_cast<size_t>(at)] == branch) continue;
      met_from_[static_cast<size_t>(at)] = branch;
      ops::require(++visits_ <= 4 * tests_.size(),
                   "its trees count the same branches from different ones on");
      open_.push_back(next_.at(2 * at));
      open_.push_back(next_.at(2 * at + 1));
    }
  }

  const TreesAttrs& attrs_;
  Integers trees_, tests_, next_, begins_, targets_;
  bool has_begins_, has_targets_;
  std::optional<int64_t> weights_;
  int64_t leaves_ = 0, visits_ = 0;
  std::vector<int64_t> met_from_;  ///< the first branch of the tree that met a branch last
  std::vector<int64_t> open_;
};

}  // namespace

void check_trees(const Node& node) {
  TreeCheck check(node);
  if (check.is_known()) check.run();
}

}  // namespace gantry
