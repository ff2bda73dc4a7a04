// Loops bound to blocks and threads become launches.
#include "host/loops/launch.h"
#include "host/support/error.h"
#include "tests/loops/run_schedule.h"

namespace gantry::test {
namespace {

using testing::HasSubstr;

TEST(GpuLaunch, BoundLoopsOfAnElementwiseStageBecomeOneLaunch) {
  Expr n = symbol_var("N");
  Tensor x = placeholder({n, 6}, DType::kF32, "x");
  Tensor y = compute(
      {n, 6}, [&](auto& i) { return x(i) + x(i); }, "y");
  Schedule s({y});
  s.for_gpu = true;
  Stage& out = s[y];
  auto fused = out.fuse(out.axes()[0], out.axes()[1]);
  auto [b, t] = out.split(fused, 32);
  out.bind(b, LoopKind::kBlock);
  out.bind(t, LoopKind::kThread);
  for (int64_t size : {1, 5, 16, 33}) {
    Floats data = random_floats(static_cast<size_t>(size * 6)), expected;
    for (float f : data) expected.push_back(2 * f);
    std::string text;
    EXPECT_EQ(run_schedule(s, {x}, {data}, data.size(), {{"N", size}}, &text), expected);
    EXPECT_THAT(text, HasSubstr("block.x < floordiv(N * 3 + 15, 16)"));
    EXPECT_THAT(text, HasSubstr("< 32 threads"));
    EXPECT_THAT(text,
                HasSubstr("y[block.x * 32 + thread] = x[block.x * 32 + thread] + x[block.x * 32 + thread]"));
  }
}

TEST(GpuLaunch, ANestWithoutBoundLoopsIsOneThread) {
  Tensor x = placeholder({4}, DType::kF32, "x");
  Tensor a = compute(
      {4}, [&](auto& i) { return x(i) + x(i); }, "a");
  Tensor y = compute(
      {4}, [&](auto& i) { return a(i) + x(i); }, "y");
  Schedule s({y});
  s.for_gpu = true;
  std::string text;
  EXPECT_EQ(run_schedule(s, {x}, {{1, 2, 3, 4}}, 4, {}, &text), (Floats{3, 6, 9, 12}));
  LoopKernel kernel = run_loop_passes(lower_schedule(s, {x}, "k"));
  LaunchPlan plan = plan_launches(kernel);
  ASSERT_EQ(plan.launches.size(), 2U);
  EXPECT_EQ(plan.launches[0].threads, 1);
  EXPECT_EQ(plan.launches[1].shared_bytes, 0);
  EXPECT_EQ(plan.launches[1].loop, -1);
}

TEST(GpuLaunch, NestedThreadLeavesAreDigitsOfOneIndex) {
  Tensor x = placeholder({10, 70}, DType::kF32, "x");
  Tensor y = compute(
      {70, 10},
      [&](auto& i) {
        return x({i[1], i[0]});
      },
      "y");
  Schedule s({y});
  s.for_gpu = true;
  Stage& out = s[y];
  auto [bi, ti, bj, tj] = [&] {
    auto [a, b] = out.split(out.axes()[0], 8);
    auto [c, d] = out.split(out.axes()[1], 4);
    out.reorder({a, c, b, d});
    return std::array{a, b, c, d};
  }();
  out.bind(bi, LoopKind::kBlock);
  out.bind(bj, LoopKind::kBlock);
  out.bind(ti, LoopKind::kThread);
  out.bind(tj, LoopKind::kThread);
  Floats data = random_floats(700), expected;
  for (size_t i = 0; i < 70; ++i)
    for (size_t j = 0; j < 10; ++j) expected.push_back(data[j * 70 + i]);
  std::string text;
  EXPECT_EQ(run_schedule(s, {x}, {data}, 700, {}, &text), expected);
  EXPECT_THAT(text, HasSubstr("< 32 threads"));
  EXPECT_THAT(text, HasSubstr("launch block.x < 3, block.y < 9, block.z < 1,"));
}

TEST(GpuLaunch, GridsTooLargeForTheirDimensionShareTheFirst) {
  Expr n = symbol_var("N");
  Expr b = make_var("b"), c = make_var("c"), t = make_var("t");
  auto y = std::make_shared<BufferNode>(BufferNode{"y", DType::kF32, n * Expr(8), BufferScope::kArgument, 4});
  Stmt nest =
      for_loop(b, 0, n, LoopKind::kBlock,
               for_loop(c, 0, 2, LoopKind::kBlock,
                        for_loop(t, 0, 4, LoopKind::kThread,
                                 store(y, b * Expr(8) + c * Expr(4) + t, float_imm(DType::kF32, 1)))));
  std::string text = to_string(simplify_loops(bind_launches(nest)));
  EXPECT_THAT(text, HasSubstr("launch block.x < 2 * N, block.y < 1, block.z < 1, thread < 4 threads"));
  EXPECT_THAT(text, HasSubstr("y[block.x * 4 + thread]")) << text;
}

TEST(GpuLaunch, ThreadLoopsOfFewerThreadsAreConditions) {
  Expr b = make_var("b"), t = make_var("t"), u = make_var("u");
  auto y = std::make_shared<BufferNode>(BufferNode{"y", DType::kF32, Expr(160), BufferScope::kArgument, 4});
  Stmt nest = for_loop(
      b, 0, 1, LoopKind::kBlock,
      block({for_loop(t, 0, 128, LoopKind::kThread, store(y, t, float_imm(DType::kF32, 1))),
             for_loop(u, 0, 32, LoopKind::kThread, store(y, u + Expr(128), float_imm(DType::kF32, 2)))}));
  std::string text = to_string(bind_launches(nest));
  EXPECT_THAT(text, HasSubstr("if thread < 32 {")) << text;
  EXPECT_THAT(text, HasSubstr("< 128 threads")) << text;
}

LoopKernel neighbour_kernel(bool with_barrier) {
  Expr b = make_var("b"), t = make_var("t");
  auto y = std::make_shared<BufferNode>(BufferNode{"y", DType::kI64, Expr(8), BufferScope::kArgument, 8});
  auto row = std::make_shared<BufferNode>(BufferNode{"row", DType::kI64, Expr(8), BufferScope::kShared, 16});
  std::vector<Stmt> steps = {store(row, t, t)};
  if (with_barrier) steps.push_back(barrier());
  steps.push_back(store(y, t, load(row, Expr(7) - t)));
  LoopKernel kernel;
  kernel.name = "neighbours";
  kernel.arguments = {y};
  kernel.body = for_loop(b, 0, 1, LoopKind::kBlock,
                         for_loop(t, 0, 8, LoopKind::kThread, allocate(row, block(std::move(steps)))));
  return kernel;
}

TEST(GpuLaunch, TheEvaluatorFindsRacesBetweenThreads) {
  std::vector<int64_t> y(8);
  std::vector<std::span<std::byte>> arguments = {std::as_writable_bytes(std::span<int64_t>(y))};
  evaluate(neighbour_kernel(true), arguments);
  EXPECT_THAT(y, testing::ElementsAre(7, 6, 5, 4, 3, 2, 1, 0));
  EXPECT_ANY_THROW(evaluate(neighbour_kernel(false), arguments));
}

/// Sums over k of x, (columns, k) or (rows, columns, k), and y, (rows, columns), twice the sums; both are
/// outputs. A thread has a row of y, and adds up there the sums that it reads, which are too many for
/// accumulators beside the result.
struct AttachedSums {
  static constexpr int64_t kColumns = 4100;
  IterVarPtr k = reduce_axis(0, 3, "k");
  Tensor x, sums, y;
  Schedule schedule;

