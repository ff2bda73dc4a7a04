// Matrix products with packed weights as the CPU's rule schedules them, through the checking evaluator,
// against the unscheduled tensor expressions.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <span>

#include "host/codegen/find_target.h"
#include "host/costs/dense_model.h"
#include "host/loops/evaluate.h"
#include "host/loops/lower.h"
#include "host/ops/dense.h"
#include "host/ops/op.h"
#include "host/targets/common/schedule_rules.h"
#include "host/tensor/interpret.h"

namespace gantry {
namespace {

ConstantPtr noise(const Shape& shape, int seed) {
  std::mt19937 random(static_cast<unsigned>(seed));
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(element_count(shape).value()));
  for (float& value : values) value = normal(random);
  return make_constant({DType::kF32, shape}, values.data());
}

/// A machine whose second level holds so little that sums are cut into parts.
Target small_target() {
  Target target = find_target("x86-64-v3");
  target.machine.l2_bytes = 32 << 10;
  return target;
}

double largest_difference(const Shape& leading, int64_t depth, int64_t units, int64_t block,
                          const Target& target) {
  Function f;
  Shape data = leading;
  data.push_back(depth);
  std::vector<ConstantPtr> inputs{noise(data, 1), noise({(units + block - 1) / block, depth, block}, 2)};
  std::vector<Value*> values;
  std::vector<Tensor> tensors;
  std::map<const OperationNode*, ConstantPtr> given;
  for (const auto& input : inputs) {
    values.push_back(f.add_parameter("x", input->type));
    tensors.push_back(placeholder(to_exprs(input->type.shape), DType::kF32, "x"));
    given[tensors.back().op().get()] = input;
  }
  auto attrs = std::make_shared<DenseAttrs>();
  attrs->units = units;
  attrs->form.weight_block = block;
  Node* node = infer_and_add(f, op_set().get(nn::dense), attrs, values, {"node"});
  const std::vector<Tensor> outputs = op_def(*node).compute(*node, tensors);
  const ConstantPtr expected = interpret(outputs, given).at(0);
  const Schedule schedule = make_schedule(outputs, target);
  const LoopKernel kernel = run_loop_passes(lower_schedule(schedule, tensors, "dense"), {});
  std::vector<std::span<std::byte>> arguments;
  for (const auto& input : inputs) arguments.emplace_back(const_cast<std::byte*>(input->bytes), input->size);
  std::byte* bytes = nullptr;
  const auto actual = allocate_constant(node->result()->type, &bytes);
  arguments.emplace_back(bytes, actual->size);
  evaluate(kernel, arguments);
  double worst = 0;
  for (int64_t i = 0; i < element_count(expected->type.shape).value(); ++i)
    worst = std::max(worst, std::abs(double{actual->as<float>()[i]} - expected->as<float>()[i]));
  return worst;
}

TEST(DenseRule, ComputesAnyNumberOfRowsAndUnits) {
  const Target target = find_target("x86-64-v3");
  for (int64_t rows : {1, 2, 7, 23}) {
    for (int64_t units : {1, 9, 40})
      EXPECT_LT(largest_difference({rows}, 17, units, 16, target), 1e-4) << rows;
  }
}

TEST(DenseRule, AllLeadingAxesAreRows) {
  const Target target = find_target("x86-64-v3");
  EXPECT_LT(largest_difference({}, 17, 24, 8, target), 1e-4);
  EXPECT_LT(largest_difference({3, 5}, 17, 24, 8, target), 1e-4);
  EXPECT_LT(largest_difference({9, 1}, 17, 24, 8, target), 1e-4);
  EXPECT_LT(largest_difference({1, 7, 7}, 17, 24, 8, target), 1e-4);
}

TEST(DenseRule, LargeDepthsAreSumsOfParts) {
  const Target target = small_target();
  ASSERT_GT(costs::dense_depth_parts({40, 1024, 16}, target.machine), 1);
  EXPECT_LT(largest_difference({40}, 1024, 16, 16, target), 1e-3);
}

TEST(DenseModel, PartsOfTheDepthAreEqual) {
  for (const Target& target : known_targets()) {
    if (target.family == nullptr) continue;
    for (int64_t depth : {64, 768, 3072, 4096, 5003}) {
      EXPECT_EQ(depth % costs::dense_depth_parts({128, depth, 768}, target.machine), 0) << target.name;
    }
  }
}

TEST(DenseModel, HidesTheLatencyOfMultiplyAdds) {
  const Target target = find_target("x86-64-v4");
  const costs::DenseTile plan = costs::choose_dense_tile({128, 768, 768}, target.machine);
  EXPECT_GE(plan.tile.rows * plan.tile.vectors, target.machine.fma_latency * target.machine.fma_per_cycle);
  EXPECT_EQ(plan.block_rows % plan.tile.rows, 0);
}

// Rows of 256 results lie 1 KiB apart: four in each set of the first-level cache.
TEST(DenseModel, SumsOfFewProductsKeepTheirRowsOfResultsInTheCache) {
  const MachineModel machine = find_target("znver5").machine;
  const costs::ProductTile tile = costs::choose_dense_tile({4096, 3, 256}, machine).tile;
  EXPECT_LE(2 * tile.rows / 4, machine.l1_bytes / 4096);
  EXPECT_GE(tile.vectors, 2);
}

}  // namespace
}  // namespace gantry
