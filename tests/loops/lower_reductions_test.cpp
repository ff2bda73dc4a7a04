// Reductions in lowered nests: of which terms they are, where their sums are kept, and in which parts.
#include <algorithm>
#include <optional>

#include "host/support/error.h"
#include "tests/loops/run_schedule.h"

namespace gantry::test {
namespace {

TEST(SkipUnless, LeavesOutTermsThatAreZero) {
  // y(i) = sum over k of p(i + k), where p is x with two zeros before it and behind it.
  auto x = placeholder({6}, DType::kF32, "x");
  auto padded = compute(
      {10},
      [&](auto& i) {
        return if_then_else(ge(i[0], 2) && lt(i[0], 8), x({i[0] - Expr(2)}), float_imm(DType::kF32, 0));
      },
      "padded");
  auto k = reduce_axis(0, 5, "k");
  auto y = compute(
      {6}, [&](auto& i) { return sum(padded({i[0] + k->var}), {k}); }, "y");
  Schedule s({y});
  const Expr at = s[y].axes()[0]->var + k->var;
  s[y].skip_unless(ge(at, 2));
  s[y].skip_unless(lt(at, 8));
  s[y].reorder({k, s[y].axes()[0]});
  const Floats xs = random_floats(6);
  Floats expected(6, 0);
  for (size_t i = 0; i < 6; ++i)
    for (size_t j = 0; j < 5; ++j)
      if (i + j >= 2 && i + j < 8) expected[i] += xs[i + j - 2];
  std::string text;
  EXPECT_THAT(run_schedule(s, {x}, {xs}, 6, {}, &text), testing::Pointwise(testing::Eq(), expected)) << text;
  EXPECT_THAT(to_string(lower_schedule(s, {x}, "k")), testing::HasSubstr("if "));
}

TEST(SkipUnless, SumsOfWhichNoTermIsLeftAreZero) {
  // Rows from the sixth on are zero.
  auto x = placeholder({8, 3}, DType::kF32, "x");
  auto k = reduce_axis(0, 3, "k");
  auto y = compute(
      {8},
      [&](auto& i) {
        return sum(x({i[0], k->var}), {k});
      },
      "y");
  Floats xs = random_floats(24);
  std::fill(xs.begin() + 15, xs.end(), 0.0F);
  Floats expected(8, 0);
  for (size_t i = 0; i < xs.size(); ++i) expected[i / 3] += xs[i];
  for (const bool around : {false, true}) {
    Schedule s({y});
    s[y].skip_unless(lt(s[y].axes()[0]->var, 5));
    if (around) s[y].reorder({k, s[y].axes()[0]});
    EXPECT_THAT(run_schedule(s, {x}, {xs}, 8), testing::Pointwise(testing::Eq(), expected)) << around;
  }
}

/// y(i) = the sum of the x(i, k) where m(k) > 1, over k from 1 to `end`, where m ends, too, and x of 8;
/// `attached`: twice m is made in the loop over k.
void expect_chosen_terms(int64_t end, bool attached) {
  auto x = placeholder({4, 8}, DType::kF32, "x"), m = placeholder({end}, DType::kF32, "m");
  auto mask = compute(
      {end}, [&](auto& i) { return m(i) + m(i); }, "mask");
  auto k = reduce_axis(0, 8, "k");
  auto y = compute(
      {4},
      [&](auto& i) {
        const Expr inside = ge(k->var, 1) && gt(mask({k->var}), float_imm(DType::kF32, 2));
        const Expr term = if_then_else(inside, x({i[0], k->var}), float_imm(DType::kF32, 0));
        return reduce(ReduceKind::kSum, term, {k}, end < 8 ? lt(k->var, end) : Expr());
      },
      "y");
  Schedule s({y});
  if (attached) s[mask].compute_at(s[y], k);
  const Floats xs = random_floats(32, 1), ms{2, 3, -1, 4, 1.5F, 0, 2, 5};
  Floats expected(4, 0);
  for (size_t i = 0; i < 4; ++i)
    for (size_t j = 1; j < size_t(end); ++j) expected[i] += ms[j] > 1 ? xs[i * 8 + j] : 0;
  EXPECT_THAT(run_schedule(s, {x, m}, {xs, Floats(ms.begin(), ms.begin() + end)}, 4),
              testing::Pointwise(testing::Eq(), expected));
}

TEST(ChosenTerms, AreAskedForWhereTheirDataAre) {
  expect_chosen_terms(8, false);
  expect_chosen_terms(8, true);
}

// The executor refuses to read beyond the end of m.
TEST(ChosenTerms, AreAskedForWhereTheReductionsConditionHolds) {
  expect_chosen_terms(5, false);
  expect_chosen_terms(5, true);
}

/// y(i) = sum over k of x(i, k) in tiles of 8 of `rows` rows, with the reduction around them; `local`: y is
/// read from sums in registers. Empty where lowering refuses it.
std::optional<Schedule> sums_around_tiles(const Tensor& x, TailStrategy tail, bool local) {
  auto k = reduce_axis(0, x.shape()[1], "k");
  auto y = compute(
      {x.shape()[0]},
      [&](auto& i) {
        return sum(x({i[0], k->var}), {k});
      },
      "y");
  Schedule s({y});
  Stage* sums = &s[y];
  if (local) {
    sums = &s[s.cache_write(y, StorageScope::kLocal)];
    sums->compute_at(s[y], s[y].split(s[y].axes()[0], x.shape()[0]).first);
  }
  auto [tile, row] = sums->split(sums->axes()[0], 8, tail);
  sums->reorder({sums->reduce_axes()[0], tile, row});
  try {
    lower_schedule(s, {x}, "k");
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("are shifted inwards overlap")) << error.what();
    return std::nullopt;
  }
  return s;
}

TEST(ShiftInwards, InsideAReductionEachTileHasSumsOfItsOwn) {
  constexpr int64_t kTerms = 5;
  for (const int64_t rows : {8, 16, 21}) {
    auto x = placeholder({rows, kTerms}, DType::kF32, "x");
    const Floats xs = random_floats(size_t(rows * kTerms));
    Floats expected(size_t(rows), 0.0f);
    for (size_t i = 0; i < xs.size(); ++i) expected[i / kTerms] += xs[i];
    for (const TailStrategy tail :
         {TailStrategy::kGuard, TailStrategy::kShiftInwards, TailStrategy::kShiftOrGuard}) {
      for (const bool local : {false, true}) {
        const auto s = sums_around_tiles(x, tail, local);
        ASSERT_TRUE(s) << rows << local;
        EXPECT_EQ(run_schedule(*s, {x}, {xs}, size_t(rows)), expected) << rows << local;
      }
    }
  }
}

TEST(ShiftInwards, SumsWithoutRoomBesideTheResultAreRefused) {
  const auto refused = [](const Expr& rows, TailStrategy tail) {
    return !sums_around_tiles(placeholder({rows, 5}, DType::kF32, "x"), tail, false);
  };
  EXPECT_TRUE(refused(5001, TailStrategy::kShiftInwards));
  EXPECT_FALSE(refused(5001, TailStrategy::kGuard));
  EXPECT_FALSE(refused(5000, TailStrategy::kShiftInwards)) << "tiles of 8 do not overlap";
  EXPECT_TRUE(refused(Dim::symbol("n"), TailStrategy::kShiftOrGuard));
  EXPECT_FALSE(refused(Dim::symbol("n"), TailStrategy::kGuard));
}

// 2^24 and a 1 are 2^24 in f32, so that one chain of additions would lose every 1 behind it.
TEST(SumInParts, EachPartBeginsAtZero) {
  const int64_t rows = 3, terms = 64, lanes = 8, part = 16;
  auto x = placeholder({rows, terms}, DType::kF32, "x");
  auto k = reduce_axis(0, terms, "k");
  auto total = compute(
      {rows, lanes},
      [&](auto& i) {
        return sum(x({i[0], k->var}), {k});
      },
      "total");
  auto y = compute(
      {rows, lanes},
      [&](auto& i) {
        return total({i[0], i[1]});
      },
      "y");
  Schedule s({y});
  const auto axes = s[y].axes();
  s[y].vectorize(axes[1]);
  s[total].compute_at(s[y], axes[0]);
  s[total].set_scope(StorageScope::kLocal);
  const auto sums = s[total].axes();
  auto [parts, term] = s[total].split(k, part);
  s[total].reorder({sums[0], parts, term, sums[1]});
  s[total].vectorize(sums[1]);
  s[total].sum_in_parts(term);
  Floats xs(size_t(rows * terms), 1.0f);
  for (int64_t i = 0; i < rows; ++i) xs[size_t(i * terms)] = 0x1p24f;
  const Floats expected(size_t(rows * lanes), 0x1p24f + float(terms - part));
  EXPECT_THAT(run_schedule(s, {x}, {xs}, expected.size()), testing::Pointwise(testing::Eq(), expected));
}

}  // namespace
}  // namespace gantry::test
