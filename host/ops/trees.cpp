// tree_ensemble: declaration and type rule; its loop nests are in trees_loops.cpp.
#include "host/ops/trees.h"

#include <limits>

#include "host/ops/families.h"
#include "host/ops/support.h"
#include "host/ops/trees_loops.h"

namespace gantry {
namespace {

/// Trees, targets and the like, so that nothing that is computed of them overflows.
constexpr int64_t kMost = std::numeric_limits<int32_t>::max();

const TensorType& type_of(const Node& node, TreeInput input) {
  return ops::input_type(node, static_cast<size_t>(input));
}
bool has(const Node& node, TreeInput input) {
  return ops::has_input(node, static_cast<size_t>(input));
}

void require_vector(const TensorType& type, bool fits, const char* what) {
  ops::require(type.rank() == 1 && fits, "its {} are {}", what, type.str());
}
bool is_index(const TensorType& type) {
  return type.dtype == DType::kI16 || type.dtype == DType::kI32;
}

void require_attributes(const TreesAttrs& attrs) {
  const auto in = [](int64_t value, int64_t least, int64_t most) { return value >= least && value <= most; };
  ops::require(in(attrs.targets, 1, kMost) && in(attrs.features, 1, kMost),
               "it has {} targets and {} features", attrs.targets, attrs.features);
  ops::require(in(attrs.leaf_weights, 0, kMost) && in(attrs.steps, 0, kMost * kMost),
               "its leaves have {} weights and its longest paths {} branches", attrs.leaf_weights,
               attrs.steps);
  const bool known_own = attrs.own == 0 || attrs.own == outcome::kNan || attrs.own == outcome::kAny;
  ops::require(in(attrs.passes, 0, outcome::kAny) && known_own,
               "it has no outcomes as passes = {} and own = {} say", attrs.passes, attrs.own);
}

/// Rows of 4 integers, at least one and not too many.
void require_trees(const TensorType& trees) {
  const int64_t count = trees.rank() == 2 ? trees.shape[0].constant().value_or(0) : 0;
  ops::require(trees.dtype == DType::kI32 && count >= 1 && count <= kMost && trees.shape[1] == Dim(4),
               "its trees should be i32 in one or more rows of 4, not {}", trees.str());
}

std::vector<TensorType> infer_trees(const Node& node, Function& function) {
  const auto& attrs = node.attrs_as<TreesAttrs>();
  require_attributes(attrs);
  const TensorType &x = type_of(node, TreeInput::kX), &trees = type_of(node, TreeInput::kTrees),
                   &tests = type_of(node, TreeInput::kTests), &splits = type_of(node, TreeInput::kSplits),
                   &next = type_of(node, TreeInput::kNext), &weights = type_of(node, TreeInput::kWeights);
  ops::require_dtype(x.dtype == DType::kF32 || x.dtype == DType::kF64, x.dtype);
  ops::require(x.rank() == 2, "its features {} should be rows", x.str());
  ops::require_at_least(x.shape[1], attrs.features, function, node,
                        fmt::format("a tree asks for feature {} of {}", attrs.features - 1, x.str()));
  require_trees(trees);
  require_vector(tests, is_index(tests), "tests");
  require_vector(splits, splits.dtype == x.dtype, "splits");
  require_vector(weights, weights.dtype == x.dtype, "weights");
  ops::require(next.rank() == 2 && is_index(next) && next.shape[1] == Dim(2), "its next states are {}",
               next.str());
  if (has(node, TreeInput::kBegins)) {
    const TensorType& begins = type_of(node, TreeInput::kBegins);
    require_vector(begins, begins.dtype == DType::kI32, "begins");
  }
  if (has(node, TreeInput::kTargets)) {
    const TensorType& targets = type_of(node, TreeInput::kTargets);
    require_vector(targets, is_index(targets) && targets.shape[0] == weights.shape[0], "targets");
  }
  ops::require(
      tests.shape[0] == splits.shape[0] && tests.shape[0] == next.shape[0] && tests.shape[0] != Dim(0),
      "{} tests, {} splits and {} next states", tests.str(), splits.str(), next.str());
  check_trees(node);
  return {{x.dtype, {x.shape[0], attrs.targets}}};
}

std::vector<Tensor> compute_trees(const Node& node, const std::vector<Tensor>& in) {
  const TreeLoops loops(node.attrs_as<TreesAttrs>(), in);
  std::vector<Tensor> present;
  for (const Tensor& tensor : in)
    if (tensor) present.push_back(tensor);
  return extern_kernel(
      present, {ops::result_shape(node)}, {in[0].dtype()}, [loops](LoopBuilder& b) { loops.build(b); },
      "trees", [loops](LoopBuilder& b) { loops.build_launches(b); });
}

}  // namespace

void add_tree_ops(OpSet& set) {
  OpDef op = ops::define(op::tree_ensemble, FusionClass::kOpaque, LayoutBehaviour::kNone,
                         {"x", "trees", "tests", "splits", "next", "weights", "begins", "targets"}, 2);
  op.keeps_types = true;
  op.infer = infer_trees;
  op.compute = compute_trees;
  op.flops = [](const Node& node) {
    return ops::input_type(node, 0).shape[0] * node.attrs_as<TreesAttrs>().steps;
  };
  set.add(std::move(op));
}

}  // namespace gantry