  explicit AttachedSums(bool of_rows)
      : x(placeholder(of_rows ? std::vector<Expr>{2, kColumns, 3} : std::vector<Expr>{kColumns, 3},
                      DType::kF32, "x")),
        sums(compute(
            of_rows ? std::vector<Expr>{2, kColumns} : std::vector<Expr>{kColumns},
            [&](const std::vector<Expr>& i) {
              std::vector<Expr> at = i;
              at.push_back(k->var);
              return sum(x(at), {k});
            },
            "sums")),
        y(compute(
            {2, kColumns},
            [&](const std::vector<Expr>& i) {
              const Expr read = of_rows ? sums(i) : sums({i[1]});
              return read + read;
            },
            "y")),
        schedule({sums, y}) {
    schedule.for_gpu = true;
    Stage &out = schedule[y], &made = schedule[sums];
    out.bind(out.axes()[0], LoopKind::kThread);
    made.compute_at(out, out.axes()[0]);
    std::vector<IterVarPtr> order = made.axes();
    order.insert(order.begin(), k);
    made.reorder(order);
  }

  std::string refusal() const {
    try {
      lower_schedule(schedule, {x}, "k");
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
};

TEST(GpuOutputs, ThreadsAddUpSumsOfTheirOwnWhereTheyAreRead) {
  AttachedSums t(true);
  Floats data = random_floats(2 * AttachedSums::kColumns * 3), sums(data.size() / 3), y(sums.size());
  Floats expected, twice;
  for (size_t i = 0; i < data.size(); i += 3) {
    expected.push_back(data[i] + data[i + 1] + data[i + 2]);
    twice.push_back(2 * expected.back());
  }
  evaluate(run_loop_passes(lower_schedule(t.schedule, {t.x}, "k")),
           {bytes_of(data), bytes_of(sums), bytes_of(y)});
  EXPECT_EQ(sums, expected);
  EXPECT_EQ(y, twice);
}

TEST(GpuOutputs, ThreadsDoNotAddUpTheSameSums) {
  const AttachedSums t(false);
  EXPECT_THAT(t.refusal(), HasSubstr("sums is an output of which blocks or threads would add up the same"));
}

TEST(GpuOutputs, BlocksDoNotAddUpTheSameSums) {
  AttachedSums t(false);
  Stage& out = t.schedule[t.y];
  out.bind(out.axes()[0], LoopKind::kBlock);
  t.schedule[t.sums].set_scope(StorageScope::kLocal);
  EXPECT_THAT(t.refusal(), HasSubstr("sums is an output of which blocks or threads would add up the same"));
}

TEST(GpuOutputs, ThreadsDoNotReadWhatOthersStoreMeanwhile) {
  AttachedSums t(true);
  t.schedule[t.sums].bind(t.schedule[t.sums].axes()[1], LoopKind::kThread);
  EXPECT_THAT(t.refusal(), HasSubstr("sums is an output: attached to y its own loops cannot be bound"));
}

}  // namespace
}  // namespace gantry::test
