// Vectors in lowered nests: the last one of an axis, lanes that are off, and blocks that are transposed.
#include <fmt/format.h>

#include <algorithm>

#include "tests/loops/run_schedule.h"

namespace gantry::test {
namespace {

// Sums of 3 elements in parts of 12 that are kept while they are made: vectors of 8, then one of 4.
TEST(NarrowVectors, APartThatLanesDoNotDivideEndsInAShorterVector) {
  constexpr int64_t kParts = 3, kPart = 12, kLanes = 8, kCount = kParts * kPart;
  auto x = placeholder({kCount + 2}, DType::kF32, "x");
  auto k = reduce_axis(0, 3, "k");
  auto sums = compute(
      {kParts, kPart}, [&](auto& i) { return sum(x({i[0] * kPart + i[1] + k->var}), {k}); }, "sums");
  auto y = compute(
      {kCount},
      [&](auto& i) {
        return sums({floordiv(i[0], kPart), mod(i[0], kPart)}) + x(i);
      },
      "y");
  Schedule s({y});
  auto in_vectors = [&](Stage& stage, const IterVarPtr& axis) {
    auto [vectors, lane] = stage.split(axis, kLanes);
    stage.unroll(vectors);
    stage.vectorize(lane);
  };
  auto [part, inside] = s[y].split(s[y].axes()[0], kPart);
  in_vectors(s[y], inside);
  s[sums].compute_at(s[y], part);
  s[sums].set_scope(StorageScope::kLocal);
  const IterVarPtr lanes = s[sums].axes()[1];
  s[sums].reorder({s[sums].axes()[0], k, lanes});
  in_vectors(s[sums], lanes);
  const Floats xs = random_floats(kCount + 2);
  Floats expected;
  for (size_t i = 0; i < kCount; ++i) expected.push_back(xs[i] + xs[i + 1] + xs[i + 2] + xs[i]);
  EXPECT_THAT(run_schedule(s, {x}, {xs}, kCount), testing::Pointwise(testing::Eq(), expected));
  const std::string text = to_string(run_loop_passes(lower_schedule(s, {x}, "k")));
  EXPECT_THAT(text, testing::HasSubstr("local sums: f32[12]")) << "of one part";
  EXPECT_THAT(text, testing::HasSubstr("sums[ramp(0, 1, 8)] ="));
  EXPECT_THAT(text, testing::HasSubstr("sums[ramp(8, 1, 4)] ="));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr(" if "))) << "no lane is off";
}

// Lanes in the padding add nothing; the accumulator is stored whole and stays in a register.
TEST(UnmaskUpdates, LanesInThePaddingOfAMaximumAreLeftAsTheyAre) {
  constexpr int64_t kCount = 16, kLanes = 8;
  auto x = placeholder({kCount}, DType::kF32, "x");
  auto k = reduce_axis(0, 3, "k");
  const Expr lowest = identity_of(ReduceKind::kMax, DType::kF32);
  auto y = compute(
      {kCount},
      [&](auto& i) {
        const Expr at = i[0] + k->var - 1;
        const Expr inside = ge(at, 0) && lt(at, kCount);
        return reduce(ReduceKind::kMax, if_then_else(inside, x({at}), lowest), {k});
      },
      "y");
  Schedule s({y});
  Tensor sums = s.cache_write(y, StorageScope::kLocal);
  auto [block, lane] = s[y].split(s[y].axes()[0], kLanes);
  s[y].unroll(block);
  s[y].vectorize(lane);
  s[sums].compute_at(s[y], block);
  s[sums].reorder({s[sums].reduce_axes()[0], s[sums].axes()[0]});
  s[sums].unroll(s[sums].reduce_axes()[0]);
  s[sums].vectorize(s[sums].axes()[0]);
  const Floats xs = random_floats(kCount);
  Floats expected;
  for (int64_t i = 0; i < kCount; ++i)
    expected.push_back(*std::max_element(xs.begin() + std::max<int64_t>(i - 1, 0),
                                         xs.begin() + std::min<int64_t>(i + 2, kCount)));
  EXPECT_THAT(run_schedule(s, {x}, {xs}, kCount), testing::Pointwise(testing::Eq(), expected));
  const std::string text = to_string(run_loop_passes(lower_schedule(s, {x}, "k")));
  EXPECT_THAT(text, testing::HasSubstr("select(")) << text;
  EXPECT_THAT(text, testing::Not(testing::ContainsRegex("\n *y\\.cache[^=]* if "))) << text;
}

/// Rows of sums in vectors of 8 of `n` columns, as products of unknown extents are scheduled.
Schedule sums_of_columns(const Tensor& x, TailStrategy tail) {
  auto k = reduce_axis(0, 3, "k");
  auto y = compute(
      {x.shape()[1]},
      [&](auto& i) {
        return sum(x({k->var, i[0]}), {k});
      },
      "y");
  Schedule s({y});
  Tensor sums = s.cache_write(y, StorageScope::kLocal);
  auto [block, lane] = s[y].split(s[y].axes()[0], 8, tail);
  s[y].vectorize(lane);
  s[sums].compute_at(s[y], block);
  s[sums].reorder({s[sums].reduce_axes()[0], s[sums].axes()[0]});
  s[sums].vectorize(s[sums].axes()[0]);
  return s;
}

Floats expected_sums(const Floats& xs, int64_t n) {
  Floats sums;
  for (int64_t i = 0; i < n; ++i) sums.push_back(xs[size_t(i)] + xs[size_t(n + i)] + xs[size_t(2 * n + i)]);
  return sums;
}

