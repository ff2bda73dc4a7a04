// Walks down decision trees, for CPUs and GPUs, against walks down trees of nodes in float64.
#include "host/ops/trees.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <span>

#include "host/loops/evaluate.h"
#include "host/loops/lower.h"
#include "host/ops/op.h"
#include "tests/ops/run_nests.h"
#include "tests/support/message_of.h"

namespace gantry {
namespace {

using testing::constant_of;
using testing::NestKind;
using testing::run_nests;
using testing::values_of;

constexpr NestKind kKinds[] = {NestKind::kCpu, NestKind::kGpu};
constexpr int64_t kFeatures = 5;
using Values = std::vector<double>;
using Weights = std::vector<std::pair<int64_t, double>>;  ///< by target

struct TreeNode {
  bool leaf = true;
  int64_t feature = 0, passes = 0;
  double split = 0;
  size_t yes = 0, no = 0;
  Weights weights;
};
using Tree = std::vector<TreeNode>;

/// What trees are like.
struct Kind {
  int64_t targets = 1;
  std::vector<int64_t> passes{outcome::kLess | outcome::kEqual};  ///< of a branch one of them
  int64_t own = 0;
  enum class Leaves { kAll, kOne, kSome } leaves = Leaves::kAll;  ///< targets of which a leaf has weights
  bool wide = false;                                              ///< indices of i32
  int64_t steps = 1;  ///< as the op is told: from 2^14 on few rows are shared by parts of the trees
  TreeReduction reduction = TreeReduction::kSum;
};

class Grower {
 public:
  Grower(const Kind& kind, uint32_t seed) : kind_(kind), random_(seed) {}

  Tree tree(int depth) {
    Tree made;
    grow(made, depth);
    return made;
  }
  /// One path from which a leaf goes off at each branch.
  Tree chain(int depth) {
    Tree made;
    for (int i = 0; i < depth; ++i) {
      const size_t at = made.size();
      made.push_back(branch());
      made.push_back(leaf());
      made[at].yes = i % 2 == 0 ? at + 1 : at + 2;
      made[at].no = i % 2 == 0 ? at + 2 : at + 1;
    }
    made.push_back(leaf());
    return made;
  }
  double eighths() { return static_cast<double>(static_cast<int64_t>(random_() % 33) - 16) / 8; }

 private:
  size_t grow(Tree& made, int depth) {
    const size_t at = made.size();
    made.emplace_back();
    if (depth == 0 || random_() % 5 == 0) {
      made[at] = leaf();
      return at;
    }
    TreeNode node = branch();
    node.yes = grow(made, depth - 1);
    node.no = grow(made, depth - 1);
    made[at] = node;
    return at;
  }
  TreeNode branch() {
    const auto feature = static_cast<int64_t>(random_() % kFeatures);
    const double split = random_() % 40 == 0 ? std::nan("") : eighths();
    return {false, feature, kind_.passes[random_() % kind_.passes.size()], split, 0, 0, {}};
  }
  TreeNode leaf() {
    TreeNode node;
    const auto only = static_cast<int64_t>(random_() % static_cast<uint64_t>(kind_.targets));
    for (int64_t target = 0; target < kind_.targets; ++target) {
      const bool has = kind_.leaves == Kind::Leaves::kAll ||
                       (kind_.leaves == Kind::Leaves::kOne && target == only) ||
                       (kind_.leaves == Kind::Leaves::kSome && random_() % 2 == 0);
      if (has) node.weights.emplace_back(target, eighths());
    }
    return node;
  }

  const Kind& kind_;
  std::mt19937 random_;
};

std::vector<Tree> forest(const Kind& kind, uint32_t seed) {
  Grower grower(kind, seed);
  std::vector<Tree> trees;
  for (int i = 0; i < 36; ++i) trees.push_back(grower.tree(i * 5 % 8));
  trees.push_back(grower.chain(23));
  return trees;
}

// --- tables

ConstantPtr integers(bool wide, const Shape& shape, const std::vector<int64_t>& values) {
  if (wide) return constant_of(DType::kI32, shape, std::vector<int32_t>(values.begin(), values.end()));
  return constant_of(DType::kI16, shape, std::vector<int16_t>(values.begin(), values.end()));
}
ConstantPtr numbers(DType dtype, const Shape& shape, const Values& values) {
  if (dtype == DType::kF64) return constant_of(dtype, shape, values);
  std::vector<float> narrow(values.begin(), values.end());
  narrow.reserve(1);  // so that it has data
  return constant_of(dtype, shape, narrow);
}
Dim count_of(const auto& list) {
  return static_cast<int64_t>(list.size());
}

int64_t depth_of(const Tree& tree, size_t at = 0) {
  return tree[at].leaf ? 0 : 1 + std::max(depth_of(tree, tree[at].yes), depth_of(tree, tree[at].no));
}

struct Tables {
  std::vector<int64_t> trees, tests, next, begins{0}, targets;
  Values splits, weights;

