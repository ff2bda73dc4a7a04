// Stages inside launches: shared tiles, registers, reductions over threads. Everything is compared with the
// tensor expression's own values.
#include "host/loops/launch.h"
#include "tests/loops/gpu_case.h"

namespace gantry::test {
namespace {

using testing::HasSubstr;
using testing::Not;

struct MatrixCase {
  int64_t m, n, k;
  bool doubled = false;
};

/// relu(a * b + bias) in tiles of 32 x 32 x 8 by 64 threads of 4 x 4 elements each.
void run_matrix_product(const MatrixCase& c, std::string& text) {
  Tensor a = placeholder({Expr(c.m), Expr(c.k)}, DType::kF32, "a");
  Tensor b = placeholder({Expr(c.k), Expr(c.n)}, DType::kF32, "b");
  Tensor bias = placeholder({Expr(c.n)}, DType::kF32, "bias");
  auto k = reduce_axis(0, Expr(c.k), "k");
  Tensor product = compute(
      {Expr(c.m), Expr(c.n)},
      [&](auto& i) {
        return sum(a({i[0], k->var}) * b({k->var, i[1]}), {k});
      },
      "product");
  Tensor y = compute(
      {Expr(c.m), Expr(c.n)},
      [&](auto& i) { return max(product(i) + bias({i[1]}), float_imm(DType::kF32, 0)); }, "y");
  Schedule s({y});
  s.for_gpu = true;
  Tensor a_shared = s.cache_read(a, StorageScope::kShared, {product.op()});
  Tensor b_shared = s.cache_read(b, StorageScope::kShared, {product.op()});
  Stage& out = s[y];
  auto [mb, mi] = out.split(out.axes()[0], 32);
  auto [nb, ni] = out.split(out.axes()[1], 32);
  auto [mt, mv] = out.split(mi, 4);
  auto [nt, nv] = out.split(ni, 4);
  out.reorder({mb, nb, mt, nt, mv, nv});
  out.bind(mb, LoopKind::kBlock);
  out.bind(nb, LoopKind::kBlock);
  out.bind(mt, LoopKind::kThread);
  out.bind(nt, LoopKind::kThread);
  out.unroll(mv);
  out.vectorize(nv);
  Stage& acc = s[product];
  acc.compute_at(out, nt);
  acc.set_scope(StorageScope::kLocal);
  auto [ko, ki] = acc.split(acc.reduce_axes()[0], 8);
  acc.reorder({ko, ki, acc.axes()[0], acc.axes()[1]});
  acc.unroll(acc.axes()[0]);
  acc.unroll(acc.axes()[1]);
  for (const Tensor& tile : {a_shared, b_shared}) {
    Stage& stage = s[tile];
    stage.compute_at(acc, ko);
    stage.pad_rows(4);
    if (c.doubled) stage.double_buffer();
    auto [o, t] = stage.split(stage.fuse(stage.axes()[0], stage.axes()[1]), 64);
    stage.unroll(o);
    stage.bind(t, LoopKind::kThread);
  }
  check_against_expression(s, {a, b, bias}, y, &text);
}

TEST(GpuShared, TiledMatrixProductsNeedNoConditionsInsideTheirLoops) {
  std::string text;
  run_matrix_product({64, 64, 16}, text);
  EXPECT_THAT(text, HasSubstr("shared a.read: f32[384] align 16"));
  EXPECT_THAT(text, HasSubstr("barrier"));
  EXPECT_THAT(text, Not(HasSubstr("if ")));
}

TEST(GpuShared, TilesAreFilledWithZerosBeyondTheEnd) {
  for (auto [m, n, k] : {std::array<int64_t, 3>{40, 37, 20}, {7, 50, 9}, {33, 33, 10}, {1, 5, 3}}) {
    std::string text;
    run_matrix_product({m, n, k}, text);
    if (m > 32) EXPECT_THAT(text, HasSubstr("if_then_else"));
  }
}

TEST(GpuShared, TwoBuffersTakeTurns) {
  for (auto [m, n, k] : {std::array<int64_t, 3>{32, 64, 16}, {40, 37, 20}, {33, 33, 8}, {30, 20, 35}}) {
    std::string text;
    run_matrix_product({m, n, k, true}, text);
    size_t loop = text.find("for k.o");
    if (k <= 8) continue;  // a single tile
    ASSERT_NE(loop, std::string::npos);
    size_t last = text.rfind("barrier");
    EXPECT_EQ(text.find("barrier", loop), last) << "one barrier an iteration";
    EXPECT_LT(text.find("a.read.next[0] = ", loop), text.find("product[0] = product[0]"));
    EXPECT_GT(text.rfind("= a.read.next[0]"), text.rfind("product[0] = product[0]"));
  }
}

struct ReductionCase {
  ReduceKind kind;
  DType dtype;
  int64_t rows, columns, threads;
  int64_t lanes = 1;
};

class GpuReduction : public testing::TestWithParam<ReductionCase> {};

void PrintTo(const ReductionCase& c, std::ostream* out) {
  *out << name_of(c.kind) << " " << name_of(c.dtype) << " " << c.rows << "x" << c.columns << " by "
       << c.threads << "x" << c.lanes;
}

TEST_P(GpuReduction, ABlockReducesARow) {
  ReductionCase c = GetParam();
  Tensor x = placeholder({Expr(c.rows), Expr(c.columns)}, c.dtype, "x");
  auto k = reduce_axis(0, Expr(c.columns), "k");
  Tensor y = compute(
      {Expr(c.rows)},
      [&](auto& i) {
        return reduce(c.kind, x({i[0], k->var}), {k});
      },
      "y");
  Schedule s({y});
  s.for_gpu = true;
  Stage& out = s[y];
  out.bind(out.axes()[0], LoopKind::kBlock);
  auto [ko, ki] = out.split(out.reduce_axes()[0], Expr(c.threads * c.lanes));
  auto [kt, kv] = out.split(ki, Expr(c.lanes));
  out.bind(kt, LoopKind::kThread);
  if (c.lanes > 1) out.vectorize(kv);
  std::string text;
  check_against_expression(s, {x}, y, &text);
  EXPECT_THAT(text, HasSubstr("lane ^ 1"));
}

INSTANTIATE_TEST_SUITE_P(Kinds, GpuReduction,
                         testing::Values(ReductionCase{ReduceKind::kSum, DType::kF32, 3, 1000, 128},
                                         ReductionCase{ReduceKind::kSum, DType::kF32, 3, 1000, 128, 4},
                                         ReductionCase{ReduceKind::kSum, DType::kF64, 3, 77, 32},
                                         ReductionCase{ReduceKind::kMax, DType::kF32, 5, 33, 64},
                                         ReductionCase{ReduceKind::kMin, DType::kI32, 2, 100, 96},
                                         ReductionCase{ReduceKind::kSum, DType::kI64, 2, 100, 16},
                                         ReductionCase{ReduceKind::kProd, DType::kF32, 2, 9, 8},
                                         ReductionCase{ReduceKind::kAny, DType::kBool, 4, 50, 32},
                                         ReductionCase{ReduceKind::kAll, DType::kBool, 4, 50, 64},
                                         ReductionCase{ReduceKind::kSum, DType::kF16, 2, 40, 32},
                                         ReductionCase{ReduceKind::kMax, DType::kBF16, 2, 300, 256}));

struct Softmax {
  Tensor x, row_max, exps, row_sum, y;
  Softmax(Expr rows, Expr columns) {
    x = placeholder({rows, columns}, DType::kF32, "x");
    auto k = reduce_axis(0, columns, "k"), j = reduce_axis(0, columns, "j");
    row_max = compute(
        {rows},
        [&](auto& i) {
          return reduce(ReduceKind::kMax, x({i[0], k->var}), {k});
        },
        "row_max");
    exps = compute(
        {rows, columns}, [&](auto& i) { return call(MathFn::kExp, {x(i) - row_max({i[0]})}); }, "exps");
    row_sum = compute(
        {rows},
        [&](auto& i) {
          return sum(exps({i[0], j->var}), {j});
        },
        "row_sum");
    y = compute(
        {rows, columns}, [&](auto& i) { return exps(i) / row_sum({i[0]}); }, "y");
  }
};

/// A block a row, everything but the input and the output in shared memory.
TEST(GpuReductions, ASoftmaxIsOneLaunch) {
  for (StorageScope scope : {StorageScope::kShared, StorageScope::kLocal}) {
    for (int64_t columns : {7, 100, 128, 1000}) {
      Softmax t(Expr(5), Expr(columns));
      Schedule s({t.y});
      s.for_gpu = true;
      Stage& out = s[t.y];
      out.bind(out.axes()[0], LoopKind::kBlock);
      auto [co, ct] = out.split(out.axes()[1], 128);
      out.bind(ct, LoopKind::kThread);
      for (const Tensor& total : {t.row_max, t.row_sum}) {
        Stage& stage = s[total];
        stage.compute_at(out, out.axes()[0]);
        stage.set_scope(scope);
        auto [ko, kt] = stage.split(stage.reduce_axes()[0], 128);
        stage.bind(kt, LoopKind::kThread);
      }
      Stage& exps = s[t.exps];
      exps.compute_at(out, out.axes()[0]);
      exps.set_scope(StorageScope::kShared);
      auto [eo, et] = exps.split(exps.axes()[1], 128);
      exps.bind(et, LoopKind::kThread);
      std::string text;
      check_against_expression(s, {t.x}, t.y, &text);
      EXPECT_EQ(plan_launches(run_loop_passes(lower_schedule(s, {t.x}, "k"))).launches.size(), 1U);
    }
  }
}

/// Four rows a block, a warp each: no barrier is needed.
TEST(GpuReductions, AWarpReducesARowWithoutBarriers) {
  for (int64_t rows : {4, 10}) {
    for (int64_t columns : {20, 64, 100}) {
      Softmax t{Expr(rows), Expr(columns)};
      Schedule s({t.y});
      s.for_gpu = true;
      s[t.exps].compute_inline();
      Stage& out = s[t.y];
      auto [rb, rt] = out.split(out.axes()[0], 4);
      auto [co, ct] = out.split(out.axes()[1], 32);
      out.bind(rb, LoopKind::kBlock);
      out.bind(rt, LoopKind::kThread);
      out.bind(ct, LoopKind::kThread);
      for (const Tensor& total : {t.row_max, t.row_sum}) {
        Stage& stage = s[total];
        stage.compute_at(out, rt);
        stage.set_scope(StorageScope::kLocal);
        auto [ko, kt] = stage.split(stage.reduce_axes()[0], 32);
        stage.bind(kt, LoopKind::kThread);
      }
      std::string text;
      check_against_expression(s, {t.x}, t.y, &text);
      EXPECT_THAT(text, Not(HasSubstr("barrier")));
      EXPECT_THAT(text, HasSubstr("< 128 threads"));
    }
  }
}

/// The same with the row statistics in shared memory: their own rows are a thread-bound leaf too.
TEST(GpuReductions, SeveralRowsABlockShareMemory) {
  for (int64_t rows : {4, 10}) {
    Softmax t{Expr(rows), Expr(50)};
    Schedule s({t.y});
    s.for_gpu = true;
    Stage& out = s[t.y];
    auto [rb, rt] = out.split(out.axes()[0], 4);
    auto [co, ct] = out.split(out.axes()[1], 16);
    out.bind(rb, LoopKind::kBlock);
    out.bind(rt, LoopKind::kThread);
    out.bind(ct, LoopKind::kThread);
    for (const Tensor& total : {t.row_max, t.row_sum}) {
      Stage& stage = s[total];
      stage.compute_at(out, rb);
      stage.set_scope(StorageScope::kShared);
      auto [ko, kt] = stage.split(stage.reduce_axes()[0], 16);
      stage.bind(stage.axes()[0], LoopKind::kThread);
      stage.bind(kt, LoopKind::kThread);
    }
    Stage& exps = s[t.exps];
    exps.compute_at(out, rb);
    exps.set_scope(StorageScope::kShared);
    auto [eo, et] = exps.split(exps.fuse(exps.axes()[0], exps.axes()[1]), 64);
    exps.bind(et, LoopKind::kThread);
    std::string text;
    check_against_expression(s, {t.x}, t.y, &text);
  }
}

TEST(GpuShared, AStageWithoutThreadsOfItsOwnIsTheFirstThreadsWork) {
  Tensor x = placeholder({6}, DType::kF32, "x");
  auto k = reduce_axis(0, 6, "k");
  Tensor total = compute(
      {}, [&](auto&) { return sum(x({k->var}), {k}); }, "total");
  Tensor y = compute(
      {6}, [&](auto& i) { return x(i) - total({}); }, "y");
  Schedule s({y});
  s.for_gpu = true;
  Stage& out = s[y];
  auto [b, t] = out.split(out.axes()[0], 4);
  out.bind(b, LoopKind::kBlock);
  out.bind(t, LoopKind::kThread);
  s[total].compute_at(out, b);
  std::string text;
  check_against_expression(s, {x}, y, &text);
  EXPECT_THAT(text, HasSubstr("shared total"));
  EXPECT_THAT(text, HasSubstr("if thread < 1"));
}

/// The last block goes beyond the only image; what it needs of the rows is still one tile.
TEST(GpuShared, TilesOfFusedRowsAreIntervals) {
  Tensor x = placeholder({1, 5, 7, 3}, DType::kF32, "x");
  Tensor rows = compute(
      {35, 3},
      [&](auto& i) {
        return x({0, floordiv(i[0], Expr(7)), mod(i[0], Expr(7)), i[1]});
      },
      "rows");
  Tensor y = compute(
      {1, 5, 7, 3},
      [&](auto& i) {
        return rows({i[1] * Expr(7) + i[2], i[3]}) + x(i);
      },
      "y");
  Schedule s({y});
  s.for_gpu = true;
  Stage& out = s[y];
  auto row = out.fuse(out.fuse(out.axes()[0], out.axes()[1]), out.axes()[2]);
  auto [b, t] = out.split(row, 16);
  out.bind(b, LoopKind::kBlock);
  out.bind(t, LoopKind::kThread);
  s[rows].compute_at(out, b);
  s[rows].set_scope(StorageScope::kShared);
  s[rows].bind(s[rows].axes()[0], LoopKind::kThread);
  std::string text;
  check_against_expression(s, {x}, y, &text);
  EXPECT_THAT(text, HasSubstr("shared rows: f32[48]"));
}

/// y[i] = 2 x[i] + 2 x[count - 1 - i], of which each block of `threads` keeps all of 2 x in shared memory.
std::variant<LoopKernel, ScheduleMisfit> lower_twice(const Expr& count, int64_t threads) {
  Tensor x = placeholder({count}, DType::kF32, "x");
  Tensor twice = compute(
      {count}, [&](auto& i) { return x(i) + x(i); }, "twice");
  Tensor y = compute(
      {count}, [&](auto& i) { return twice(i) + twice({count - 1 - i[0]}); }, "y");
  Schedule s({y});
  s.for_gpu = true;
  Stage& out = s[y];
  auto [b, t] = out.split(out.axes()[0], threads);
  out.bind(b, LoopKind::kBlock);
  out.bind(t, LoopKind::kThread);
  s[twice].compute_at(out, b);
  s[twice].set_scope(StorageScope::kShared);
  return lower_kernel(s, {x}, "k");
}

TEST(GpuShared, WhatAsksForMoreThanThereIsGetsAReason) {
  const auto reason = [](const Expr& count, int64_t threads) {
    const auto lowered = lower_twice(count, threads);
    const auto* misfit = std::get_if<ScheduleMisfit>(&lowered);
    return misfit ? misfit->reason : "it fits";
  };
  EXPECT_EQ(reason(4096, 64), "it fits");
  EXPECT_EQ(reason(16384, 64), "65536 bytes of shared memory in one launch, at most 49152: twice (65536 bytes)");
  EXPECT_EQ(reason(symbol_var("N"), 64), "twice would take N elements of shared memory, which is not constant");
  EXPECT_EQ(reason(4096, 2048), "y would have 2048 threads a block, at most 1024 are possible");
}

TEST(GpuShared, WhatEachThreadKeepsIsLimited) {
  Tensor x = placeholder({64, 32768}, DType::kF32, "x");
  Tensor twice = compute(
      {64, 32768}, [&](auto& i) { return x(i) + x(i); }, "twice");
  Tensor y = compute(
      {64, 32768}, [&](auto& i) { return twice(i) + twice({i[0], Expr(32767) - i[1]}); }, "y");
  Schedule s({y});
  s.for_gpu = true;
  Stage& out = s[y];
  out.bind(out.axes()[0], LoopKind::kThread);
  s[twice].compute_at(out, out.axes()[0]);
  s[twice].set_scope(StorageScope::kLocal);
  const auto lowered = lower_kernel(s, {x}, "k");
  ASSERT_TRUE(std::holds_alternative<ScheduleMisfit>(lowered));
  EXPECT_EQ(std::get<ScheduleMisfit>(lowered).reason,
            "twice would take 32768 elements of each thread's own memory; that must be constant and at most 64 KiB");
}

TEST(GpuShared, ALibraryCallerWhoGivesSuchAScheduleIsToldSo) {
  Tensor x = placeholder({16384}, DType::kF32, "x");
  Tensor twice = compute(
      {16384}, [&](auto& i) { return x(i) + x(i); }, "twice");
  Tensor y = compute(
      {16384}, [&](auto& i) { return twice(i) + twice({Expr(16383) - i[0]}); }, "y");
  Schedule s({y});
  s.for_gpu = true;
  Stage& out = s[y];
  auto [b, t] = out.split(out.axes()[0], 64);
  out.bind(b, LoopKind::kBlock);
  out.bind(t, LoopKind::kThread);
  s[twice].compute_at(out, b);
  s[twice].set_scope(StorageScope::kShared);
  try {
    run_loop_passes(lower_schedule(s, {x}, "k"));
    FAIL();
  } catch (const std::exception& error) {
    EXPECT_THAT(error.what(), HasSubstr("twice (65536 bytes)"));
  }
}

}  // namespace
}  // namespace gantry::test