TEST(ShiftOrGuard, LastTilesOfUnknownExtentsAreShiftedWhereThereIsRoom) {
  auto x = placeholder({3, Dim::symbol("n")}, DType::kF32, "x");
  const Schedule s = sums_of_columns(x, TailStrategy::kShiftOrGuard);
  for (int64_t n : {0, 1, 5, 8, 9, 15, 16, 29}) {
    const Floats xs = random_floats(size_t(3 * n));
    EXPECT_THAT(run_schedule(s, {x}, {xs}, size_t(n), {{"n", n}}),
                testing::Pointwise(testing::Eq(), expected_sums(xs, n)))
        << n;
  }
  const std::string text = to_string(run_loop_passes(lower_schedule(s, {x}, "k")));
  EXPECT_THAT(text, testing::ContainsRegex("\n  if [^\n]*\n    for ")) << "one test for all tiles\n" << text;
}

// Lanes beyond the end were never stored, and nothing asks for them.
TEST(UnmaskLocals, SumsBeyondTheEndAreStoredWhole) {
  auto x = placeholder({3, Dim::symbol("n")}, DType::kF32, "x");
  const Schedule s = sums_of_columns(x, TailStrategy::kGuard);
  for (int64_t n : {1, 8, 13}) {
    const Floats xs = random_floats(size_t(3 * n));
    EXPECT_THAT(run_schedule(s, {x}, {xs}, size_t(n), {{"n", n}}),
                testing::Pointwise(testing::Eq(), expected_sums(xs, n)));
  }
  const std::string text = to_string(run_loop_passes(lower_schedule(s, {x}, "k")));
  EXPECT_THAT(text, testing::HasSubstr(" if ")) << "loads of x and stores of y";
  EXPECT_THAT(text, testing::HasSubstr("y.cache.tail[ramp(0, 1, 8)] = x8(0.0)\n"));
  EXPECT_THAT(text, testing::Not(testing::ContainsRegex("y\\.cache[.a-z]*\\[ramp\\([^]]* if "))) << text;
  EXPECT_THAT(text,
              testing::Not(testing::ContainsRegex("\n *y\\.cache[.a-z]*\\[[^]]*\\] = x8\\(0\\.0\\) if ")))
      << text;
}

/// y[i][j] = body(x[j][i]) in blocks of `side`, the columns of y in vectors.
Schedule transposition(const Tensor& x, int64_t rows, int64_t columns, int64_t side,
                       const std::function<Expr(const Expr&, const Expr&)>& body) {
  auto y = compute(
      {rows, columns},
      [&](auto& i) {
        return body(x({i[1], i[0]}), i[1]);
      },
      "y");
  Schedule s({y});
  const auto axes = s[y].axes();
  auto [row_block, row] = s[y].split(axes[0], side, TailStrategy::kShiftInwards);
  auto [lane_block, lane] = s[y].split(axes[1], side, TailStrategy::kShiftInwards);
  s[y].reorder({row_block, lane_block, row, lane});
  s[y].vectorize(lane);
  return s;
}

TEST(TransposeBlocks, BlocksReadAcrossTheirVectorsAreTurned) {
  for (int64_t side : {4, 8, 16}) {
    const int64_t rows = 19, columns = 22;
    auto x = placeholder({columns, rows}, DType::kF32, "x");
    auto twice = [](const Expr& value, const Expr& /*column*/) { return value + value; };
    Schedule s = transposition(x, rows, columns, side, twice);
    const Floats xs = random_floats(size_t(rows * columns));
    Floats expected;
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) expected.push_back(2 * xs[size_t(j * rows + i)]);
    EXPECT_THAT(run_schedule(s, {x}, {xs}, size_t(rows * columns)),
                testing::Pointwise(testing::Eq(), expected));
    const std::string text = to_string(run_loop_passes(lower_schedule(s, {x}, "k")));
    EXPECT_THAT(text, testing::HasSubstr(fmt::format("{0} rows of {0}, 19 apart]", side)));
  }
}

TEST(TransposeBlocks, InLoopsThatAreWrittenOutEachHasRowsOfItsOwn) {
  const int64_t side = 8, rows = 2 * side, columns = 3 * side;
  auto x = placeholder({columns, rows}, DType::kF32, "x");
  auto twice = [](const Expr& value, const Expr& /*column*/) { return value + value; };
  Schedule s = transposition(x, rows, columns, side, twice);
  Stage& y = s[s.outputs()[0]];
  y.unroll(y.leaves()[0]);
  y.unroll(y.leaves()[1]);
  const Floats xs = random_floats(size_t(rows * columns));
  Floats expected;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) expected.push_back(2 * xs[size_t(j * rows + i)]);
  std::string text;
  EXPECT_THAT(run_schedule(s, {x}, {xs}, expected.size(), {}, &text),
              testing::Pointwise(testing::Eq(), expected));
  EXPECT_THAT(text, testing::HasSubstr(fmt::format("{0} rows of {0}, {1} apart]", side, rows)));
}

TEST(TransposeBlocks, WhatOnlySomeLanesReadIsNotReadAhead) {
  const int64_t rows = 8, columns = 16;
  auto x = placeholder({9, rows}, DType::kF32, "x");
  Schedule s = transposition(x, rows, columns, 8, [](const Expr& value, const Expr& column) {
    return if_then_else(lt(column, 9), value, float_imm(DType::kF32, -1));
  });
  const Floats xs = random_floats(size_t(9 * rows));
  Floats expected;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) expected.push_back(j < 9 ? xs[size_t(j * rows + i)] : -1);
  // The reference executor refuses to read beyond the end.
  EXPECT_THAT(run_schedule(s, {x}, {xs}, size_t(rows * columns)),
              testing::Pointwise(testing::Eq(), expected));
}

}  // namespace
}  // namespace gantry::test
