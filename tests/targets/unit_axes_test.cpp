// Kernels without their axes of one element, through the checking evaluator.
#include "host/targets/common/unit_axes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "host/codegen/find_target.h"
#include "host/loops/evaluate.h"
#include "host/loops/lower.h"
#include "host/targets/common/schedule_rules.h"
#include "tests/targets/nest_facts.h"

namespace gantry {
namespace {

std::vector<size_t> ranks(const std::vector<Tensor>& tensors) {
  std::vector<size_t> found;
  for (const Tensor& t : tensors) found.push_back(t.shape().size());
  return found;
}

struct Ran {
  LoopKernel loops;
  std::vector<float> y;
};

/// Of one output of `count` elements and inputs of 0, 1, 2, ….
Ran run(const KernelTensors& given, std::vector<size_t> input_counts, size_t count) {
  const KernelTensors kernel = without_unit_axes(given);
  const LoopKernel loops = run_loop_passes(
      lower_schedule(make_schedule(kernel.outputs, find_target("x86-64-v3")), kernel.inputs, "kernel"), {});
  std::vector<std::vector<float>> data;
  for (size_t elements : input_counts) {
    data.emplace_back(elements);
    for (size_t i = 0; i < elements; ++i) data.back()[i] = static_cast<float>(i);
  }
  data.emplace_back(count);
  std::vector<std::span<std::byte>> buffers;
  for (auto& buffer : data) buffers.push_back(std::as_writable_bytes(std::span<float>(buffer)));
  evaluate(loops, buffers);
  return {loops, data.back()};
}

TEST(UnitAxes, AreLeftOutBehindALongerAxisOrASymbol) {
  const Expr n = symbol_var("N");
  const Tensor x = placeholder({1, 1, 8, 1, 4, 1}, DType::kF32, "x"),
               s = placeholder({1, n, 1, n}, DType::kF32, "s"),
               scalar = placeholder({1, 1}, DType::kF32, "scalar");
  const KernelTensors kernel = without_unit_axes({{}, {x, s, scalar}});
  EXPECT_THAT(ranks(kernel.inputs), testing::ElementsAre(4, 3, 2));
}

TEST(UnitAxes, RowsOfALastAxisOfOneElementAreSummedInVectors) {
  const Tensor x = placeholder({4, 24, 1}, DType::kF32, "x");
  const auto k = reduce_axis(0, 24, "k"), one = reduce_axis(0, 1, "one");
  const Tensor y = compute(
      {4, 1},
      [&](const std::vector<Expr>& i) {
        return sum(x({i[0], k->var, i[1] + one->var}), {k, one});
      },
      "sums");
  const Ran ran = run({{y}, {x}}, {96}, 4);
  for (size_t r = 0; r < 4; ++r) EXPECT_EQ(ran.y[r], float(24 * 24 * r + 23 * 12)) << r;
  EXPECT_TRUE(test::has_vectors_of_eight(ran.loops, 1)) << to_string(ran.loops);
}

TEST(UnitAxes, WindowsOfEveryOtherElementOfAColumnAreReadInVectors) {
  const Tensor x = placeholder({3, 33, 1}, DType::kF32, "x");
  const auto k = reduce_axis(0, 3, "k"), one = reduce_axis(0, 1, "one");
  const Tensor y = compute(
      {3, 16, 1},
      [&](const std::vector<Expr>& i) {
        return reduce(ReduceKind::kMax, x({i[0], i[1] * 2 + k->var, i[2] + one->var}), {k, one});
      },
      "largest");
  const Ran ran = run({{y}, {x}}, {99}, 48);
  for (size_t c = 0; c < 3; ++c) {
    for (size_t i = 0; i < 16; ++i) EXPECT_EQ(ran.y[c * 16 + i], float(c * 33 + i * 2 + 2)) << c << ", " << i;
  }
  EXPECT_TRUE(test::has_vectors_of_eight(ran.loops, 2, "x")) << to_string(ran.loops);
}

TEST(UnitAxes, PaddingOfAnAxisOfOneElementIsDecidedBeforehand) {
  const Tensor x = placeholder({3, 32, 1}, DType::kF32, "x");
  const Tensor y = compute(
      {3, 32, 1},
      [&](const std::vector<Expr>& i) {
        return if_then_else(lt(i[2], 1), x({i[0], i[1], i[2]}), float_imm(DType::kF32, -1));
      },
      "padded");
  const KernelTensors kernel = without_unit_axes({{y}, {x}});
  EXPECT_TRUE(kernel.outputs[0].op()->body.as<ReadNode>() != nullptr) << "the condition holds at 0";
  EXPECT_EQ(run({{y}, {x}}, {96}, 96).y[95], 95.0f);
}

TEST(UnitAxes, OuterProductsAreWrittenInVectors) {
  const Tensor a = placeholder({24, 1}, DType::kF32, "a"), b = placeholder({16, 1, 1}, DType::kF32, "b");
  const Tensor y = compute(
      {16, 24, 1},
      [&](const std::vector<Expr>& i) {
        return a({i[1], 0}) * b({i[0], 0, 0});
      },
      "outer");
  const Ran ran = run({{y}, {a, b}}, {24, 16}, 384);
  for (size_t i = 0; i < 384; ++i) EXPECT_EQ(ran.y[i], float((i % 24) * (i / 24))) << i;
  EXPECT_TRUE(test::has_vectors_of_eight(ran.loops, 1)) << to_string(ran.loops);
}

TEST(UnitAxes, StayWhereRulesFindAxesByPlace) {
  const Tensor x = placeholder({1, 8, 1, 4}, DType::kF32, "x"), w = placeholder({4, 4}, DType::kF32, "w");
  const auto k = reduce_axis(0, 4, "k");
  const Tensor y = compute(
      {1, 8, 1, 4},
      [&](const std::vector<Expr>& i) {
        return sum(x({i[0], i[1], i[2], k->var}) * w({k->var, i[3]}), {k});
      },
      "product", Role::kMatmul);
  const KernelTensors kernel = without_unit_axes({{y}, {x, w}});
  EXPECT_TRUE(kernel.outputs[0] == y);
  EXPECT_TRUE(kernel.inputs[0] == x);
}

}  // namespace
}  // namespace gantry
