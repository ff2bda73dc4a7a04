// Loops bound to blocks and threads become launches.
#include "host/loops/launch.h"
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

}  // namespace
}  // namespace gantry::test
