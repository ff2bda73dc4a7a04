// Schedules mean what they say: every lowered nest computes what its tensor expression does.
#include <fmt/format.h>

#include <algorithm>

#include "host/support/error.h"
#include "host/tensor/simplify.h"
#include "tests/loops/run_schedule.h"

namespace gantry::test {
namespace {

struct ConvCase {
  int64_t h, w, ic, oc, k, stride, pad, nb, mr, lanes;
  TailStrategy tail;
  bool pad_inlined;
};

void PrintTo(const ConvCase& c, std::ostream* out) {
  *out << c.h << "x" << c.w << "x" << c.ic << "->" << c.oc << " k" << c.k << " s" << c.stride << " p" << c.pad
       << " nb" << c.nb << " mr" << c.mr << (c.tail == TailStrategy::kGuard ? " guard" : " shift")
       << (c.pad_inlined ? " inline" : "");
}

int64_t output_size(int64_t size, const ConvCase& c) {
  return (size + 2 * c.pad - c.k) / c.stride + 1;
}

Floats direct_conv(const ConvCase& c, const Floats& x, const Floats& w, const Floats& bias) {
  int64_t oh = output_size(c.h, c), ow = output_size(c.w, c);
  Floats y(static_cast<size_t>(oh * ow * c.oc));
  for (int64_t i = 0; i < oh; ++i)
    for (int64_t j = 0; j < ow; ++j)
      for (int64_t o = 0; o < c.oc; ++o) {
        double sum = 0;
        for (int64_t r = 0; r < c.k; ++r)
          for (int64_t s = 0; s < c.k; ++s)
            for (int64_t k = 0; k < c.ic; ++k) {
              int64_t p = i * c.stride + r - c.pad, q = j * c.stride + s - c.pad;
              if (p < 0 || p >= c.h || q < 0 || q >= c.w) continue;
              size_t wi =
                  static_cast<size_t>((((o / c.nb) * c.k + r) * c.k + s) * c.ic + k) * c.nb + o % c.nb;
              sum += x[static_cast<size_t>((p * c.w + q) * c.ic + k)] * w[wi];
            }
        y[static_cast<size_t>((i * ow + j) * c.oc + o)] =
            std::max(0.0F, static_cast<float>(sum) + bias[static_cast<size_t>(o)]);
      }
  return y;
}

class ConvSchedule : public testing::TestWithParam<ConvCase> {};

TEST_P(ConvSchedule, ComputesTheConvolution) {
  ConvCase c = GetParam();
  int64_t oh = output_size(c.h, c), ow = output_size(c.w, c), ocb = (c.oc + c.nb - 1) / c.nb;
  Tensor x = placeholder({1, Expr(c.h), Expr(c.w), Expr(c.ic)}, DType::kF32, "x");
  Tensor w = placeholder({Expr(ocb), Expr(c.k), Expr(c.k), Expr(c.ic), Expr(c.nb)}, DType::kF32, "w");
  Tensor b = placeholder({Expr(c.oc)}, DType::kF32, "b");
  Tensor padded = compute(
      {1, Expr(c.h + 2 * c.pad), Expr(c.w + 2 * c.pad), Expr(c.ic)},
      [&](auto& i) {
        Expr h = i[1] - Expr(c.pad), q = i[2] - Expr(c.pad);
        Expr inside = ge(h, 0) && lt(h, Expr(c.h)) && ge(q, 0) && lt(q, Expr(c.w));
        return if_then_else(inside, x({i[0], h, q, i[3]}), float_imm(DType::kF32, 0));
      },
      "pad");
  auto kh = reduce_axis(0, Expr(c.k), "kh"), kw = reduce_axis(0, Expr(c.k), "kw"),
       ic = reduce_axis(0, Expr(c.ic), "ic");
  Tensor packed = compute(
      {1, Expr(oh), Expr(ow), Expr(ocb), Expr(c.nb)},
      [&](auto& i) {
        Expr value =
            padded({i[0], i[1] * Expr(c.stride) + kh->var, i[2] * Expr(c.stride) + kw->var, ic->var});
        return sum(value * w({i[3], kh->var, kw->var, ic->var, i[4]}), {kh, kw, ic});
      },
      "conv");
  Tensor unpacked = compute(
      {1, Expr(oh), Expr(ow), Expr(c.oc)},
      [&](auto& i) {
        return packed({i[0], i[1], i[2], floordiv(i[3], Expr(c.nb)), mod(i[3], Expr(c.nb))});
      },
      "unpack");
  Tensor y = compute(
      {1, Expr(oh), Expr(ow), Expr(c.oc)},
      [&](auto& i) { return max(unpacked(i) + b({i[3]}), float_imm(DType::kF32, 0)); }, "y");
  Schedule s({y});
  s[unpacked].compute_inline();
  if (c.pad_inlined) s[padded].compute_inline();
  Stage& out = s[y];
  auto axes = out.axes();
  auto [oco, oci] = out.split(axes[3], Expr(c.nb));
  auto [owo, owi] = out.split(axes[2], Expr(c.mr), c.tail);
  out.reorder({axes[0], oco, axes[1], owo, owi, oci});
  auto outer = out.fuse(out.fuse(axes[0], oco), axes[1]);
  out.parallel(outer);
  out.unroll(owi);
  auto [nv, lane] = out.split(oci, Expr(c.lanes));
  out.unroll(nv);
  out.vectorize(lane);
  Stage& conv = s[packed];
  conv.compute_at(out, owo);
  conv.set_scope(StorageScope::kLocal);
  auto a = conv.axes(), r = conv.reduce_axes();
  auto [cv, cl] = conv.split(a[4], Expr(c.lanes));
  conv.reorder({a[0], a[1], a[3], r[0], r[1], r[2], a[2], cv, cl});
  conv.unroll(a[2]);
  conv.unroll(cv);
  conv.vectorize(cl);
  Floats xs = random_floats(static_cast<size_t>(c.h * c.w * c.ic), 1);
  Floats ws = random_floats(static_cast<size_t>(ocb * c.k * c.k * c.ic * c.nb), 2);
  Floats bs = random_floats(static_cast<size_t>(c.oc), 3);
  std::string text;
  Floats got = run_schedule(s, {x, w, b}, {xs, ws, bs}, static_cast<size_t>(oh * ow * c.oc), {}, &text);
  EXPECT_THAT(got, testing::Pointwise(testing::Eq(), direct_conv(c, xs, ws, bs))) << text;
  if (getenv("SHOW")) puts(text.c_str());
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, ConvSchedule,
    testing::Values(ConvCase{6, 8, 3, 8, 3, 1, 1, 8, 4, 4, TailStrategy::kGuard, false},
                    ConvCase{6, 7, 3, 8, 3, 1, 1, 8, 4, 4, TailStrategy::kShiftInwards, false},
                    ConvCase{6, 7, 3, 8, 3, 1, 1, 8, 4, 4, TailStrategy::kGuard, false},
                    ConvCase{9, 9, 2, 13, 3, 2, 1, 8, 3, 8, TailStrategy::kGuard, false},
                    ConvCase{9, 9, 2, 13, 3, 2, 1, 8, 3, 8, TailStrategy::kShiftInwards, false},
                    ConvCase{5, 5, 4, 16, 1, 1, 0, 16, 4, 8, TailStrategy::kShiftInwards, true},
                    ConvCase{5, 9, 4, 11, 3, 1, 1, 8, 4, 8, TailStrategy::kGuard, true},
                    ConvCase{3, 2, 4, 5, 3, 1, 1, 8, 4, 8, TailStrategy::kGuard, true}));

/// y(i) = 2 x(i + 3) + 2 x(index(i)), of 10 elements; the doubles of all 40 are a stage of their own.
struct PartlyRead {
  Tensor x = placeholder({40}, DType::kF32, "x"), twice, y;
  explicit PartlyRead(const std::function<Expr(const Expr&)>& index) {
    twice = compute(
        {40}, [&](auto& i) { return x(i) * float_imm(DType::kF32, 2); }, "twice");
    y = compute(
        {10}, [&](auto& i) { return twice({i[0] + Expr(3)}) + twice({index(i[0])}); }, "y");
  }
  /// Elements of the doubles that are kept.
  int64_t check(const std::function<int64_t(int64_t)>& index) const {
    Schedule s({y});
    s[twice].bound_to_reads();
    s[twice].parallel(s[twice].split(s[twice].axes()[0], 8).first);
    auto [outer, inner] = s[y].split(s[y].axes()[0], 4, TailStrategy::kShiftInwards);
    s[y].parallel(outer);
    s[y].vectorize(inner);
    const Floats xs = random_floats(40);
    Floats expected;
    for (int64_t i = 0; i < 10; ++i)
      expected.push_back(2 * xs[static_cast<size_t>(i + 3)] + 2 * xs[static_cast<size_t>(index(i))]);
    EXPECT_THAT(run_schedule(s, {x}, {xs}, 10), testing::Pointwise(testing::Eq(), expected));
    return lower_schedule(s, {x}, "k").scratch.at(0)->element_count.as<IntImmNode>()->value;
  }
};

TEST(BoundToReads, ComputesAndKeepsTheBoxThatIsRead) {
  const PartlyRead near([](const Expr& i) { return i + Expr(7); });
  EXPECT_EQ(near.check([](int64_t i) { return i + 7; }), 14);
  const PartlyRead all([](const Expr& i) { return i * Expr(4); });
  EXPECT_EQ(all.check([](int64_t i) { return i * 4; }), 37);
}

/// y(i, j) = 4 x(i, j), by way of doubles of more rows than x has: to compute one beyond these is an error.
struct RowsBeyond {
  Expr rows = symbol_var("N");
  Tensor x = placeholder({rows, Expr(4)}, DType::kF32, "x");
  Tensor twice = compute(
      {rows + Expr(9), Expr(4)}, [this](auto& i) { return x(i) + x(i); }, "twice");
  Tensor y = compute(
      {rows, Expr(4)}, [this](auto& i) { return twice(i) + twice(i); }, "y");
  Schedule schedule{{y}};
  IterVarPtr block = schedule[y].split(schedule[y].axes()[0], 8).first;