  void add(const Tree& tree, int64_t own) {
    const auto first_branch = static_cast<int64_t>(tests.size()),
               first_leaf = static_cast<int64_t>(begins.size()) - 1;
    std::vector<int64_t> states;
    int64_t branches = 0, leaves = 0;
    for (const TreeNode& node : tree) states.push_back(node.leaf ? -1 - leaves++ : branches++);
    for (const TreeNode& node : tree) {
      if (node.leaf) {
        for (const auto& [target, weight] : node.weights)
          targets.push_back(target), weights.push_back(weight);
        begins.push_back(static_cast<int64_t>(weights.size()));
        continue;
      }
      const int64_t bits = own_bits(own), passes = bits == 1 ? node.passes / outcome::kNan : node.passes;
      tests.push_back(bits == 0 ? node.feature : (node.feature << bits) | passes);
      splits.push_back(node.split);
      next.insert(next.end(), {states[node.yes], states[node.no]});
    }
    trees.insert(trees.end(), {states[0], first_branch, first_leaf, depth_of(tree)});
  }

  /// All inputs but the first.
  std::vector<ConstantPtr> inputs(const Kind& kind, DType dtype) const {
    const Dim branches = count_of(tests);
    std::vector<ConstantPtr> all{integers(true, {Dim(count_of(trees).value() / 4), 4}, trees),
                                 integers(kind.wide, {branches}, tests), numbers(dtype, {branches}, splits),
                                 integers(kind.wide, {branches, 2}, next),
                                 numbers(dtype, {count_of(weights)}, weights)};
    if (kind.leaves == Kind::Leaves::kAll) return all;
    const bool some = kind.leaves == Kind::Leaves::kSome;
    all.push_back(some ? integers(true, {count_of(begins)}, begins) : nullptr);
    all.push_back(integers(kind.wide, {count_of(targets)}, targets));
    return all;
  }
};

std::vector<ConstantPtr> tables_of(const std::vector<Tree>& trees, const Kind& kind, DType dtype) {
  Tables tables;
  for (const Tree& tree : trees) tables.add(tree, kind.own);
  return tables.inputs(kind, dtype);
}

std::shared_ptr<TreesAttrs> attrs_of(const Kind& kind) {
  auto attrs = std::make_shared<TreesAttrs>();
  attrs->targets = kind.targets;
  attrs->features = kFeatures;
  attrs->leaf_weights = kind.leaves == Kind::Leaves::kAll ? kind.targets : 1;
  attrs->passes = kind.own == outcome::kAny ? 0 : kind.passes[0];
  attrs->own = kind.own;
  attrs->steps = kind.steps;
  attrs->reduction = kind.reduction;
  return attrs;
}

// --- the definition

bool passes(const TreeNode& node, double x) {
  const bool less = (node.passes & outcome::kLess) != 0 && x < node.split,
             same = (node.passes & outcome::kEqual) != 0 && x == node.split,
             more = (node.passes & outcome::kMore) != 0 && x > node.split,
             nan = (node.passes & outcome::kNan) != 0 && std::isnan(x);
  return less || same || more || nan;
}

double reduced(TreeReduction reduction, double a, double b) {
  if (reduction == TreeReduction::kSum) return a + b;
  return reduction == TreeReduction::kMin ? std::min(a, b) : std::max(a, b);
}

Values expected(const std::vector<Tree>& trees, const Kind& kind, const Values& x) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double neutral = kind.reduction == TreeReduction::kSum   ? 0
                         : kind.reduction == TreeReduction::kMin ? kInfinity
                                                                 : -kInfinity;
  Values all;
  for (size_t begin = 0; begin < x.size(); begin += kFeatures) {
    Values row(static_cast<size_t>(kind.targets), neutral);
    for (const Tree& tree : trees) {
      size_t at = 0;
      while (!tree[at].leaf)
        at = passes(tree[at], x[begin + static_cast<size_t>(tree[at].feature)]) ? tree[at].yes : tree[at].no;
      for (const auto& [target, weight] : tree[at].weights) {
        double& sum = row[static_cast<size_t>(target)];
        sum = reduced(kind.reduction, sum, weight);
      }
    }
    all.insert(all.end(), row.begin(), row.end());
  }
  return all;
}

/// Values at which trees split, others between them, and NaN.
Values features(int64_t rows, uint32_t seed) {
  std::mt19937 random(seed);
  Values x;
  for (int64_t i = 0; i < rows * kFeatures; ++i) {
    const double sixteenths = static_cast<double>(static_cast<int64_t>(random() % 65) - 32) / 16;
    x.push_back(random() % 9 == 0 ? std::nan("") : sixteenths);
  }
  return x;
}

void expect_walks(const Kind& kind, int64_t rows, DType dtype = DType::kF32) {
  const auto trees = forest(kind, static_cast<uint32_t>(rows));
  const Values x = features(rows, static_cast<uint32_t>(rows) + 7);
  std::vector<ConstantPtr> inputs = tables_of(trees, kind, dtype);
  inputs.insert(inputs.begin(), numbers(dtype, {rows, kFeatures}, x));
  const Values wanted = expected(trees, kind, x);
  for (const NestKind nests : kKinds) {
    SCOPED_TRACE(fmt::format("{} rows, {}", rows, nests == NestKind::kCpu ? "CPU" : "GPU"));
    const auto y = run_nests("tree_ensemble", attrs_of(kind), inputs, nests);
    if (dtype == DType::kF64) {
      EXPECT_EQ(values_of<double>(y[0]), wanted);
      continue;
    }
    const auto found = values_of<float>(y[0]);
    EXPECT_EQ(Values(found.begin(), found.end()), wanted);
  }
}

TEST(Trees, RowsAreWalkedSideBySideAndThoseLeftOverOneByOne) {
  for (const int64_t rows : {0, 1, 7, 8, 21}) expect_walks({}, rows);
  expect_walks({.wide = true}, 11);
  expect_walks({}, 530);  // blocks of rows; more than what parts of trees share on a GPU
}

TEST(Trees, FewRowsAreSharedByPartsOfTheTrees) {
  for (const int64_t rows : {1, 5, 32, 33}) expect_walks({.targets = 2, .steps = 3 << 14}, rows);
  expect_walks({.steps = 20 << 14, .reduction = TreeReduction::kMax}, 3);
}

TEST(Trees, BranchesPassByAnyComparison) {
  using namespace outcome;  // NOLINT
  for (const int64_t passes : {kLess | kEqual, kLess, kMore | kEqual, kMore, kEqual, kLess | kMore | kNan,
                               kLess | kEqual | kNan, kMore | kNan, kEqual | kNan}) {
    SCOPED_TRACE(passes);
    expect_walks({.passes = {passes}}, 9);
  }
}

TEST(Trees, BranchesSayForThemselvesWhatPasses) {
  using namespace outcome;  // NOLINT
  expect_walks({.passes = {kLess | kEqual, kLess | kEqual | kNan}, .own = kNan}, 13);
  expect_walks(
      {.passes = {kLess | kEqual, kLess, kMore | kEqual, kMore, kEqual, kLess | kMore | kNan, kEqual | kNan},
       .own = kAny},
      13);
}

TEST(Trees, LeavesHaveWeightsOfAllTargetsOrOfSome) {
  for (const auto leaves : {Kind::Leaves::kAll, Kind::Leaves::kOne, Kind::Leaves::kSome}) {
    for (const auto reduction : {TreeReduction::kSum, TreeReduction::kMin, TreeReduction::kMax})
      expect_walks({.targets = 3, .leaves = leaves, .reduction = reduction}, 10);
    expect_walks({.targets = 200, .leaves = leaves}, 9);  // more sums than the stack takes
  }
}

TEST(Trees, FeaturesOfF64AreComparedAsTheyAre) {
  expect_walks({.targets = 2}, 12, DType::kF64);
  const Tree tree{{false, 0, outcome::kLess | outcome::kEqual, 1 + 1e-12, 1, 2, {}},
                  {true, 0, 0, 0, 0, 0, {{0, 1}}},
                  {true, 0, 0, 0, 0, 0, {{0, 2}}}};
  std::vector<ConstantPtr> inputs = tables_of({tree}, {}, DType::kF64);
  inputs.insert(inputs.begin(), numbers(DType::kF64, {2, kFeatures}, {1, 0, 0, 0, 0, 1 + 2e-12, 0, 0, 0, 0}));
  for (const NestKind nests : kKinds)
    EXPECT_EQ(values_of<double>(run_nests("tree_ensemble", attrs_of({}), inputs, nests)[0]), (Values{1, 2}));
}

// --- rows whose number is open

/// What one kernel for any number of rows gives for each of these.
void expect_open_walks(const Kind& kind, NestKind nests, std::initializer_list<int64_t> counts) {
  const auto trees = forest(kind, 3);
  const std::vector<ConstantPtr> tables = tables_of(trees, kind, DType::kF32);
  const Dim rows = Dim::symbol("N");
  Function function;
  std::vector<Value*> values{function.add_parameter("x", {DType::kF32, {rows, kFeatures}})};
  for (const ConstantPtr& table : tables) values.push_back(function.add_parameter("t", table->type));
  const Node* node =
      infer_and_add(function, *op_set().find("tree_ensemble"), attrs_of(kind), values, {"node"});
  std::vector<Tensor> tensors;
  for (const Value* value : values)
    tensors.push_back(placeholder(to_exprs(value->type.shape), value->type.dtype, "x"));
  Schedule schedule(op_def(*node).compute(*node, tensors));
  schedule.for_gpu = nests == NestKind::kGpu;
  const LoopKernel kernel = run_loop_passes(lower_schedule(schedule, tensors, "kernel"));
  for (const int64_t count : counts) {
    SCOPED_TRACE(count);
    const Values x = features(count, 5);
    std::vector<ConstantPtr> inputs = tables;
    inputs.insert(inputs.begin(), numbers(DType::kF32, {count, kFeatures}, x));
    std::vector<std::span<std::byte>> arguments;
    for (const ConstantPtr& input : inputs)
      arguments.emplace_back(const_cast<std::byte*>(input->bytes), input->size);
    std::vector<float> y(static_cast<size_t>(count * kind.targets));
    arguments.push_back(std::as_writable_bytes(std::span(y)));
    evaluate(kernel, arguments, {{"N", count}});
    EXPECT_EQ(Values(y.begin(), y.end()), expected(trees, kind, x));
  }
}

TEST(Trees, OneKernelTakesAnyNumberOfRows) {
  for (const NestKind nests : kKinds) {
    expect_open_walks({.targets = 2}, nests, {0, 1, 8, 13, 70});
    expect_open_walks({.targets = 2, .steps = 3 << 14}, nests, {0, 1, 31, 33, 515});
  }
}

// --- tables that lead outside

/// The message for one tree of one branch and two leaves with other elements in a table.
std::string refused(TreeInput input, size_t element, int64_t value) {
  std::vector<int64_t> trees{0, 0, 0, 1}, tests{4}, next{-1, -2}, begins{0, 1, 2}, targets{0, 1};
  std::vector<int64_t>& table = input == TreeInput::kTrees    ? trees
                                : input == TreeInput::kTests  ? tests
                                : input == TreeInput::kNext   ? next
                                : input == TreeInput::kBegins ? begins
                                                              : targets;
  table.at(element) = value;
  Function function;
  const std::vector<ConstantPtr> constants{integers(true, {1, 4}, trees),     integers(false, {1}, tests),
                                           numbers(DType::kF32, {1}, {0}),    integers(false, {1, 2}, next),
                                           numbers(DType::kF32, {2}, {1, 2}), integers(true, {3}, begins),
                                           integers(false, {2}, targets)};
  std::vector<Value*> values{function.add_parameter("x", {DType::kF32, {3, kFeatures}})};
  for (const ConstantPtr& constant : constants) values.push_back(function.add_constant("t", constant));
  return testing::message_of([&] {
    infer_and_add(function, *op_set().find("tree_ensemble"), attrs_of({.targets = 2}), values, {"node"});
  });
}

TEST(Trees, TablesThatLeadOutsideAreRefused) {
  const auto expect = [](TreeInput input, size_t element, int64_t value, const std::string& part) {
    const std::string message = refused(input, element, value);
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expect(TreeInput::kTrees, 0, 1, "goes on to state 1");
  expect(TreeInput::kTrees, 0, -3, "goes on to state -3");
  expect(TreeInput::kTrees, 1, 1, "outside of its tables");
  expect(TreeInput::kTrees, 1, -1, "outside of its tables");
  expect(TreeInput::kTrees, 2, 2, "outside of its tables");
  expect(TreeInput::kTrees, 3, -1, "paths of -1");
  expect(TreeInput::kTests, 0, 5, "asks for feature 5 of 5");
  expect(TreeInput::kTests, 0, -1, "asks for feature -1");
  expect(TreeInput::kNext, 1, -3, "goes on to state -3");
  expect(TreeInput::kNext, 0, 7, "goes on to state 7");
  expect(TreeInput::kBegins, 1, 3, "begin at weight");
  expect(TreeInput::kBegins, 2, 0, "begin at weight");
  expect(TreeInput::kTargets, 1, 2, "of target 2 of 2");
}

}  // namespace
}  // namespace gantry
