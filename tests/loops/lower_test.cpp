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

TEST(LoopLimits, WhatIsInlinedHasABound) {
  const auto lowered = [](int levels) -> std::string {
    auto x = placeholder({4}, DType::kF32, "x");
    std::vector<Tensor> sums{x};
    for (int level = 1; level <= levels; ++level) {
      const Tensor last = sums.back();
      sums.push_back(compute(
          {4}, [&](auto& i) { return last(i) + last({Expr(3) - i[0]}); }, fmt::format("sum{}", level)));
    }
    Schedule s({sums.back()});
    for (int level = 1; level < levels; ++level) s[sums[static_cast<size_t>(level)]].compute_inline();
    try {
      lower_schedule(s, {x}, "k");
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(lowered(6), "");
  EXPECT_THAT(lowered(20), testing::ContainsRegex(
                               "sum[0-9]+: what is inlined into it has more than 1048576 terms, of which "
                               "sum[0-9]+ has [0-9]+ wherever it is read"));
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

}  // namespace
}  // namespace gantry::test
