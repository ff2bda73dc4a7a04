// Ops of ai.onnx.ml and TfIdfVectorizer, against their definitions on random models.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <stdexcept>

#include "host/ops/trees.h"
#include "host/support/error.h"
#include "tests/onnx/model_text.h"
#include "tests/onnx/one_node.h"

namespace gantry {
namespace {

using namespace model_text;  // NOLINT
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::OneNode;
using Values = std::vector<double>;

constexpr int64_t kWide = (int64_t{1} << 53) + 1;  ///< no double is that number
constexpr const char* kDomain = "domain: 'ai.onnx.ml' ";
const std::string kOpsets = "opset_import { version: 18 } opset_import { domain: 'ai.onnx.ml' version: 5 } ";

std::string floats(const std::string& name, const Values& values) {
  return attribute(name, fmt::format("type: FLOATS floats: [{}]", fmt::join(values, ", ")));
}
std::string integers(const std::string& name, const std::vector<int64_t>& values) {
  return attribute(name, fmt::format("type: INTS ints: [{}]", fmt::join(values, ", ")));
}
std::string text(const std::string& name, const std::string& value) {
  return attribute(name, fmt::format("type: STRING s: '{}'", value));
}
std::string tensor(const std::string& name, int type, const Values& values) {
  std::string bytes = fmt::format("type: TENSOR t {{ data_type: {} dims: {} ", type, values.size());
  for (double v : values)
    bytes += std::isnan(v) ? "float_data: nan "
                           : fmt::format("{}: {} ", type == 1 ? "float_data" : "int32_data", v);
  return attribute(name, bytes + "}");
}

/// All outputs of one node of ai.onnx.ml.
std::vector<Values> run(const std::string& op, const std::string& attributes, const Inputs& inputs,
                        const std::string& outputs = "y") {
  std::string names;
  for (const auto& [name, given] : inputs) names += name + " ";
  return results(parse(node(op, names, outputs, kDomain + attributes), inputs, outputs, kOpsets), inputs);
}

/// As the first result of run(), elements of i64 exactly.
std::vector<int64_t> run_whole(const std::string& op, const std::string& attributes, const Inputs& inputs) {
  std::string names;
  std::vector<ConstantPtr> data;
  for (const auto& [name, given] : inputs) {
    names += name + " ";
    data.push_back(given.constant());
  }
  const onnx::ModelProto model = parse(node(op, names, "y", kDomain + attributes), inputs, "y", kOpsets);
  const Graph graph = import_onnx_bytes(model.SerializeAsString(), ".");
  const ConstantPtr y = testing::interpret_function(graph.main, data).at(0);
  EXPECT_EQ(y->type.dtype, DType::kI64);
  return {y->as<int64_t>(), y->as<int64_t>() + y->size / sizeof(int64_t)};
}

/// What is said to be wrong with one node of ai.onnx.ml.
std::string error_of(const std::string& op, const std::string& attributes, const Inputs& inputs) {
  try {
    run(op, attributes, inputs);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// --- trees

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

// --- labels, linear models

TEST(LabelEncoder, LooksEveryElementUp) {
  const Inputs x{{"x", {{2, 3}, {3, 1, 7, 2, 1, 0}, DType::kI64}}};
  const std::string keys = integers("keys_int64s", {1, 2, 3});
  expect_near(run("LabelEncoder",
                  keys + integers("values_int64s", {10, -20, 30}) + integer("default_int64", 5), x)[0],
              {30, 10, 5, -20, 10, 5}, 0);
  expect_near(run("LabelEncoder", keys + floats("values_floats", {0.5, 1.5, 2.5}), x)[0],
              {2.5, 0.5, 0, 1.5, 0.5, 0}, 0);
  expect_near(
      run("LabelEncoder", integers("keys_int64s", {1, 2, 1}) + integers("values_int64s", {10, 20, 30}), x)[0],
      {-1, 30, -1, 20, 30, -1}, 0);  // of keys that are repeated the last counts
  const Inputs y{{"x", {{3}, {1.5, std::nan(""), 2}}}};
  const std::string with_nan = attribute("keys_floats", "type: FLOATS floats: 1.5 floats: nan ");
  expect_near(run("LabelEncoder", with_nan + integers("values_int64s", {1, 2}), y)[0], {1, 2, -1}, 0);
}

TEST(LabelEncoder, HasMinusZeroAsItsDefault) {
  const Inputs x{{"x", {{2}, {1, 7}, DType::kI64}}};
  const std::string labels = integers("keys_int64s", {1}) + floats("values_floats", {0});
  const auto signs = [&](const std::string& otherwise) {
    const Values y = run("LabelEncoder", labels + otherwise, x)[0];
    expect_near(y, {0, 0}, 0);
    return std::vector<bool>{std::signbit(y[0]), std::signbit(y[1])};
  };
  EXPECT_THAT(signs(""), ElementsAre(false, true));
  EXPECT_THAT(signs(attribute("default_float", "type: FLOAT f: 0")), ElementsAre(false, false));
}

TEST(LabelEncoder, HasDefaultsOf64Bits) {
  const Inputs x{{"x", {{2}, {1, 7}, DType::kI64}}};
  const std::string labels = integers("keys_int64s", {1}) + integers("values_int64s", {kWide + 2});
  const std::string wide_tensor =
      fmt::format("type: TENSOR t {{ data_type: 7 dims: 1 int64_data: {} }}", kWide);
  for (const std::string& otherwise :
       {integer("default_int64", kWide), attribute("default_tensor", wide_tensor)})
    EXPECT_THAT(run_whole("LabelEncoder", labels + otherwise, x), ElementsAre(kWide + 2, kWide)) << otherwise;
  OneNode mapper("ai.onnx.ml", "CategoryMapper", 16);
  mapper.texts({2}, {"cat", "cow"}).with_texts("cats_strings", {"cat"}).with_list("cats_int64s", {kWide + 2});
  EXPECT_THAT(mapper.with("default_int64", kWide).run<int64_t>(DType::kI64), ElementsAre(kWide + 2, kWide));
}

TEST(LabelEncoder, WhoseDefaultIsNotOneElementOfItsValuesIsRefused) {
  const Inputs x{{"x", {{2}, {1, 7}, DType::kI64}}};
  const std::string keys = integers("keys_int64s", {1}), numbers = integers("values_int64s", {2});
  const std::string texts = attribute("values_strings", "type: STRINGS strings: 'a'");
  const std::string none = "data_type: 7 dims: 0", two = "data_type: 7 dims: 2 int64_data: [1, 2]",
                    word = "data_type: 8 dims: 1 string_data: 'a'";
  const auto error = [&](const std::string& values, const std::string& given) {
    const std::string otherwise = attribute("default_tensor", "type: TENSOR t { " + given + " }");
    return error_of("LabelEncoder", keys + values + otherwise, x);
  };
  for (const std::string& given : {none, two, word})
    EXPECT_THAT(error(numbers, given), HasSubstr("its default_tensor Tensor[(")) << given;
  EXPECT_THAT(error(numbers, none), HasSubstr("should be one number"));
  EXPECT_THAT(error(texts, none), HasSubstr("should be one text"));
}

TEST(LabelEncoder, WhoseKeysAreNoTensorIsRefused) {
  const Inputs x{{"x", {{2}, {1, 7}, DType::kI64}}};
  const std::string attributes = attribute("keys_tensor", "type: TENSOR") + integers("values_int64s", {2});
  EXPECT_THAT(error_of("LabelEncoder", attributes, x),
              HasSubstr("its attribute keys_tensor holds no tensor"));
}

TEST(LinearClassifier, OfOneScoreSaysBothClasses) {
  const Inputs x{{"x", {{3, 2}, {1, 2, -1, 0.5, 0.25, -2}}}};
  const auto y = run("LinearClassifier",
                     floats("coefficients", {0.5, 0.25}) + floats("intercepts", {-0.125}) +
                         integers("classlabels_ints", {7, 9}) + text("post_transform", "LOGISTIC"),
                     x, "label scores");
  Values scores, labels;
  for (size_t row = 0; row < 3; ++row) {
    const Values& v = x[0].second.values;
    const double s = v[row * 2] * 0.5 + v[row * 2 + 1] * 0.25 - 0.125;
    scores.push_back(1 / (1 + std::exp(s)));
    scores.push_back(1 / (1 + std::exp(-s)));
    labels.push_back(s > 0 ? 9 : 7);
  }
  expect_near(y[0], labels, 0);
  expect_near(y[1], scores, 1e-6);
}

TEST(LinearClassifier, OfOneLabelSaysWhetherTheScoreIsPositive) {
  const Inputs x{{"x", {{3, 1}, {2, -1, 0}}}};
  const auto y = run("LinearClassifier", floats("coefficients", {0.5}) + integers("classlabels_ints", {1}), x,
                     "label scores");
  expect_near(y[0], {1, 0, 0}, 0);
  expect_near(y[1], {1, -0.5, 0}, 0);
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

TEST(Binarizer, ComparesIntegersWithFractions) {
  const Inputs x{{"x", {{3}, {-1, 0, 1}, DType::kI64}}};
  const auto above = [&](const char* threshold) {
    return run("Binarizer", attribute("threshold", fmt::format("type: FLOAT f: {}", threshold)), x)[0];
  };
  expect_near(above("-0.5"), {0, 1, 1}, 0);
  expect_near(above("0.5"), {0, 0, 1}, 0);
  expect_near(above("-1"), {0, 1, 1}, 0);
}

// The least and the largest i32 are -2^31 and 2^31 - 1.
TEST(Binarizer, ComparesIntegersWithThresholdsBeyondThem) {
  constexpr double kLeast = -0x1p31, kMost = 0x1p31 - 1;
  const Inputs x{{"x", {{4}, {kLeast, -1, 1, kMost}, DType::kI32}}};
  const std::pair<const char*, Values> cases[] = {
      {"-4294967296", {1, 1, 1, 1}}, {"-inf", {1, 1, 1, 1}},       {"-2147483648", {0, 1, 1, 1}},
      {"2147483648", {0, 0, 0, 0}},  {"4294967296", {0, 0, 0, 0}}, {"inf", {0, 0, 0, 0}},
      {"nan", {0, 0, 0, 0}},
  };
  for (const auto& [threshold, expected] : cases) {
    SCOPED_TRACE(threshold);
    const std::string attributes = attribute("threshold", fmt::format("type: FLOAT f: {}", threshold));
    expect_near(run("Binarizer", attributes, x)[0], expected, 0);
  }
}

TEST(Normalizer, LeavesRowsOfZerosAsTheyAre) {
  const Inputs x{{"x", {{2, 2}, {3, -4, 0, 0}}}};
  expect_near(run("Normalizer", text("norm", "L2"), x)[0], {0.6, -0.8, 0, 0}, 1e-6);
  expect_near(run("Normalizer", text("norm", "L1"), x)[0], {3.0 / 7, -4.0 / 7, 0, 0}, 1e-6);
  expect_near(run("Normalizer", text("norm", "MAX"), x)[0], {1, -4.0 / 3, 0, 0}, 1e-6);
}

TEST(Imputer, FillsWhatIsMissing) {
  const Inputs x{{"x", {{2, 2}, {1, std::nan(""), std::nan(""), 4}}}};
  expect_near(
      run("Imputer",
          floats("imputed_value_floats", {7, 8}) + attribute("replaced_value_float", "type: FLOAT f: nan"),
          x)[0],
      {1, 8, 7, 4}, 0);
}

TEST(Imputer, FillsIntegersOf64Bits) {
  OneNode imputer("ai.onnx.ml", "Imputer", 16);
  imputer.input<int64_t>(DType::kI64, {2, 2}, {kWide, kWide, kWide - 1, 4});
  imputer.with("replaced_value_int64", kWide).with_list("imputed_value_int64s", {kWide + 2, kWide + 4});
  EXPECT_THAT(imputer.run<int64_t>(DType::kI64), ElementsAre(kWide + 2, kWide + 4, kWide - 1, 4));
}

TEST(FeatureVectorizer, CutsAndFillsItsInputs) {
  const Inputs x{{"a", {{2, 2}, {1, 2, 3, 4}}}, {"b", {{2, 1}, {5, 6}}}};
  expect_near(run("FeatureVectorizer", integers("inputdimensions", {1, 3}), x)[0], {1, 5, 0, 0, 3, 6, 0, 0},
              0);
}

TEST(FeatureVectorizer, TakesVectorsAsRows) {
  const Inputs x{{"a", {{3}, {1, 2, 3}}}, {"b", {{2}, {4, 5}}}};
  expect_near(run("FeatureVectorizer", integers("inputdimensions", {3, 2}), x)[0], {1, 2, 3, 4, 5}, 0);
}

TEST(OneHotEncoder, WarnsWhereACategoryThatItDoesNotListShouldBeAnError) {
  const Inputs x{{"x", {{3}, {5, 7, 6}, DType::kI64}}};
  const auto warnings_of = [&](const std::string& attributes) {
    const std::string encoder =
        node("OneHotEncoder", "x", "y", kDomain + integers("cats_int64s", {5, 6}) + attributes);
    std::vector<std::string> warnings;
    ImportOptions options;
    options.warn = [&](const std::string& warning) { warnings.push_back(warning); };
    import_onnx_bytes(parse(encoder, x, "y", kOpsets).SerializeAsString(), ".", options);
    return warnings;
  };
  EXPECT_THAT(warnings_of(integer("zeros", 0)),
              ElementsAre(HasSubstr("(OneHotEncoder): an element that is none of its categories")));
  EXPECT_THAT(warnings_of(integer("zeros", 1)), ElementsAre());
  EXPECT_THAT(warnings_of(""), ElementsAre());
  expect_near(run("OneHotEncoder", integers("cats_int64s", {5, 6}) + integer("zeros", 0), x)[0],
              {1, 0, 0, 0, 0, 1}, 0);
}

// --- support vector machines

/// Three classes of two, one and two vectors of two features.
struct Machine {
  std::vector<int64_t> starts{0, 2, 3, 5};
  Values vectors = elements(10, 21), coefficients = elements(10, 22), rho{0.25, -0.125, 0.0625};
  std::string attributes() const {
    return integers("vectors_per_class", {2, 1, 2}) + floats("support_vectors", vectors) +
           floats("coefficients", coefficients) + floats("rho", rho) +
           integers("classlabels_ints", {4, 5, 6});
  }
};

double kernel_of(const std::string& kind, const double* x, const double* v) {
  const double product = x[0] * v[0] + x[1] * v[1];
  if (kind == "RBF") return std::exp(-0.5 * ((x[0] - v[0]) * (x[0] - v[0]) + (x[1] - v[1]) * (x[1] - v[1])));
  if (kind == "POLY") return std::pow(0.5 * product + 0.25, 3);
  if (kind == "SIGMOID") return std::tanh(0.5 * product + 0.25);
  return product;
}
std::string kernel_attributes(const std::string& kind) {
  return text("kernel_type", kind) + floats("kernel_params", {0.5, 0.25, 3});
}

/// The scores of the pairs (0, 1), (0, 2), (1, 2) of a row, as LIBSVM's documentation lays its coefficients
/// out.
Values pair_scores(const Machine& machine, const std::string& kind, const double* x) {
  Values scores;
  for (size_t i = 0; i < 3; ++i) {
    for (size_t j = i + 1; j < 3; ++j) {
      double total = machine.rho[scores.size()];
      const auto add = [&](size_t of, size_t against) {
        const size_t row = against > of ? against - 1 : against;
        for (auto v = static_cast<size_t>(machine.starts[of]);
             v < static_cast<size_t>(machine.starts[of + 1]); ++v)
          total += machine.coefficients[row * 5 + v] * kernel_of(kind, x, &machine.vectors[v * 2]);
      };
      add(i, j);
      add(j, i);
      scores.push_back(total);
    }
  }
  return scores;
}

TEST(SvmClassifier, TakesTheClassThatWinsMostPairs) {
  const Machine machine;
  const Given x = random({12, 2}, 5);
  for (const char* kind : {"LINEAR", "POLY", "RBF", "SIGMOID"}) {
    SCOPED_TRACE(kind);
    Values scores, labels;
    for (size_t row = 0; row < 12; ++row) {
      const Values s = pair_scores(machine, kind, &x.values[row * 2]);
      const int votes[] = {(s[0] > 0) + (s[1] > 0), (s[0] <= 0) + (s[2] > 0), (s[1] <= 0) + (s[2] <= 0)};
      labels.push_back(4 + static_cast<double>(std::max_element(votes, votes + 3) - votes));
      scores.insert(scores.end(), s.begin(), s.end());
    }
    const auto y =
        run("SVMClassifier", machine.attributes() + kernel_attributes(kind), {{"x", x}}, "label scores");
    expect_near(y[0], labels, 0);
    expect_near(y[1], scores, 1e-4);
  }
}

/// The p with the sum 1 that makes the sum over i and j of (r[j][i] p[i] - r[i][j] p[j])^2 least: three
/// equations of its gradient and a multiplier, solved by elimination.
Values coupled(const double (&r)[3][3]) {
  double m[4][5] = {{0, 0, 0, 1, 0}, {0, 0, 0, 1, 0}, {0, 0, 0, 1, 0}, {1, 1, 1, 0, 1}};
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) {
      if (i == j) continue;
      m[i][i] += r[j][i] * r[j][i];
      m[i][j] = -r[j][i] * r[i][j];
    }
  }
  for (int c = 0; c < 4; ++c) {
    int pivot = c;
    for (int i = c; i < 4; ++i) pivot = std::abs(m[i][c]) > std::abs(m[pivot][c]) ? i : pivot;
    std::swap(m[c], m[pivot]);
    for (int i = 0; i < 4; ++i) {
      const double factor = i == c ? 0 : m[i][c] / m[c][c];
      for (int k = c; k < 5; ++k) m[i][k] -= factor * m[c][k];
    }
  }
  return {m[0][4] / m[0][0], m[1][4] / m[1][1], m[2][4] / m[2][2]};
}

TEST(SvmClassifier, CouplesTheProbabilitiesOfPairs) {
  const Machine machine;
  const Given x = random({12, 2}, 6);
  const Values a{-1.5, -0.75, -1}, b{0.25, 0, -0.5};
  Values expected;
  for (size_t row = 0; row < 12; ++row) {
    const Values s = pair_scores(machine, "RBF", &x.values[row * 2]);
    double r[3][3] = {};
    for (size_t pair = 0, i = 0; i < 3; ++i) {
      for (size_t j = i + 1; j < 3; ++j, ++pair) {
        r[i][j] = 1 / (1 + std::exp(a[pair] * s[pair] + b[pair]));
        r[j][i] = 1 - r[i][j];
      }
    }
    const Values p = coupled(r);
    expected.insert(expected.end(), p.begin(), p.end());
  }
  const auto y =
      run("SVMClassifier",
          machine.attributes() + kernel_attributes("RBF") + floats("prob_a", a) + floats("prob_b", b),
          {{"x", x}}, "label scores");
  expect_near(y[1], expected, 5e-3);  // LIBSVM's algorithm ends where gradients are within 0.005 / 3
}

TEST(SvmClassifier, OfTwoClassesHasAScoreAndItsNegative) {
  const Given x = random({6, 2}, 7);
  const Values vectors{1, 0.5, -0.25, 2}, coefficients{0.75, -1.25};
  Values scores, labels;
  for (size_t row = 0; row < 6; ++row) {
    double s = 0.125;
    for (size_t v = 0; v < 2; ++v)
      s += coefficients[v] * kernel_of("RBF", &x.values[row * 2], &vectors[v * 2]);
    scores.insert(scores.end(), {-s, s});
    labels.push_back(s > 0 ? 4 : 5);
  }
  const auto y = run("SVMClassifier",
                     integers("vectors_per_class", {1, 1}) + floats("support_vectors", vectors) +
                         floats("coefficients", coefficients) + floats("rho", {0.125}) +
                         integers("classlabels_ints", {4, 5}) + kernel_attributes("RBF"),
                     {{"x", x}}, "label scores");
  expect_near(y[0], labels, 0);
  expect_near(y[1], scores, 1e-5);
}

TEST(SvmClassifier, OfOneLabelSaysWhetherTheScoreIsPositive) {
  const std::string machine =
      floats("coefficients", {0.5}) + floats("rho", {-0.25}) + integers("classlabels_ints", {1});
  const auto y = run("SVMClassifier", machine, {{"x", {{3, 1}, {1, 0, 0.5}}}}, "label scores");
  expect_near(y[0], {1, 0, 0}, 0);
  expect_near(y[1], {0.25, -0.25, 0}, 0);
}

TEST(SvmRegressor, AddsKernelsUp) {
  const Given x = random({6, 2}, 8);
  const Values vectors{1, 0.5, -0.25, 2}, coefficients{0.75, -1.25};
  for (const char* kind : {"LINEAR", "POLY", "RBF", "SIGMOID"}) {
    SCOPED_TRACE(kind);
    Values expected, sides;
    for (size_t row = 0; row < 6; ++row) {
      double y = -0.0625;
      for (size_t v = 0; v < 2; ++v)
        y += coefficients[v] * kernel_of(kind, &x.values[row * 2], &vectors[v * 2]);
      expected.push_back(y);
      sides.push_back(y > 0 ? 1 : -1);
    }
    const std::string attributes = floats("support_vectors", vectors) + floats("coefficients", coefficients) +
                                   floats("rho", {-0.0625}) + integer("n_supports", 2) +
                                   kernel_attributes(kind);
    expect_near(run("SVMRegressor", attributes, {{"x", x}})[0], expected, 1e-4);
    expect_near(run("SVMRegressor", attributes + integer("one_class", 1), {{"x", x}})[0], sides, 0);
  }
  const auto linear =
      run("SVMRegressor", floats("coefficients", {0.5, -0.25}) + floats("rho", {1}), {{"x", x}});
  for (size_t row = 0; row < 6; ++row)
    EXPECT_NEAR(linear[0][row], x.values[row * 2] * 0.5 - x.values[row * 2 + 1] * 0.25 + 1, 1e-5);
}

TEST(SvmClassifier, WithListsThatContradictEachOtherIsRefused) {
  const Machine machine;
  const Inputs x{{"x", random({2, 2}, 9)}}, wide{{"x", random({2, 3}, 9)}};
  EXPECT_THROW(run("SVMClassifier", machine.attributes() + floats("prob_a", {1}), x, "label scores"), Error);
  EXPECT_THROW(run("SVMClassifier", machine.attributes(), wide, "label scores"), Error);
  EXPECT_THROW(run("SVMClassifier", integers("classlabels_ints", {4, 5}), x, "label scores"), Error);
}

// --- maps

TEST(ZipMap, IsTheMatrixOfWhatItsMapsHold) {
  const Inputs x{{"x", {{2, 3}, {1, 2, 3, 4, 5, 6}}}};
  expect_near(run("ZipMap", integers("classlabels_int64s", {7, 8, 9}), x)[0], {1, 2, 3, 4, 5, 6}, 0);
  EXPECT_THROW(run("ZipMap", integers("classlabels_int64s", {7, 8}), x), Error);
}

TEST(ZipMap, OpenColumnsAreAsManyAsItsLabels) {
  const Graph graph = imported_graph(
      open_input("x", "N C") + node("ZipMap", "x", "y", kDomain + integers("classlabels_int64s", {7, 8})),
      "y");
  ASSERT_EQ(graph.main.constraints.size(), 1U);
  const auto& [left, right, origin] = graph.main.constraints.front();
  for (const int64_t columns : {1, 2, 3}) {
    const std::map<std::string, int64_t> sizes{{"C", columns}};
    EXPECT_EQ(left.evaluate(sizes) == right.evaluate(sizes), columns == 2) << columns;
  }
}

// --- n-grams

/// How often the n-gram occurs with its items `skip` further apart than neighbours.
double occurrences(const Values& row, const std::vector<int64_t>& gram, int64_t skips) {
  double count = 0;
  for (int64_t distance = 1; distance <= (gram.size() == 1 ? 1 : skips + 1); ++distance) {
    const auto reach = (static_cast<int64_t>(gram.size()) - 1) * distance;
    for (int64_t at = 0; at + reach < static_cast<int64_t>(row.size()); ++at) {
      bool same = true;
      for (size_t k = 0; k < gram.size(); ++k)
        same = same && row[static_cast<size_t>(at + static_cast<int64_t>(k) * distance)] ==
                           static_cast<double>(gram[k]);
      count += same ? 1 : 0;
    }
  }
  return count;
}

TEST(TfIdfVectorizer, CountsNGramsWithTheirWeights) {
  const std::vector<std::vector<int64_t>> grams{{1}, {2}, {1, 2}, {2, 2}, {0, 1}, {1, 2, 0}};
  const std::vector<int64_t> columns{3, 0, 5, 2, 2, 6};  // one of two n-grams, two of none
  const Values weights{0.5, 2, 3, 0.25, 4, 1.5};
  Given x{{2, 12}, {}, DType::kI64};
  std::mt19937 random(4);
  for (int i = 0; i < 24; ++i) x.values.push_back(static_cast<double>(random() % 3));
  const std::string pool = integers("pool_int64s", {1, 2, 1, 2, 2, 2, 0, 1, 1, 2, 0}) +
                           integers("ngram_counts", {0, 2, 8}) + integers("ngram_indexes", columns) +
                           floats("weights", weights) + integer("min_gram_length", 1) +
                           integer("max_gram_length", 2) + integer("max_skip_count", 2);
  for (const std::string mode : {"TF", "IDF", "TFIDF"}) {
    Values expected(2 * 7, 0);
    for (size_t row = 0; row < 2; ++row) {
      const Values items(x.values.begin() + static_cast<std::ptrdiff_t>(row * 12),
                         x.values.begin() + static_cast<std::ptrdiff_t>(row * 12 + 12));
      for (size_t g = 0; g + 1 < grams.size(); ++g) {  // the last one is too long
        const double count = occurrences(items, grams[g], 2);
        expected[row * 7 + static_cast<size_t>(columns[g])] += mode == "TF"    ? count
                                                               : mode == "IDF" ? (count > 0 ? weights[g] : 0)
                                                                               : count * weights[g];
      }
    }
    const Inputs inputs{{"x", x}};
    const auto y = results(
        parse(node("TfIdfVectorizer", "x", "y", pool + text("mode", mode)), inputs, "y", kOpsets), inputs);
    expect_near(y[0], expected, 1e-6);
  }
}

TEST(TfIdfVectorizer, SkipsNoMoreItemsThanARowHas) {
  const Inputs x{{"x", {{8}, {1, 0, 2, 1, 2, 0, 0, 2}, DType::kI64}}};
  const std::string pairs = integers("pool_int64s", {1, 2}) + integers("ngram_counts", {0, 0}) +
                            integers("ngram_indexes", {0}) + integer("min_gram_length", 2) +
                            integer("max_gram_length", 2) + text("mode", "TF");
  const auto vectorizer = [&](int64_t skips) {
    return node("TfIdfVectorizer", "x", "y", pairs + integer("max_skip_count", skips));
  };
  const auto counted = [&](int64_t skips) {
    return results(parse(vectorizer(skips), x, "y", kOpsets), x)[0];
  };
  // 2 comes after 1 at the distances 2, 4, 7, 1 and 4.
  expect_near(counted(int64_t{1} << 40), {5}, 0);
  expect_near(counted(3), {4}, 0);
  try {
    imported_graph(open_input("x", "N", 7) + vectorizer(int64_t{1} << 40), "y");
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("a max_skip_count above 1024"));
  }
}

TEST(TfIdfVectorizer, MoreColumnsThanAnyMemoryHoldsAreRefused) {
  const Inputs x{{"x", {{3}, {1, 2, 2}, DType::kI64}}};
  const auto imported = [&](const std::vector<int64_t>& columns, const ImportOptions& options) {
    const std::string vectorizer = node(
        "TfIdfVectorizer", "x", "y",
        integers("pool_int64s", {1, 2}) + integers("ngram_counts", {0}) + integers("ngram_indexes", columns) +
            integer("min_gram_length", 1) + integer("max_gram_length", 1) + text("mode", "TF"));
    return import_onnx_bytes(parse(vectorizer, x, "y", kOpsets).SerializeAsString(), ".", options);
  };
  const auto expect_refused = [&](const std::vector<int64_t>& columns, const ImportOptions& options) {
    try {
      imported(columns, options);
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUser);
      EXPECT_THAT(error.what(), HasSubstr("node y (TfIdfVectorizer): "));
    }
  };
  for (const int64_t last : {int64_t{1} << 33, int64_t{1} << 62, std::numeric_limits<int64_t>::max()})
    expect_refused({0, last}, {});
  // A table of ten columns for each n-gram of the last.
  ImportOptions options;
  options.constant_budget = 2 * 10 * 8;
  EXPECT_NO_THROW(imported({9, 9}, options));
  options.constant_budget -= 1;
  expect_refused({9, 9}, options);
}

}  // namespace
}  // namespace gantry
