// Ensembles of trees, against walks down random trees; and what they have in common with other classifiers.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <stdexcept>

#include "host/ops/trees.h"
#include "tests/onnx/classical.h"

namespace gantry {
namespace {

using namespace classical;  // NOLINT
using ::testing::HasSubstr;

struct Tree {
  struct Node {
    bool leaf = true;
    size_t feature = 0, test = 0, yes = 0, no = 0, target = 0;
    double split = 0, weight = 0;
    bool missing = false;
  };
  std::vector<Node> nodes;
};

constexpr size_t kFeatures = 3, kTargets = 2;

size_t grow(Tree& tree, std::mt19937& random, int depth) {
  const size_t at = tree.nodes.size();
  tree.nodes.emplace_back();
  const auto eighths = [&] { return static_cast<double>(static_cast<int64_t>(random() % 33) - 16) / 8; };
  if (depth == 0 || random() % 4 == 0) {
    tree.nodes[at].target = random() % kTargets;
    tree.nodes[at].weight = eighths();
    return at;
  }
  Tree::Node node{.leaf = false, .feature = random() % kFeatures, .test = random() % 6, .split = eighths()};
  node.missing = random() % 2 == 0;
  node.yes = grow(tree, random, depth - 1);
  node.no = grow(tree, random, depth - 1);
  tree.nodes[at] = node;
  return at;
}

bool passes(const Tree::Node& node, double x) {
  if (std::isnan(x) && node.missing) return true;
  switch (node.test) {
    case 0:
      return x <= node.split;
    case 1:
      return x < node.split;
    case 2:
      return x >= node.split;
    case 3:
      return x > node.split;
    case 4:
      return x == node.split;
    default:
      return x != node.split;
  }
}

const Tree::Node& leaf_of(const Tree& tree, const double* x) {
  size_t at = 0;
  while (!tree.nodes[at].leaf)
    at = passes(tree.nodes[at], x[tree.nodes[at].feature]) ? tree.nodes[at].yes : tree.nodes[at].no;
  return tree.nodes[at];
}

std::vector<Tree> forest(uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Tree> trees(4);
  for (Tree& tree : trees) grow(tree, random, 4);
  return trees;
}
/// Trees from a leaf alone to paths of 9 branches.
std::vector<Tree> uneven_forest(uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Tree> trees(21);
  for (size_t i = 0; i < trees.size(); ++i) grow(trees[i], random, static_cast<int>(i * 3 % 10));
  return trees;
}

/// Rows with values at which trees split, and with NaN.
Given rows() {
  Given x = random({20, kFeatures}, 3);
  for (size_t i = 0; i < x.values.size(); ++i) {
    x.values[i] = std::round(x.values[i] * 8) / 8;
    if (i % 11 == 0) x.values[i] = std::nan("");
  }
  return x;
}

/// SUM, AVERAGE, MIN or MAX of what the leaves add.
Values expected_scores(const std::vector<Tree>& trees, const Given& x, const std::string& aggregate) {
  Values scores;
  for (size_t row = 0; row < x.values.size() / kFeatures; ++row) {
    std::vector<Values> met(kTargets);
    for (const Tree& tree : trees) {
      const Tree::Node& leaf = leaf_of(tree, &x.values[row * kFeatures]);
      met[leaf.target].push_back(leaf.weight);
    }
    for (const Values& weights : met) {
      double total = 0;
      for (double w : weights) total += w;
      if (aggregate == "AVERAGE") total /= static_cast<double>(trees.size());
      if (aggregate == "MIN") total = weights.empty() ? 0 : *std::ranges::min_element(weights);
      if (aggregate == "MAX") total = weights.empty() ? 0 : *std::ranges::max_element(weights);
      scores.push_back(total);
    }
  }
  return scores;
}

/// The trees in the attributes of the older ops.
std::string older_attributes(const std::vector<Tree>& trees, const std::string& leaf) {
  const char* const modes[] = {"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE",
                               "BRANCH_GT",  "BRANCH_EQ", "BRANCH_NEQ"};
  std::vector<int64_t> tree_ids, node_ids, features, yes, no, missing, leaf_trees, leaf_nodes, targets;
  Values splits, weights;
  std::string kinds = "type: STRINGS ";
  for (size_t t = 0; t < trees.size(); ++t) {
    for (size_t i = 0; i < trees[t].nodes.size(); ++i) {
      const Tree::Node& node = trees[t].nodes[i];
      tree_ids.push_back(static_cast<int64_t>(t));
      node_ids.push_back(static_cast<int64_t>(i));
      features.push_back(static_cast<int64_t>(node.feature));
      yes.push_back(static_cast<int64_t>(node.yes));
      no.push_back(static_cast<int64_t>(node.no));
      missing.push_back(node.missing ? 1 : 0);
      splits.push_back(node.split);
      kinds += fmt::format("strings: '{}' ", node.leaf ? "LEAF" : modes[node.test]);
      if (!node.leaf) continue;
      leaf_trees.push_back(static_cast<int64_t>(t));
      leaf_nodes.push_back(static_cast<int64_t>(i));
      targets.push_back(static_cast<int64_t>(node.target));
      weights.push_back(node.weight);
    }
  }
  return integers("nodes_treeids", tree_ids) + integers("nodes_nodeids", node_ids) +
         integers("nodes_featureids", features) + integers("nodes_truenodeids", yes) +
         integers("nodes_falsenodeids", no) + integers("nodes_missing_value_tracks_true", missing) +
         floats("nodes_values", splits) + attribute("nodes_modes", kinds) +
         integers(leaf + "_treeids", leaf_trees) + integers(leaf + "_nodeids", leaf_nodes) +
         integers(leaf + "_ids", targets) + floats(leaf + "_weights", weights);
}

TEST(TreeEnsembleRegressor, IsWhatTheLeavesOfARowAddUpTo) {
  const Given x = rows();
  for (const char* aggregate : {"SUM", "AVERAGE", "MIN", "MAX"}) {
    for (uint32_t seed = 1; seed <= 4; ++seed) {
      SCOPED_TRACE(fmt::format("{} {}", aggregate, seed));
      const auto trees = forest(seed);
      const auto y = run("TreeEnsembleRegressor",
                         older_attributes(trees, "target") + integer("n_targets", kTargets) +
                             text("aggregate_function", aggregate),
                         {{"x", x}});
      expect_near(y[0], expected_scores(trees, x, aggregate), 1e-6);
    }
  }
}

TEST(TreeEnsembleRegressor, TreesMayBeOfAnyDepths) {
  const Given x = rows();
  for (const char* aggregate : {"SUM", "AVERAGE", "MIN", "MAX"}) {
    SCOPED_TRACE(aggregate);
    const auto trees = uneven_forest(9);
    const auto y = run("TreeEnsembleRegressor",
                       older_attributes(trees, "target") + integer("n_targets", kTargets) +
                           text("aggregate_function", aggregate),
                       {{"x", x}});
    expect_near(y[0], expected_scores(trees, x, aggregate), 1e-5);
  }
}

/// The node that walks down the trees, of a graph that has one.
const Node& walk_of(const Graph& graph) {
  for (const Node* node : graph.main.nodes())
    if (node->is(op::tree_ensemble)) return *node;
  throw std::runtime_error("the graph has no trees");
}

/// A regressor of rows whose numbers of rows and features are open.
Graph open_regressor(const std::vector<Tree>& trees, int type) {
  const std::string model =
      "ir_version: 8 " + kOpsets + " graph { name: 'g' " + open_input("x", "N F", type) +
      node("TreeEnsembleRegressor", "x", "y",
           kDomain + older_attributes(trees, "target") + integer("n_targets", kTargets)) +
      "output { name: 'y' } }";
  onnx::ModelProto proto;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(model, &proto)) << model;
  return import_onnx_bytes(proto.SerializeAsString(), ".");
}

TEST(TreeEnsembleRegressor, TablesHoldEachNodeOnceInNarrowTypes) {
  const auto trees = uneven_forest(2);
  int64_t branches = 0, leaves = 0;
  for (const Tree& tree : trees)
    for (const Tree::Node& node : tree.nodes) ++(node.leaf ? leaves : branches);
  const Graph graph = open_regressor(trees, 1);
  const Node& walk = walk_of(graph);
  const auto type = [&](size_t i) { return walk.inputs.at(i)->type; };
  EXPECT_EQ(type(1), (TensorType{DType::kI32, {21, 4}}));
  EXPECT_EQ(type(2), (TensorType{DType::kI16, {branches}}));
  EXPECT_EQ(type(3), (TensorType{DType::kF32, {branches}}));
  EXPECT_EQ(type(4), (TensorType{DType::kI16, {branches, 2}}));
  EXPECT_LE(type(5).shape[0].value(), leaves);
  EXPECT_EQ(walk.inputs.at(6), nullptr);  // a weight each
  EXPECT_EQ(type(7), (TensorType{DType::kI16, type(5).shape}));
  EXPECT_EQ(graph.main.outputs[0]->type.str(), "Tensor[(N, 2), f32]");
}

TEST(TreeEnsembleRegressor, DoublesAreComparedAsTheyAre) {
  const Graph graph = open_regressor(uneven_forest(2), 11);
  EXPECT_EQ(walk_of(graph).inputs.at(3)->type.dtype, DType::kF64);
  EXPECT_EQ(walk_of(graph).inputs.at(5)->type.dtype, DType::kF64);
}

TEST(TreeEnsembleRegressor, NeedsTheFeaturesThatItsTreesAskFor) {
  Tree tree;
  tree.nodes = {{.leaf = false, .feature = 40000, .yes = 1, .no = 2}, {.weight = 1}, {.weight = 2}};
  const Graph graph = open_regressor({tree}, 1);
  EXPECT_EQ(walk_of(graph).inputs.at(2)->type.dtype, DType::kI32);  // no i16 holds it
  ASSERT_EQ(graph.main.constraints.size(), 1U);
  const auto& [left, right, origin] = graph.main.constraints.front();
  for (const int64_t features : {40000, 40001}) {
    const std::map<std::string, int64_t> sizes{{"F", features}};
    EXPECT_EQ(left.evaluate(sizes) == right.evaluate(sizes), features == 40001) << features;
  }
}

TEST(TreeEnsembleClassifier, TakesTheClassOfTheHighestScore) {
  const Given x = rows();
  const auto trees = forest(5);
  const auto y = run("TreeEnsembleClassifier",
                     older_attributes(trees, "class") + integers("classlabels_int64s", {30, 40}) +
                         floats("base_values", {0.25, 0}),
                     {{"x", x}}, "label scores");
  Values scores = expected_scores(trees, x, "SUM"), labels;
  for (size_t i = 0; i < scores.size(); i += 2) {
    scores[i] += 0.25;
    labels.push_back(scores[i] >= scores[i + 1] ? 30 : 40);
  }
  expect_near(y[1], scores, 1e-6);
  expect_near(y[0], labels, 0);
}

/// -1 where the feature is at most 0, else 2.
Tree stump() {
  Tree tree;
  tree.nodes = {{.leaf = false, .yes = 1, .no = 2}, {.weight = -1}, {.weight = 2}};
  return tree;
}

TEST(TreeEnsembleClassifier, OfOneLabelSaysWhetherTheScoreIsPositive) {
  const std::string model = older_attributes({stump()}, "class") + integers("classlabels_int64s", {1});
  const auto y = run("TreeEnsembleClassifier", model, {{"x", {{3, 1}, {-1, 1, 0}}}}, "label scores");
  expect_near(y[0], {0, 1, 0}, 0);
  expect_near(y[1], {-1, 2, -1}, 0);
}

TEST(TreeEnsemble, TestsOfMembershipPassForMembersAlone) {
  // One branch: feature 1 in {2, 5}, leaves 10 and 20 of targets 1 and 0.
  const std::string attributes =
      integers("nodes_featureids", {1}) + integers("nodes_truenodeids", {0}) +
      integers("nodes_falsenodeids", {1}) + integers("nodes_trueleafs", {1}) +
      integers("nodes_falseleafs", {1}) + integers("leaf_targetids", {1, 0}) + integers("tree_roots", {0}) +
      integer("n_targets", 2) + tensor("nodes_splits", 1, {0}) + tensor("nodes_modes", 2, {6}) +
      tensor("leaf_weights", 1, {10, 20}) + tensor("membership_values", 1, {2, 5, std::nan("")});
  const auto y = run("TreeEnsemble", attributes, {{"x", {{4, 2}, {2, 1, 0, 2, 0, 5, 5, 3}}}});
  expect_near(y[0], {20, 0, 0, 10, 0, 10, 20, 0}, 0);
}

TEST(TreeEnsemble, SetsHaveAnyNumbersOfMembersAndNanIsInNone) {
  // Feature 0 in a set of seven, else feature 1 in one of two or missing.
  const Values many{3, -1, 0.5, 8, 3, 2, 0, -4}, few{1, -2};
  Values members = many;
  members.push_back(std::nan(""));
  members.insert(members.end(), few.begin(), few.end());
  members.push_back(std::nan(""));
  const std::string attributes =
      integers("nodes_featureids", {0, 1}) + integers("nodes_truenodeids", {0, 1}) +
      integers("nodes_falsenodeids", {1, 2}) + integers("nodes_trueleafs", {1, 1}) +
      integers("nodes_falseleafs", {0, 1}) + integers("nodes_missing_value_tracks_true", {0, 1}) +
      integers("leaf_targetids", {0, 0, 0}) + integers("tree_roots", {0}) +
      tensor("nodes_splits", 1, {0, 0}) + tensor("nodes_modes", 2, {6, 6}) +
      tensor("leaf_weights", 1, {1, 2, 4}) + tensor("membership_values", 1, members);
  Given x{{0, 2}, {}};
  Values wanted;
  const auto has = [](const Values& set, double v) { return std::ranges::find(set, v) != set.end(); };
  for (const double second : {1.0, -2.0, 0.0, -3.0, 5.0, std::nan("")}) {
    for (double first = -5; first <= 9; first += 0.5) {
      const double value = first == 9 ? std::nan("") : first;
      x.values.insert(x.values.end(), {value, second});
      ++x.shape[0];
      wanted.push_back(has(many, value) ? 1 : has(few, second) || std::isnan(second) ? 2 : 4);
    }
  }
  expect_near(run("TreeEnsemble", attributes, {{"x", x}})[0], wanted, 0);
}

TEST(TreeEnsemble, TreesMayHaveBranchesInCommon) {
  // Branch 0: feature 0 <= 0 ? branch 1 : leaf 0. Branch 1: feature 1 <= 0 ? leaf 1 : leaf 2. Two trees begin
  // in it.
  const std::string attributes =
      integers("nodes_featureids", {0, 1}) + integers("nodes_truenodeids", {1, 1}) +
      integers("nodes_falsenodeids", {0, 2}) + integers("nodes_trueleafs", {0, 1}) +
      integers("nodes_falseleafs", {1, 1}) + integers("leaf_targetids", {0, 0, 0}) +
      integers("tree_roots", {0, 1, 1}) + tensor("nodes_splits", 1, {0, 0}) +
      tensor("nodes_modes", 2, {0, 0}) + tensor("leaf_weights", 1, {1, 10, 100});
  const auto y = run("TreeEnsemble", attributes, {{"x", {{4, 2}, {-1, -1, -1, 1, 1, -1, 1, 1}}}});
  expect_near(y[0], {30, 300, 21, 201}, 0);
}

TEST(TreeEnsemble, ThatComesBackToANodeIsRefused) {
  const std::string attributes =
      integers("nodes_featureids", {0, 0}) + integers("nodes_truenodeids", {1, 0}) +
      integers("nodes_falsenodeids", {0, 0}) + integers("nodes_trueleafs", {0, 0}) +
      integers("nodes_falseleafs", {1, 1}) + integers("leaf_targetids", {0}) + integers("tree_roots", {0}) +
      tensor("nodes_splits", 1, {0, 0}) + tensor("nodes_modes", 2, {0, 0}) + tensor("leaf_weights", 1, {1});
  EXPECT_THROW(run("TreeEnsemble", attributes, {{"x", {{1, 1}, {0}}}}), Error);
}

TEST(Classifiers, OfOneLabelOtherThan1AreRefused) {
  const Inputs x{{"x", {{2, 1}, {1, -1}}}};
  const auto expect_refused = [&](const char* op, const std::string& attributes) {
    EXPECT_THAT(error_of(op, attributes, x), HasSubstr("a single class label other than 1")) << op;
  };
  const std::string linear = floats("coefficients", {0.5}), tree = older_attributes({stump()}, "class");
  const std::string word = attribute("classlabels_strings", "type: STRINGS strings: 'a'");
  for (const std::string& labels : {integers("classlabels_ints", {7}), word}) {
    expect_refused("LinearClassifier", linear + labels);
    expect_refused("SVMClassifier", linear + floats("rho", {0.25}) + labels);
  }
  for (const std::string& labels : {integers("classlabels_int64s", {7}), word})
    expect_refused("TreeEnsembleClassifier", tree + labels);
}

}  // namespace
}  // namespace gantry