  RowsBeyond() { schedule[twice].read_rows_below(rows); }
  void check() const {
    for (int64_t count : {1, 7, 8, 19}) {
      const Floats xs = random_floats(static_cast<size_t>(count) * 4);
      Floats expected;
      for (float element : xs) expected.push_back(4 * element);
      EXPECT_THAT(run_schedule(schedule, {x}, {xs}, expected.size(), {{"N", count}}),
                  testing::Pointwise(testing::Eq(), expected));
    }
  }
};

TEST(ReadRowsBelow, LeavesOutThoseBeyondWhereverRowsAreComputed) {
  const RowsBeyond at_root;
  at_root.check();
  RowsBeyond in_blocks;
  in_blocks.schedule[in_blocks.twice].compute_at(in_blocks.schedule[in_blocks.y], in_blocks.block);
  in_blocks.check();
  RowsBeyond bounded;
  bounded.schedule[bounded.twice].bound_to_reads();
  bounded.check();
  const LoopKernel kernel = lower_schedule(bounded.schedule, {bounded.x}, "k");
  EXPECT_TRUE(structurally_equal(kernel.scratch.at(0)->element_count, simplify(bounded.rows * Expr(4))))
      << "no memory for rows that nobody reads";
}

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

TEST(ShiftRegion, ComputesTheLastRegionWithoutConditions) {
  // Sums of 3 elements, in chunks of 4 of 10: the last is of elements 6 to 9.
  auto x = placeholder({12}, DType::kF32, "x");
  auto k = reduce_axis(0, 3, "k");
  auto sums = compute(
      {10}, [&](auto& i) { return sum(x({i[0] + k->var}), {k}); }, "sums");
  auto y = compute(
      {10}, [&](auto& i) { return sums(i) * float_imm(DType::kF32, 2); }, "y");
  auto lowered = [&](bool shifted) {
    Schedule s({y});
    auto [chunk, rest] = s[y].split(s[y].axes()[0], 4);
    s[y].parallel(chunk);
    s[sums].compute_at(s[y], chunk);
    s[sums].set_scope(StorageScope::kLocal);
    s[sums].unroll(s[sums].axes()[0]);
    if (shifted) s[sums].shift_region(s[sums].axes()[0]);
    const Floats xs = random_floats(12);
    Floats expected;
    for (size_t i = 0; i < 10; ++i) expected.push_back(2 * (xs[i] + xs[i + 1] + xs[i + 2]));
    EXPECT_THAT(run_schedule(s, {x}, {xs}, 10), testing::Pointwise(testing::Eq(), expected));
    return to_string(lower_schedule(s, {x}, "k"));
  };
  auto conditions = [](const std::string& text) {
    size_t count = 0;
    for (size_t at = text.find("if "); at != std::string::npos; at = text.find("if ", at + 1)) ++count;
    return count;
  };
  // Those of y's own elements beyond the end are left.
  const std::string guarded = lowered(false), shifted = lowered(true);
  EXPECT_LT(conditions(shifted), conditions(guarded)) << shifted;
  EXPECT_THAT(shifted, testing::HasSubstr("min(")) << shifted;
}

/// made(j), for y(i, j) = i + the sum of made(j) to made(j + 2): every block of rows needs all that is read
/// of it.
void expect_made_once(const std::function<Expr(const Expr& j)>& element, const std::vector<Tensor>& inputs,
                      const std::vector<Floats>& data, const std::function<float(size_t)>& value) {
  constexpr int64_t kRows = 10, kColumns = 7, kTaps = 3, kRead = kColumns + kTaps - 1;
  auto made = compute(
      {kRead + 6}, [&](auto& i) { return element(i[0]); }, "made");
  auto k = reduce_axis(0, kTaps, "k");
  auto sums = compute(
      {kRows, kColumns}, [&](auto& i) { return sum(made({i[1] + k->var}), {k}); }, "sums");
  auto y = compute(
      {kRows, kColumns}, [&](auto& i) { return sums(i) + cast(DType::kF32, i[0]); }, "y");
  Floats expected;
  for (size_t i = 0; i < kRows; ++i)
    for (size_t j = 0; j < kColumns; ++j)
      expected.push_back(value(j) + value(j + 1) + value(j + 2) + float(i));
  for (TailStrategy tail : {TailStrategy::kGuard, TailStrategy::kShiftInwards}) {
    Schedule s({y});
    auto [block, row] = s[y].split(s[y].axes()[0], 4, tail);
    s[y].parallel(block);
    s[sums].compute_at(s[y], row);
    s[made].compute_once_a_thread(s[y], block);
    s[made].vectorize(s[made].split(s[made].axes()[0], 4).second);
    std::string text;
    EXPECT_EQ(run_schedule(s, inputs, data, expected.size(), {}, &text), expected);
    // No more than is read, and in memory that outlasts an iteration.
    EXPECT_THAT(text, testing::HasSubstr(fmt::format("thread made: f32[{}]", kRead)));
    EXPECT_THAT(text, testing::HasSubstr("once a thread {"));
  }
}

TEST(OnceAThread, MakesAllThatTheLoopReadsBeforeItsFirstIteration) {
  const Floats xs = random_floats(15);
  auto x = placeholder({15}, DType::kF32, "x");
  expect_made_once([&](const Expr& j) { return x({j}) + x({j}); }, {x}, {xs},
                   [&](size_t j) { return 2 * xs[j]; });
}

// The last block, which rows do not fill, is no loop of its own with memory that nobody has filled.
TEST(OnceAThread, MakesWhatReadsNothing) {
  expect_made_once([&](const Expr& j) { return cast(DType::kF32, j * 3); }, {}, {},
                   [&](size_t j) { return float(3 * j); });
}

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

TEST(LoopLimits, LoopsThatAreRunAtOnceOrWrittenOutHaveABound) {
  const auto lowered = [](void (Stage::*primitive)(const IterVarPtr&), int64_t factor) -> std::string {
    auto x = placeholder({int64_t{1} << 33}, DType::kF32, "x");
    auto y = compute(
        {int64_t{1} << 33}, [&](auto& i) { return x({i[0]}) + float_imm(DType::kF32, 1); }, "y");
    Schedule s({y});
    (s[y].*primitive)(s[y].split(s[y].axes()[0], factor).second);
    try {
      lower_schedule(s, {x}, "k");
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(lowered(&Stage::vectorize, 2048), "");
  EXPECT_EQ(
      lowered(&Stage::vectorize, 2049),
      "y: the loop i0.i has 2049 lanes, at most 2048 are possible: split it and vectorize the inner loop");
  EXPECT_THAT(lowered(&Stage::vectorize, int64_t{1} << 32), testing::HasSubstr("has 4294967296 lanes"))
      << "which an int does not hold";
  EXPECT_EQ(lowered(&Stage::unroll, 1024), "");
  EXPECT_EQ(lowered(&Stage::unroll, 1025),
            "y: the loop i0.i writes out 1025 iterations, at most 1024 are possible: split it and unroll the "
            "inner loop");
}

/// Why a(i) of 6 elements, an output beside b(i, j) = a(index), is refused where it is computed in b's outer
/// loop.
std::string refusal_of_output(int64_t rows, const std::function<Expr(const std::vector<Expr>&)>& index) {
  auto x = placeholder({6}, DType::kF32, "x");
  auto a = compute(
      {6}, [&](auto& i) { return x(i) + x(i); }, "a");
  auto b = compute(
      {rows, 3}, [&](auto& i) { return a({index(i)}); }, "b");
  Schedule s({a, b});
  s[a].compute_at(s[b], s[b].split(s[b].axes()[0], 4).first);
  try {
    lower_schedule(s, {x}, "k");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(AttachedOutputs, AreReadWhole) {
  EXPECT_EQ(refusal_of_output(6, [](const auto& i) { return i[0]; }), "");
  for (const std::string& refusal : {refusal_of_output(5, [](const auto& i) { return i[0]; }),
                                     refusal_of_output(6, [](const auto& i) { return i[1]; }),
                                     refusal_of_output(3, [](const auto& i) { return i[0] * 2; })})
    EXPECT_THAT(refusal, testing::HasSubstr("a is an output, but computed in b would be only what is read"));
}

/// Why rounds of a loop over an axis of `extent` elements, in blocks of 4 of which 8 are fused, are refused.
std::string refusal_of_rounds(const Expr& extent, int64_t rounds) {
  auto x = placeholder({8, extent}, DType::kF32, "x");
  auto y = compute(
      {8, extent}, [&](auto& i) { return x(i) + float_imm(DType::kF32, 1); }, "y");
  Schedule s({y});
  const auto axes = s[y].axes();
  const IterVarPtr block = s[y].split(axes[1], 4).first;
  s[y].parallel(s[y].fuse(axes[0], block), rounds);
  try {
    lower_schedule(s, {x}, "k");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Rounds, DivideTheIterationsOfAParallelLoop) {
  EXPECT_EQ(refusal_of_rounds(9, 8), "");
  EXPECT_EQ(refusal_of_rounds(9, 6), "");
  EXPECT_THAT(refusal_of_rounds(9, 5),
              testing::HasSubstr("y: the 24 iterations of i0.i1.o are no multiple of its 5 rounds"));
  EXPECT_THAT(refusal_of_rounds(9, 48), testing::HasSubstr("no multiple of its 48 rounds"));
  EXPECT_EQ(refusal_of_rounds(Dim::symbol("n"), 8), "") << "whatever n is";
  EXPECT_EQ(refusal_of_rounds(Dim::symbol("n"), 4), "");
  EXPECT_THAT(refusal_of_rounds(Dim::symbol("n"), 3), testing::HasSubstr("no multiple of its 3 rounds"));
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
