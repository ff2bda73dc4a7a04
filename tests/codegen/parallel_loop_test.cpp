// Parallel loops: how a kernel gets its iterations from the host that runs it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <numeric>

#include "host/codegen/find_target.h"
#include "tests/codegen/codegen_cases.h"
#include "tests/codegen/run_kernel.h"

namespace gantry {
namespace {

using codegen_cases::multiply_add_kernel;

struct SplitHost {
  int calls = 0;
  int32_t fail_with = 0;
};
int32_t split_in_two(void* context, GantryLoopBody body, void* closure, int64_t count) {
  auto* host = static_cast<SplitHost*>(context);
  ++host->calls;
  if (host->fail_with != 0) return host->fail_with;
  if (int32_t code = body(closure, 0, count / 2)) return code;
  return body(closure, count / 2, count);
}

TEST(ParallelLoop, RunsThroughTheHostsParallelFor) {
  SplitHost state;
  GantryKernelHost host{GANTRY_KERNEL_ABI_VERSION, sizeof(GantryKernelHost), &state, split_in_two};
  std::vector<float> a(10, 3), b(10, 4), c(10);
  ASSERT_EQ(run_kernel(multiply_add_kernel(LoopKind::kParallel), {a.data(), b.data(), c.data()}, {10}, &host),
            0);
  EXPECT_EQ(state.calls, 1);
  EXPECT_THAT(c, ::testing::Each(14.0f));
}

struct RoundsHost {
  SplitHost ranges;  // first: split_in_two() reads it
  int64_t rounds = 0, count = 0;
};
int32_t note_rounds(void* context, GantryLoopBody body, void* closure, int64_t rounds, int64_t count) {
  auto* host = static_cast<RoundsHost*>(context);
  host->rounds = rounds;
  host->count = count;
  for (int64_t r = 0; r < rounds; ++r)
    if (int32_t code = body(closure, r * count, (r + 1) * count)) return code;
  return 0;
}

TEST(ParallelLoop, RunsInRoundsWhereTheHostHasThem) {
  Buffer out = argument("out", DType::kF32, 12);
  Expr i = make_var("i");
  const Stmt loop = for_loop(i, 0, 12, LoopKind::kParallel, store(out, i, cast(DType::kF32, i)), 3);
  for (uint32_t version : {3u, 4u}) {
    RoundsHost state;
    GantryKernelHost host{version,    sizeof(GantryKernelHost), &state, split_in_two, nullptr, nullptr,
                          note_rounds};
    std::vector<float> c(12, -1), expected(12);
    std::iota(expected.begin(), expected.end(), 0.0f);
    ASSERT_EQ(run_kernel(make_kernel("rounds", {out}, loop), {c.data()}, {}, &host), 0);
    EXPECT_EQ(c, expected);
    // A host of an earlier version has no such member.
    EXPECT_EQ(state.ranges.calls, version < 4 ? 1 : 0);
    EXPECT_EQ(state.rounds, version < 4 ? 0 : 3);
    EXPECT_EQ(state.count, version < 4 ? 0 : 4);
  }
}

/// A host of one thread that runs a loop in two ranges, and changes the loop's input between them.
struct OnceHost {
  std::array<float, 4> input{1, 2, 3, 4};
  alignas(64) std::array<float, 16> memory{};
  int32_t first = 1;
};
int32_t split_and_change_input(void* context, GantryLoopBody body, void* closure, int64_t count) {
  auto* host = static_cast<OnceHost*>(context);
  if (int32_t code = body(closure, 0, count / 2)) return code;
  host->first = 0;
  host->input.fill(100);
  return body(closure, count / 2, count);
}
void* memory_of_once_host(void* context, int64_t) {
  return static_cast<OnceHost*>(context)->memory.data();
}
int32_t first_of_once_host(void* context) {
  return static_cast<OnceHost*>(context)->first;
}

/// out[i] = twice in[i % 4] as it was when the running thread first met the loop.
LoopKernel once_kernel() {
  const Buffer in = argument("in", DType::kF32, 4), out = argument("out", DType::kF32, 8),
               twice = local_buffer("twice", DType::kF32, 4);
  std::const_pointer_cast<BufferNode>(twice)->scope = BufferScope::kThread;
  const Expr i = make_var("i"), j = make_var("j");
  const Stmt make = for_loop(j, 0, 4, LoopKind::kSerial, store(twice, j, load(in, j) + load(in, j)));
  const Stmt use = store(out, i, load(twice, mod(i, Expr(4))));
  return make_kernel("once", {in, out},
                     for_loop(i, 0, 8, LoopKind::kParallel, allocate(twice, block({once(make), use}))));
}

TEST(ParallelLoop, WhatAThreadMakesOnceIsThereInItsLaterRanges) {
  for (uint32_t version : {4u, 5u}) {
    OnceHost state;
    GantryKernelHost host{version, sizeof(GantryKernelHost), &state,  split_and_change_input,
                          nullptr, memory_of_once_host,      nullptr, first_of_once_host};
    std::vector<float> out(8);
    ASSERT_EQ(run_kernel(once_kernel(), {state.input.data(), out.data()}, {}, &host), 0);
    // A host of an earlier version does not say which range is a thread's first: all make it.
    const float later = version < 5 ? 200 : 0;
    for (size_t i = 0; i < 8; ++i)
      EXPECT_EQ(out[i], i >= 4 && later != 0 ? later : 2 * float(i % 4 + 1)) << "version " << version;
  }
}

TEST(ParallelLoop, RunsInTheCallingThreadForOneIterationOrWithoutAHost) {
  SplitHost state;
  GantryKernelHost host{GANTRY_KERNEL_ABI_VERSION, sizeof(GantryKernelHost), &state, split_in_two};
  LoadedImage image(
      build_image(std::vector{multiply_add_kernel(LoopKind::kParallel)}, find_target("native"), 1));
  GantryKernelFn kernel = image.kernel("multiply_add");
  std::vector<float> a(10, 3), b(10, 4), c(10);
  std::vector<void*> buffers{a.data(), b.data(), c.data()};
  int64_t dims[] = {1};
  ASSERT_EQ(kernel(&host, buffers.data(), dims), 0);
  EXPECT_EQ(state.calls, 0);
  EXPECT_EQ(c[0], 14.0f);
  EXPECT_EQ(c[1], 0.0f);
  dims[0] = 10;
  ASSERT_EQ(kernel(nullptr, buffers.data(), dims), 0);
  EXPECT_THAT(c, ::testing::Each(14.0f));
  dims[0] = 0;
  EXPECT_EQ(kernel(&host, buffers.data(), dims), 0);
  EXPECT_EQ(state.calls, 0);
}

TEST(ParallelLoop, AnErrorOfTheHostBecomesTheKernelsResult) {
  SplitHost state{.fail_with = 42};
  GantryKernelHost host{GANTRY_KERNEL_ABI_VERSION, sizeof(GantryKernelHost), &state, split_in_two};
  std::vector<float> a(10), b(10), c(10);
  EXPECT_EQ(run_kernel(multiply_add_kernel(LoopKind::kParallel), {a.data(), b.data(), c.data()}, {10}, &host),
            42);
}

TEST(ParallelLoop, SeesVariablesAndLocalBuffersOfTheCodeAroundIt) {
  Buffer in = argument("in", DType::kF32, 4), out = argument("out", DType::kF32, 8);
  Buffer sum = local_buffer("sum", DType::kF32, 1);
  Expr i = make_var("i"), j = make_var("j"), scale = make_var("scale", DType::kF32);
  Stmt accumulate = for_loop(i, 0, 4, LoopKind::kSerial, store(sum, 0, load(sum, 0) + load(in, i)));
  Stmt use =
      for_loop(j, 2, 5, LoopKind::kParallel, store(out, j, load(sum, 0) * scale + cast(DType::kF32, j)));
  Stmt body = allocate(
      sum, block({store(sum, 0, float_imm(DType::kF32, 0)), accumulate, let(scale, load(in, 0), use)}));
  SplitHost state;
  GantryKernelHost host{GANTRY_KERNEL_ABI_VERSION, sizeof(GantryKernelHost), &state, split_in_two};
  std::vector<float> a{2, 3, 4, 5}, c(8, 0);
  ASSERT_EQ(run_kernel(make_kernel("closure", {in, out}, body), {a.data(), c.data()}, {}, &host), 0);
  EXPECT_THAT(c, ::testing::ElementsAre(0, 0, 30, 31, 32, 33, 34, 0));
}

}  // namespace
}  // namespace gantry
