#include "host/onnx/forest.h"

#include <algorithm>
#include <limits>

#include "host/onnx/forest_tables.h"

namespace gantry {
namespace {

/// Of features shifted by what is told below them, in i32.
constexpr int64_t kMostFeatures = (int64_t{1} << 27) - 1;

void require_inside(NodeImport& n, const Forest& forest, const Term& x) {
  if (forest.roots.empty() || forest.leaves.empty()) n.fail("has no trees");
  for (const Forest::Branch& branch : forest.branches) {
    const bool beyond = x.dim(1).is_constant() && branch.feature >= x.dim(1).value();
    if (branch.feature < 0 || branch.feature > kMostFeatures || beyond)
      n.fail("a tree asks for feature {} of {}", branch.feature, to_string(x.shape()));
  }
  for (const Forest::Leaf& leaf : forest.leaves) {
    for (const auto& [target, weight] : leaf)
      if (target < 0 || target >= forest.targets)
        n.fail("a leaf has target {} of {}", target, forest.targets);
  }
}

template <typename T, typename From>
Value* table(NodeImport& n, DType dtype, const std::vector<From>& values, Shape shape) {
  const std::vector<T> narrow(values.begin(), values.end());
  return n.constant_value(make_constant({dtype, std::move(shape)}, narrow.data()), "trees");
}

Shape vector_of(size_t count) {
  return {static_cast<int64_t>(count)};
}

/// In i16 where that holds them all, else in i32.
Value* indices(NodeImport& n, const std::vector<int64_t>& values, Shape shape) {
  const auto [low, high] = std::ranges::minmax(values);
  const auto fits = [&](auto limits) { return low >= limits.min() && high <= limits.max(); };
  if (fits(std::numeric_limits<int16_t>())) return table<int16_t>(n, DType::kI16, values, std::move(shape));
  if (!fits(std::numeric_limits<int32_t>())) n.fail("has trees of more than 2^31 nodes or features");
  return table<int32_t>(n, DType::kI32, values, std::move(shape));
}
/// In i32.
Value* positions(NodeImport& n, const std::vector<int64_t>& values, Shape shape) {
  if (std::ranges::max(values) > std::numeric_limits<int32_t>::max()) n.fail("has more than 2^31 nodes");
  return table<int32_t>(n, DType::kI32, values, std::move(shape));
}
Value* floats(NodeImport& n, DType dtype, const std::vector<double>& values) {
  if (dtype == DType::kF64) return table<double>(n, dtype, values, vector_of(values.size()));
  return table<float>(n, dtype, values, vector_of(values.size()));
}

/// The extreme weights, where targets that no leaf has are 0.
Term met(const Term& extremes, double absent) {
  return where(equal(extremes, extremes.number_like(absent)), 0, extremes);
}

TreeReduction reduction_of(TreeAggregate aggregate) {
  return aggregate == TreeAggregate::kMin   ? TreeReduction::kMin
         : aggregate == TreeAggregate::kMax ? TreeReduction::kMax
                                            : TreeReduction::kSum;
}

}  // namespace

Term evaluate_forest(const Term& x, const Forest& forest, TreeAggregate aggregate) {
  NodeImport& n = x.node();
  require_inside(n, forest, x);
  const ForestTables tables = forest_tables(n, forest, x.dtype());
  auto attrs = std::make_shared<TreesAttrs>(tables.attrs);
  attrs->reduction = reduction_of(aggregate);
  const auto trees = static_cast<int64_t>(forest.roots.size()),
             branches = static_cast<int64_t>(tables.tests.size());
  std::vector<Value*> inputs{
      x,
      positions(n, tables.trees, {trees, 4}),
      indices(n, tables.tests, {branches}),
      floats(n, x.dtype(), tables.splits),
      indices(n, tables.next, {branches, 2}),
      floats(n, x.dtype(), tables.weights),
      tables.begins.empty() ? nullptr : positions(n, tables.begins, vector_of(tables.begins.size())),
      tables.targets.empty() ? nullptr : indices(n, tables.targets, vector_of(tables.targets.size()))};
  while (inputs.back() == nullptr) inputs.pop_back();
  const Term y(n, n.add(op::tree_ensemble, std::move(inputs), std::move(attrs)));
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  switch (aggregate) {
    case TreeAggregate::kMin:
      return met(y, kInfinity);
    case TreeAggregate::kMax:
      return met(y, -kInfinity);
    case TreeAggregate::kAverage:
      return y / static_cast<double>(trees);
    case TreeAggregate::kSum:
      break;
  }
  return y;
}

}  // namespace gantry
