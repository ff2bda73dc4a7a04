// Reductions as the CPU's rule schedules them, through the checking evaluator.
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

constexpr int64_t kRows = 48, kColumns = 64;

/// The largest of each column of x (48, 64), read as the rows of what `columns` makes of x.
LoopKernel kernel_of(const Tensor& x, const Tensor& columns) {
  auto k = reduce_axis(0, kRows, "k");
  const Tensor y = compute(
      {kColumns},
      [&](const std::vector<Expr>& i) {
        return reduce(ReduceKind::kMax, columns({i[0], k->var}), {k});
      },
      "largest");
  const LoopKernel kernel =
      run_loop_passes(lower_schedule(make_schedule({y}, find_target("x86-64-v3")), {x}, "largest"), {});
  std::vector<float> data(kRows * kColumns), expected(kColumns, -1e9f), actual(kColumns);
  for (int64_t r = 0; r < kRows; ++r)
    for (int64_t c = 0; c < kColumns; ++c) {
      float& element = data[static_cast<size_t>(r * kColumns + c)];
      element = static_cast<float>((r * 37 + c * 11) % 101);
      expected[static_cast<size_t>(c)] = std::max(expected[static_cast<size_t>(c)], element);
    }
  evaluate(kernel, {std::as_writable_bytes(std::span<float>(data)),
                    std::as_writable_bytes(std::span<float>(actual))});
  EXPECT_EQ(actual, expected);
  return kernel;
}

TEST(ReductionRule, ReadsTransposedDataInTheOrderThatTheyLieIn) {
  const Tensor x = placeholder({kRows, kColumns}, DType::kF32, "x");
  const Tensor transposed = compute(
      {kColumns, kRows},
      [&](const std::vector<Expr>& i) {
        return x({i[1], i[0]});
      },
      "transposed");
  const LoopKernel kernel = kernel_of(x, transposed);
  EXPECT_FALSE(test::has_vectors_of_eight(kernel, kColumns)) << to_string(kernel);
  EXPECT_TRUE(test::has_vectors_of_eight(kernel, 1)) << to_string(kernel);
}

// Over the lines first, which lie as they are read; what these leave is near enough to be read by lanes
// apart.
TEST(ReductionRule, WindowsThatLieApartReadTheImageInWholeVectors) {
  constexpr int64_t kPlanes = 2, kSide = 41, kResults = 20;
  const Tensor x = placeholder({kPlanes, kSide, kSide}, DType::kF32, "x");
  const auto i = reduce_axis(0, 3, "i"), j = reduce_axis(0, 3, "j");
  const Tensor y = compute(
      {kPlanes, kResults, kResults},
      [&](const std::vector<Expr>& at) {
        return reduce(ReduceKind::kMax, x({at[0], at[1] * 2 + i->var, at[2] * 2 + j->var}), {i, j});
      },
      "y");
  const LoopKernel kernel =
      run_loop_passes(lower_schedule(make_schedule({y}, find_target("x86-64-v3")), {x}, "y"), {});
  EXPECT_TRUE(test::has_vectors_of_eight(kernel, 2, "y_lines")) << to_string(kernel);
  EXPECT_FALSE(test::has_vectors_of_eight(kernel, 2, "x")) << to_string(kernel);
  std::vector<float> data(kPlanes * kSide * kSide), actual(kPlanes * kResults * kResults);
  for (size_t k = 0; k < data.size(); ++k) data[k] = static_cast<float>(k * 7919 % 1009);
  evaluate(kernel, {std::as_writable_bytes(std::span<float>(data)),
                    std::as_writable_bytes(std::span<float>(actual))});
  for (size_t k = 0; k < actual.size(); ++k) {
    const size_t plane = k / (kResults * kResults), row = k / kResults % kResults * 2,
                 column = k % kResults * 2;
    float largest = 0;
    for (size_t tap = 0; tap < 9; ++tap)
      largest = std::max(largest, data[(plane * kSide + row + tap / 3) * kSide + column + tap % 3]);
    EXPECT_EQ(actual[k], largest) << k;
  }
}

// As broadcasting reads it: element 0 of the axis of one image.
TEST(ReductionRule, WhatFollowsIsComputedWithTheSumsOfASingleImage) {
  const Tensor x = placeholder({1, 10, kColumns}, DType::kF32, "x");
  const auto k = reduce_axis(0, 3, "k");
  const Tensor sums = compute(
      {1, 8, kColumns},
      [&](const std::vector<Expr>& i) {
        return sum(x({i[0], i[1] + k->var, i[2]}), {k});
      },
      "sums");
  const Tensor squares = compute(
      {1, 8, kColumns},
      [&](const std::vector<Expr>& i) {
        return sums({0, i[1], i[2]}) * sums({0, i[1], i[2]});
      },
      "squares");
  const LoopKernel kernel =
      run_loop_passes(lower_schedule(make_schedule({squares}, find_target("x86-64-v3")), {x}, "squares"), {});
  EXPECT_TRUE(kernel.scratch.empty()) << to_string(kernel);
  std::vector<float> data(10 * kColumns), actual(8 * kColumns);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i % 7);
  evaluate(kernel, {std::as_writable_bytes(std::span<float>(data)),
                    std::as_writable_bytes(std::span<float>(actual))});
  for (size_t i = 0; i < actual.size(); ++i) {
    const float total = data[i] + data[i + kColumns] + data[i + 2 * kColumns];
    EXPECT_EQ(actual[i], total * total) << i;
  }
}

}  // namespace
}  // namespace gantry
