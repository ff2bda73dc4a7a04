// Products of two tensors as the CPU's rule schedules them, through the checking evaluator, against the
// unscheduled tensor expressions; softmax and normalisations by rows likewise.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <span>

#include "host/codegen/find_target.h"
#include "host/loops/evaluate.h"
#include "host/loops/lower.h"
#include "host/ops/dense.h"
#include "host/ops/norm.h"
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

/// Largest difference between the scheduled op and its expressions; `stages` counts those attached.
double largest_difference(std::string_view op, std::shared_ptr<Attrs> attrs, const std::vector<Shape>& shapes,
                          int* attached = nullptr) {
  Function f;
  std::vector<ConstantPtr> inputs;
  std::vector<Value*> values;
  std::vector<Tensor> tensors;
  std::map<const OperationNode*, ConstantPtr> given;
  for (const Shape& shape : shapes) {
    inputs.push_back(noise(shape, static_cast<int>(inputs.size())));
    values.push_back(f.add_parameter("x", inputs.back()->type));
    tensors.push_back(placeholder(to_exprs(shape), DType::kF32, "x"));
    given[tensors.back().op().get()] = inputs.back();
  }
  Node* node = infer_and_add(f, *op_set().find(op), std::move(attrs), values, {"node"});
  const std::vector<Tensor> outputs = op_def(*node).compute(*node, tensors);
  const ConstantPtr expected = interpret(outputs, given).at(0);
  const Schedule schedule = make_schedule(outputs, find_target("x86-64-v3"));
  if (attached != nullptr) {
    *attached = 0;
    for (const auto& stage : schedule.stages()) *attached += stage->attachment().is_at_loop() ? 1 : 0;
  }
  const LoopKernel kernel = run_loop_passes(lower_schedule(schedule, tensors, "kernel"), {});
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

std::shared_ptr<MatmulAttrs> transposed(bool a, bool b) {
  auto attrs = std::make_shared<MatmulAttrs>();
  attrs->transpose_a = a;
  attrs->transpose_b = b;
  return attrs;
}

TEST(MatmulRule, PacksATransposedRightOperand) {
  int attached = 0;
  EXPECT_LT(largest_difference("matmul", transposed(false, true), {{13, 17}, {21, 17}}, &attached), 1e-4);
  EXPECT_EQ(attached, 2);  // the panel and the sums
  EXPECT_LT(largest_difference("matmul", transposed(true, true), {{17, 5}, {21, 17}}), 1e-4);
}

TEST(MatmulRule, BroadcastsBatches) {
  EXPECT_LT(largest_difference("matmul", transposed(false, false), {{2, 3, 7, 9}, {3, 9, 20}}), 1e-4);
  EXPECT_LT(largest_difference("matmul", transposed(false, true), {{2, 3, 7, 9}, {1, 3, 20, 9}}), 1e-4);
}

TEST(MatmulRule, PacksRowsThatLieFarApartInPartsThatFitABuffer) {
  int attached = 0;
  EXPECT_LT(largest_difference("matmul", transposed(false, false), {{12, 2048}, {2048, 260}}, &attached),
            1e-3);
  EXPECT_GT(attached, 2);
}

TEST(MatmulRule, ComputesOddSizes) {
  for (int64_t rows : {1, 3, 14}) {
    for (int64_t columns : {1, 7, 33}) {
      EXPECT_LT(largest_difference("matmul", transposed(false, false), {{rows, 11}, {11, columns}}), 1e-4);
      EXPECT_LT(largest_difference("matmul", transposed(false, true), {{rows, 11}, {columns, 11}}), 1e-4);
    }
  }
}

TEST(RowsRule, ComputesSoftmaxRowByRow) {
  auto attrs = std::make_shared<SoftmaxAttrs>();
  attrs->axis = 2;
  int attached = 0;
  for (int64_t extent : {1, 5, 70}) {
    EXPECT_LT(largest_difference("nn.softmax", attrs, {{2, 3, extent}}, &attached), 1e-6);
    EXPECT_EQ(attached, 3);  // maximum, powers, sum
  }
  EXPECT_LT(largest_difference("nn.log_softmax", attrs, {{2, 3, 37}}), 1e-5);
}

TEST(RowsRule, SoftmaxAlongOtherAxesStaysAsItWas) {
  auto attrs = std::make_shared<SoftmaxAttrs>();
  attrs->axis = 1;
  EXPECT_LT(largest_difference("nn.softmax", attrs, {{2, 9, 5}}), 1e-6);
}

TEST(RowsRule, NormalisesTrailingAxes) {
  auto attrs = std::make_shared<LayerNormAttrs>();
  attrs->epsilon = 1e-5;
  attrs->axis = 1;
  int attached = 0;
  EXPECT_LT(largest_difference("nn.layer_norm", attrs, {{6, 77}, {77}, {77}}, &attached), 1e-5);
  EXPECT_EQ(attached, 2);  // mean and variance
  EXPECT_LT(largest_difference("nn.layer_norm", attrs, {{3, 4, 9}, {4, 9}, {4, 9}}), 1e-5);
}

}  // namespace
}  // namespace gantry
