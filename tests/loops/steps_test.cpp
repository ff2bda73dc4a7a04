// The steps of lowering, as they are seen from outside.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/loops/lower.h"

namespace gantry {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Seen {
  std::vector<std::string> names;
  std::map<std::string, LoopKernel> kernels;

  LoopObserver observer() {
    return [this](std::string_view step, const LoopKernel& kernel) {
      names.emplace_back(step);
      kernels[names.back()] = kernel;
    };
  }
  std::string text(const std::string& step) const { return to_string(kernels.at(step)); }
};

/// y = relu(padded x summed over windows of 3), in vectors of 4.
struct Windows {
  Expr n = symbol_var("N");
  Tensor x = placeholder({n}, DType::kF32, "x");
  Tensor pad = compute(
      {n + 2},
      [&](const auto& i) {
        return if_then_else(ge(i[0], Expr(1)) && le(i[0], n), x({i[0] - 1}), float_imm(DType::kF32, 0));
      },
      "pad");
  IterVarPtr k = reduce_axis(0, 3, "k");
  Tensor sums = compute(
      {n}, [&](const auto& i) { return sum(pad({i[0] + k->var}), {k}); }, "sums");
  Tensor y = compute(
      {n}, [&](const auto& i) { return max(sums(i), float_imm(DType::kF32, 0)); }, "y");
};

TEST(LoweringSteps, ComeInTheirOrderFromTheScheduleOn) {
  const Windows nodes;
  Schedule s({nodes.y});
  Seen seen;
  const auto lowered = lower_kernel(s, {nodes.x}, "k", seen.observer());
  ASSERT_TRUE(std::holds_alternative<LoopKernel>(lowered));
  EXPECT_THAT(seen.names, ElementsAre("schedule", "inline_stages", "place_arguments", "make_loops", "place_buffers",
                                      "build_nests", "simplify", "peel_edges", "simplify_peeled", "partition_guards",
                                      "vectorize", "transpose_blocks", "unroll", "narrow_vectors", "unmask_locals",
                                      "unmask_updates", "simplify_unrolled", "hoist_indices"));
  EXPECT_EQ(seen.text("hoist_indices"), to_string(std::get<LoopKernel>(lowered)));
}

TEST(LoweringSteps, TwoCallsMakeWhatOneDoes) {
  const Windows nodes;
  Schedule s({nodes.y});
  s[nodes.pad].compute_inline();
  Seen one, two;
  const auto whole = lower_kernel(s, {nodes.x}, "k", one.observer());
  const LoopKernel parts = run_loop_passes(lower_schedule(s, {nodes.x}, "k", two.observer()), two.observer());
  EXPECT_EQ(to_string(std::get<LoopKernel>(whole)), to_string(parts));
  EXPECT_EQ(one.names, two.names);
}

TEST(LoweringSteps, StagesShowWhatIsKnownOfThem) {
  const Windows nodes;
  Schedule s({nodes.y});
  const auto [outer, inner] = s[nodes.y].split(s[nodes.y].axes()[0], 4);
  s[nodes.y].parallel(outer);
  s[nodes.y].vectorize(inner);
  s[nodes.pad].compute_inline();
  s[nodes.sums].compute_at(s[nodes.y], outer);
  Seen seen;
  lower_schedule(s, {nodes.x}, "k", seen.observer());
  EXPECT_EQ(seen.text("schedule"), R"(kernel k
  stage pad: f32[N + 2] inline
    = if_then_else(i0 >= 1 && i0 <= N, x[i0 - 1], 0.0)
  stage sums: f32[N] at i0.o of y
    axes i0 in [0, +N), k in [0, +3)
    for i0
    for reduce k
    = sum(pad[i0 + k], over k)
  stage y: f32[N] at root
    axes i0 in [0, +N)
    split i0 by 4: i0.o, i0.i
    parallel for i0.o
    vectorized for i0.i
    = max(sums[i0], 0.0)
)");
  EXPECT_EQ(seen.text("place_buffers"), R"(kernel k
  input x: f32[N] align 4
  output y: f32[N] align 4
  stage sums: f32[N] at i0.o of y
    region i0 in [i0.o * 4, +4)
    for i0 in [0, +4)
    for reduce k in [0, +3)
    at i0 = i0.o * 4 + i0
    at k = k
    if i0.o * 4 + i0 < N  // within the tensor
    = sum(if_then_else(i0 + k >= 1 && i0 + k <= N, x[i0 + k - 1], 0.0), over k)
    a part in sums: f32[4] align 64
  stage y: f32[N] at root
    region i0 in [0, +N)
    parallel for i0.o in [0, +floordiv(N + 3, 4))
    vectorized for i0.i in [0, +4)
    at i0 = i0.o * 4 + i0.i
    if i0.o * 4 + i0.i < N  // within the axis
    = max(sums[i0], 0.0)
    in y: f32[N] align 4
)");
  EXPECT_EQ(seen.kernels.at("place_buffers").body.get(), nullptr);
}

TEST(LoweringSteps, AGpusStagesShowTheirThreads) {
  Tensor x = placeholder({64}, DType::kF32, "x");
  Tensor y = compute(
      {64}, [&](const auto& i) { return x(i) + x(i); }, "y");
  Schedule gpu({y});
  gpu.for_gpu = true;
  const auto [block, thread] = gpu[y].split(gpu[y].axes()[0], 32);
  gpu[y].bind(block, LoopKind::kBlock);
  gpu[y].bind(thread, LoopKind::kThread);
  Seen seen;
  lower_kernel(gpu, {x}, "k", seen.observer());
  EXPECT_THAT(seen.text("assign_threads"), HasSubstr("    block for i0.o in [0, +2)\n    thread for i0.i in [0, +32)\n"));
  EXPECT_THAT(seen.text("assign_threads"), HasSubstr("    threads thread of 32\n"));
  EXPECT_THAT(seen.names, testing::IsSupersetOf({"assign_threads", "bind_launches"}));
}

}  // namespace
}  // namespace gantry
