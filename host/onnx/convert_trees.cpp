// Tree ensembles of ai.onnx.ml: the one op of version 5, and the two that it replaces.
#include <algorithm>
#include <cmath>
#include <map>

#include "host/onnx/converters.h"
#include "host/onnx/forest.h"
#include "host/onnx/ml_scores.h"
#include "host/ops/elementwise.h"

namespace gantry {
namespace {

using Test = Forest::Test;

/// Rows of features as f32, or f64 where they are that.
Term features(NodeImport& n) {
  const Term x = Term::input(n, 0);
  if (x.rank() > 2 || x.rank() == 0) n.fail("its features {} should be rows", n.type(0).str());
  const Term rows = x.rank() == 1 ? x.unsqueezed(0) : x;
  return rows.dtype() == DType::kF64 ? rows : rows.cast(DType::kF32);
}

/// An attribute that is a list of floats or, in later versions, a tensor.
std::vector<double> numbers(NodeImport& n, const std::string& name) {
  const std::string tensor = name + "_as_tensor";
  return n.has_attribute(tensor.c_str()) ? n.tensor_numbers(tensor.c_str()) : n.number_list(name.c_str());
}

template <typename List>
void require_length(NodeImport& n, const List& list, size_t count, const char* name) {
  if (list.size() != count) n.fail("its {} should have {} entries, not {}", name, count, list.size());
}
/// All lists of nodes are of one length.
template <typename... Lists>
void require_nodes(NodeImport& n, size_t count, const Lists&... lists) {
  (require_length(n, lists, count, "lists of nodes or leaves"), ...);
}

// --- version 5

void convert_tree_ensemble(NodeImport& n) {
  const std::vector<int64_t> feature = n.integer_list("nodes_featureids"),
                             yes = n.integer_list("nodes_truenodeids"),
                             no = n.integer_list("nodes_falsenodeids"),
                             yes_leaf = n.integer_list("nodes_trueleafs"),
                             no_leaf = n.integer_list("nodes_falseleafs"),
                             targets = n.integer_list("leaf_targetids");
  std::vector<int64_t> missing = n.integer_list("nodes_missing_value_tracks_true");
  const std::vector<double> splits = n.tensor_numbers("nodes_splits"),
                            modes = n.tensor_numbers("nodes_modes"),
                            weights = n.tensor_numbers("leaf_weights");
  std::vector<double> members;
  if (n.has_attribute("membership_values")) members = n.tensor_numbers("membership_values");
  const size_t count = feature.size();
  missing.resize(missing.empty() ? count : missing.size(), 0);
  require_nodes(n, count, yes, no, yes_leaf, no_leaf, missing, splits, modes);
  require_length(n, weights, targets.size(), "leaf_weights");

  Forest forest;
  forest.targets = n.integer("n_targets", 1);
  const auto state = [&](int64_t id, int64_t is_leaf) {
    return is_leaf != 0 ? id + static_cast<int64_t>(count) : id;
  };
  auto member = members.begin();
  for (size_t i = 0; i < count; ++i) {
    if (!(modes[i] >= 0 && modes[i] <= 6)) n.fail("a node has mode {}", modes[i]);
    Forest::Branch& branch = forest.branches.emplace_back();
    branch.feature = feature[i];
    branch.test = static_cast<Test>(modes[i]);
    branch.split = splits[i];
    branch.yes = state(yes[i], yes_leaf[i]);
    branch.no = state(no[i], no_leaf[i]);
    branch.missing = missing[i] != 0;
    if (branch.test != Test::kMember) continue;
    const auto end = std::find_if(member, members.end(), [](double v) { return std::isnan(v); });
    branch.members.assign(member, end);
    member = end == members.end() ? end : end + 1;
  }
  for (size_t i = 0; i < targets.size(); ++i) forest.leaves.push_back({{targets[i], weights[i]}});
  forest.roots = n.integer_list("tree_roots");
  const int64_t aggregate = n.integer("aggregate_function", 1), transform = n.integer("post_transform", 0);
  const char* const transforms[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
  if (aggregate < 0 || aggregate > 3) n.fail("its aggregate_function is {}", aggregate);
  if (transform < 0 || transform > 4) n.fail("its post_transform is {}", transform);
  const Term scores = evaluate_forest(features(n), forest, static_cast<TreeAggregate>(aggregate));
  n.set(0, post_transformed(scores, transforms[transform]).cast(n.type(0).dtype));
}

// --- versions 1 and 3

Test test_of(NodeImport& n, const std::string& mode) {
  constexpr std::string_view kModes[] = {"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE",
                                         "BRANCH_GT",  "BRANCH_EQ", "BRANCH_NEQ"};
  const auto found = std::ranges::find(kModes, mode);
  if (found == std::end(kModes)) n.fail("a node has the mode '{}'", mode);
  return static_cast<Test>(found - std::begin(kModes));
}

/// The trees of the older ops, whose leaves' attributes begin with `leaf` ("target" or "class").
Forest read_forest(NodeImport& n, const std::string& leaf, int64_t targets) {
  const std::vector<int64_t> trees = n.integer_list("nodes_treeids"), nodes = n.integer_list("nodes_nodeids"),
                             features = n.integer_list("nodes_featureids"),
                             yes = n.integer_list("nodes_truenodeids"),
                             no = n.integer_list("nodes_falsenodeids");
  std::vector<int64_t> missing = n.integer_list("nodes_missing_value_tracks_true");
  const std::vector<std::string> modes = n.text_list("nodes_modes");
  std::vector<double> values = numbers(n, "nodes_values");
  const size_t count = nodes.size();
  missing.resize(missing.empty() ? count : missing.size(), 0);
  values.resize(values.empty() ? count : values.size(), 0);
  require_nodes(n, count, trees, features, yes, no, missing, modes, values);

  using Key = std::pair<int64_t, int64_t>;  // tree and node
  std::map<Key, int64_t> states;
  std::map<int64_t, int64_t> roots;  // the first node of each tree
  int64_t branches = std::ranges::count_if(modes, [](const std::string& mode) { return mode != "LEAF"; });
  int64_t next_branch = 0, next_leaf = branches;
  for (size_t i = 0; i < count; ++i) {
    const int64_t state = modes[i] == "LEAF" ? next_leaf++ : next_branch++;
    states[{trees[i], nodes[i]}] = state;
    roots.emplace(trees[i], state);
  }
  const auto state_of = [&](int64_t tree, int64_t node) {
    const auto found = states.find({tree, node});
    if (found == states.end()) n.fail("tree {} has no node {}", tree, node);
    return found->second;
  };
  Forest forest;
  forest.targets = targets;
  for (size_t i = 0; i < count; ++i) {
    if (modes[i] == "LEAF") continue;
    forest.branches.push_back({features[i],
                               test_of(n, modes[i]),
                               values[i],
                               {},
                               state_of(trees[i], yes[i]),
                               state_of(trees[i], no[i]),
                               missing[i] != 0});
  }
  forest.leaves.resize(count - static_cast<size_t>(branches));
  for (const auto& [tree, state] : roots) forest.roots.push_back(state);

  const auto list = [&](const char* what) { return n.integer_list((leaf + what).c_str()); };
  const std::vector<int64_t> leaf_trees = list("_treeids"), leaf_nodes = list("_nodeids"), ids = list("_ids");
  const std::vector<double> weights = numbers(n, leaf + "_weights");
  require_nodes(n, leaf_trees.size(), leaf_nodes, ids, weights);
  for (size_t i = 0; i < ids.size(); ++i) {
    const int64_t state = state_of(leaf_trees[i], leaf_nodes[i]);
    if (state < branches) n.fail("node {} of tree {} is no leaf", leaf_nodes[i], leaf_trees[i]);
    forest.leaves[static_cast<size_t>(state - branches)].emplace_back(ids[i], weights[i]);
  }
  return forest;
}

/// The scores with what the node adds to every row.
Term with_base(const Term& scores, const std::vector<double>& base) {
  if (base.empty()) return scores;
  NodeImport& n = scores.node();
  if (base.size() != 1 && provably_different(scores.dim(1), static_cast<int64_t>(base.size())))
    n.fail("has {} base_values for {} scores", base.size(), scores.dim(1).str());
  const TensorType type{DType::kF64, {static_cast<int64_t>(base.size())}};
  const Term values(n, n.constant_value(make_constant(type, base.data()), "base"));
  return scores + values.cast(scores.dtype());
}

void convert_regressor(NodeImport& n) {
  constexpr std::string_view kAggregates[] = {"AVERAGE", "SUM", "MIN", "MAX"};
  const std::string name = n.text("aggregate_function", "SUM");
  const auto found = std::ranges::find(kAggregates, name);
  if (found == std::end(kAggregates)) n.fail("its aggregate_function is '{}'", name);
  const Forest forest = read_forest(n, "target", n.integer("n_targets", 1));
  const Term scores =
      evaluate_forest(features(n), forest, static_cast<TreeAggregate>(found - std::begin(kAggregates)));
  const Term y = with_base(scores, numbers(n, "base_values"));
  n.set(0, post_transformed(y, n.text("post_transform", "NONE")).cast(DType::kF32));
}

/// Of two classes only one has weights, whose score says which it is: weights none of which is negative are
/// its probability, others its distance from the border. As ONNX Runtime has it, the score is of the second
/// class whichever the weights name; what the first one's is differs.
void classify_by_one_score(NodeImport& n, const Term& all, int64_t id, bool positive,
                           const std::string& transform) {
  Term score = all.sliced(1, id, id + 1);
  const std::vector<double> base = numbers(n, "base_values");
  if (!base.empty()) score = score + base.back();
  const Term wins = less(score.number_like(positive ? 0.5 : 0), score);
  n.set(0, labels_at(wins.cast(DType::kI64).squeezed(1), "classlabels_int64s"));
  const Term other = id == 1 ? score * 0 : positive && transform == "NONE" ? 1 - score : -score;
  n.set(1, post_transformed(concatenated({other, score}, 1), transform).cast(DType::kF32));
}

void convert_classifier(NodeImport& n) {
  const int64_t labels = label_count(n, "classlabels_int64s");
  if (labels == 0) n.fail("has neither classlabels_int64s nor classlabels_strings");
  const Forest forest = read_forest(n, "class", labels);
  const std::vector<int64_t> ids = n.integer_list("class_ids");
  const Term scores = evaluate_forest(features(n), forest, TreeAggregate::kSum);
  const std::string transform = n.text("post_transform", "NONE");
  const bool one_id = !ids.empty() && std::ranges::all_of(ids, [&](int64_t id) { return id == ids[0]; });
  if (one_id && labels == 2) {
    const std::vector<double> weights = numbers(n, "class_weights");
    const bool positive = std::ranges::all_of(weights, [](double w) { return w >= 0; });
    return classify_by_one_score(n, scores, ids[0], positive, transform);
  }
  const Term y = with_base(scores, numbers(n, "base_values"));
  n.set(0, chosen_labels(y, "classlabels_int64s"));
  n.set(1, post_transformed(y, transform).cast(DType::kF32));
}

}  // namespace

void add_tree_converters(ConverterTable& table) {
  table.push_back({"TreeEnsemble", 5, convert_tree_ensemble, kClassical});
  table.push_back({"TreeEnsembleRegressor", 1, convert_regressor, kClassical});
  table.push_back({"TreeEnsembleClassifier", 1, convert_classifier, kClassical});
}

}  // namespace gantry
