// Broken kernels, each found and named by the runtime's checker; correct ones are clean.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "device_runtime/src/gpu_checker.h"
#include "tests/codegen/run_kernel.h"
#include "tests/loops/gpu_kernels.h"

namespace gantry {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// What the checker says of a run; empty if it is clean.
std::string problem_of(const LoopKernel& kernel, const std::vector<void*>& buffers,
                       const std::vector<int64_t>& dims = {}) {
  runtime::GpuChecker checker;
  GantryKernelHost host{GANTRY_KERNEL_ABI_VERSION, sizeof(GantryKernelHost), nullptr, nullptr,
                        checker.table()};
  const int32_t code = run_kernel(kernel, buffers, dims, &host, "cuda-emulated+checks");
  EXPECT_EQ(code, checker.problem().empty() ? 0 : GANTRY_KERNEL_CHECK_FAILED);
  return checker.problem();
}

/// A kernel of one argument with 64 floats, 2 blocks of 32 threads, and shared memory for 32 floats.
std::string problem_of_body(const std::function<Stmt(const test::Grid&, Buffer out, Buffer shared)>& body,
                            int64_t blocks = 2) {
  const Buffer out = test::gpu_buffer("out", DType::kF32, 64),
               shared = test::shared_buffer("room", DType::kF32, 32);
  const test::Grid g;
  const LoopKernel kernel =
      test::gpu_kernel("k", {}, {out}, g.run(Expr(blocks), 32, allocate(shared, body(g, out, shared))));
  std::vector<float> data(64, 7);
  return problem_of(kernel, {data.data()});
}

Expr one() {
  return float_imm(DType::kF32, 1);
}

TEST(GpuChecks, ATransposeWithItsBarrierIsCleanAndRight) {
  const int rows = 50, columns = 37;
  std::vector<float> in(rows * columns), out(rows * columns, NAN);
  std::iota(in.begin(), in.end(), 0.0f);
  EXPECT_EQ(problem_of(test::transpose_kernel(), {in.data(), out.data()}, {rows, columns}), "");
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < columns; ++c) ASSERT_EQ(out[c * rows + r], in[r * columns + c]);
  }
}

TEST(GpuChecks, AMissingBarrierIsFoundWhoeverComesFirst) {
  // The emulated threads run in order: thread 1 reads what thread 16 is still to store.
  std::vector<float> in(32 * 32), out(32 * 32);
  EXPECT_THAT(problem_of(test::transpose_kernel(false), {in.data(), out.data()}, {32, 32}),
              AllOf(HasSubstr("launch 1, block (0, 0, 0), thread 1: loads element 17 of shared buffer tile"),
                    HasSubstr("a barrier is missing")));
  EXPECT_THAT(problem_of_body([](const test::Grid& g, const Buffer& out, const Buffer& room) {
                return block({store(room, g.t, one()), store(out, g.x * 32 + g.t, load(room, g.t / 2))});
              }),
              AllOf(HasSubstr("thread 1: loads element 0 of shared buffer room"),
                    HasSubstr("which thread 0 has stored with no barrier between (a race between threads)")));
}

TEST(GpuChecks, ABlockReductionAndATiledMatrixProductAreClean) {
  std::vector<float> in(3 * 150, 1), sums(3);
  EXPECT_EQ(problem_of(test::row_sum_kernel(), {in.data(), sums.data()}, {3, 150}), "");
  EXPECT_THAT(sums, ::testing::Each(150));
  std::vector<float> a(64 * 64, 1), b(64 * 64, 2), c(64 * 64);
  EXPECT_EQ(problem_of(test::matmul_kernel(64, 64, 64), {a.data(), b.data(), c.data()}), "");
  EXPECT_THAT(c, ::testing::Each(128));
}

TEST(GpuChecks, AReadOfSharedMemoryThatNobodyStoredToIsFound) {
  std::vector<float> in(150, 1), sums(1);
  EXPECT_THAT(
      problem_of(test::row_sum_kernel(false), {in.data(), sums.data()}, {1, 150}),
      AllOf(HasSubstr("thread 0: loads element 1 of shared buffer partial"), HasSubstr("uninitialised")));
}

TEST(GpuChecks, SharedMemoryOfTheBlockBeforeIsUninitialised) {
  EXPECT_THAT(problem_of_body([](const test::Grid& g, const Buffer& out, const Buffer& room) {
                return block({if_stmt(eq(g.x, 0), store(room, g.t, one())), barrier(),
                              store(out, g.x * 32 + g.t, load(room, g.t))});
              }),
              AllOf(HasSubstr("block (1, 0, 0), thread 0: loads element 0"), HasSubstr("uninitialised")));
}

TEST(GpuChecks, AnAccessOneBeyondTheEndIsFoundAndNotDone) {
  std::vector<float> data(40, 7);
  const Buffer out = test::gpu_buffer("out", DType::kF32, 33);
  const test::Grid g;
  const LoopKernel kernel = test::gpu_kernel("k", {}, {out}, g.run(2, 32, store(out, g.x * 32 + g.t, one())));
  EXPECT_THAT(
      problem_of(kernel, {data.data()}),
      HasSubstr("launch 1, block (1, 0, 0), thread 1: stores to element 33 of buffer out, which has 33"));
  EXPECT_EQ(data[32], 1);
  EXPECT_EQ(data[33], 7);
}

TEST(GpuChecks, ALoadBeforeTheFirstElementOfAnInputIsFound) {
  std::vector<float> in(64), out(64);
  const Buffer a = test::gpu_buffer("a", DType::kF32, 64), c = test::gpu_buffer("c", DType::kF32, 64);
  const test::Grid g;
  const Expr i = g.x * 32 + g.t;
  const LoopKernel kernel = test::gpu_kernel("k", {a}, {c}, g.run(2, 32, store(c, i, load(a, i - 1))));
  EXPECT_THAT(problem_of(kernel, {in.data(), out.data()}),
              HasSubstr("thread 0: loads element -1 of buffer a, which has 64"));
}

TEST(GpuChecks, LanesOfAVectorThatAreSwitchedOffAreNotAccessed) {
  std::vector<float> in(5, 3), out(5);
  const Buffer a = test::gpu_buffer("a", DType::kF32, 5), c = test::gpu_buffer("c", DType::kF32, 5);
  const test::Grid g;
  const Expr at = ramp(g.t * 4, 1, 4), inside = lt(at, broadcast(5, 4));
  auto kernel = [&](const Expr& predicate) {
    return test::gpu_kernel("k", {a}, {c}, g.run(1, 2, store(c, at, load(a, at, inside), predicate)));
  };
  EXPECT_EQ(problem_of(kernel(inside), {in.data(), out.data()}), "");
  EXPECT_THAT(out, ::testing::Each(3));
  EXPECT_THAT(problem_of(kernel({}), {in.data(), out.data()}), HasSubstr("stores to element 5 of buffer c"));
}

TEST(GpuChecks, TwoBlocksThatStoreToOneElementAreARace) {
  EXPECT_THAT(
      problem_of_body(
          [](const test::Grid& g, const Buffer& out, const Buffer&) { return store(out, g.t, one()); }),
      AllOf(HasSubstr("block (1, 0, 0), thread 0: stores to element 0 of buffer out"),
            HasSubstr("thread 0 of block (0, 0, 0) has stored in the same launch (a race between blocks)")));
}

TEST(GpuChecks, ABlockThatLoadsWhatAnotherStoresIsARaceInEitherOrder) {
  auto body = [](int64_t writer) {
    return [writer](const test::Grid& g, const Buffer& out, const Buffer& room) {
      Stmt put = store(out, g.t, one());
      Stmt get = store(room, g.t, load(out, g.t));
      // An output is undefined at first, so the readers' elements are stored by an earlier part of the
      // kernel.
      return if_stmt(eq(g.x, Expr(writer)), put, get);
    };
  };
  EXPECT_THAT(problem_of_body(body(0)),
              HasSubstr("loads element 0 of buffer out, which thread 0 of block (0, 0, 0) has stored"));
  const Buffer out = test::gpu_buffer("out", DType::kF32, 64),
               room = test::shared_buffer("room", DType::kF32, 32);
  const test::Grid first, second;
  LoopKernel kernel =
      test::gpu_kernel("k", {}, {out},
                       block({first.run(2, 32, store(out, first.x * 32 + first.t, one())),
                              second.run(2, 32, allocate(room, body(1)(second, out, room)))}));
  std::vector<float> data(64);
  EXPECT_THAT(problem_of(kernel, {data.data()}),
              AllOf(HasSubstr("launch 2, block (1, 0, 0)"), HasSubstr("stores to element 0 of buffer out"),
                    HasSubstr("block (0, 0, 0) has loaded in the same launch")));
}

TEST(GpuChecks, ALaunchMayReadWhatTheLaunchBeforeStored) {
  const Buffer out = test::gpu_buffer("out", DType::kF32, 64),
               copy = test::gpu_buffer("copy", DType::kF32, 64, BufferScope::kScratch);
  const test::Grid g, h;
  LoopKernel kernel =
      test::gpu_kernel("k", {}, {out},
                       block({g.run(2, 32, store(copy, g.x * 32 + g.t, one())),
                              h.run(2, 32, store(out, h.x * 32 + h.t, load(copy, 63 - (h.x * 32 + h.t))))}));
  kernel.scratch = {copy};
  std::vector<float> data(64), room(64);
  EXPECT_EQ(problem_of(kernel, {data.data(), room.data()}), "");
  EXPECT_THAT(data, ::testing::Each(1));
}

TEST(GpuChecks, ScratchThatIsReadBeforeItIsStoredIsFound) {
  EXPECT_THAT(problem_of_body([](const test::Grid& g, const Buffer& out, const Buffer&) {
                return store(out, g.x * 32 + g.t, load(out, g.x * 32 + g.t) + one());
              }),
              HasSubstr("loads element 0 of buffer out, which the kernel has not stored to"));
}

TEST(GpuChecks, AStoreToWhatOthersReadInTheSameIntervalIsARace) {
  EXPECT_THAT(problem_of_body([](const test::Grid& g, const Buffer& out, const Buffer& room) {
                return block({store(room, g.t, one()), barrier(),
                              store(out, g.x * 32 + g.t, load(room, mod(g.t + 1, 32))),
                              store(room, g.t, one() + one())});
              }),
              AllOf(HasSubstr("thread 1: stores to element 1 of shared buffer room"),
                    HasSubstr("which thread 0 has loaded")));
}

TEST(GpuChecks, AConditionOnSharedMemoryIsReadByAllThreads) {
  auto body = [](bool with_barrier) {
    return [with_barrier](const test::Grid& g, const Buffer& out, const Buffer& room) {
      return block({if_stmt(eq(g.t, 0), store(room, 0, one())), with_barrier ? barrier() : Stmt(),
                    if_stmt(gt(load(room, 0), float_imm(DType::kF32, 0)),
                            block({barrier(), store(out, g.x * 32 + g.t, one())}))});
    };
  };
  EXPECT_EQ(problem_of_body(body(true)), "");
  EXPECT_THAT(problem_of_body(body(false)),
              AllOf(HasSubstr("all threads: loads element 0 of shared buffer room"),
                    HasSubstr("which thread 0 has stored")));
}

TEST(GpuChecks, KernelsThatHaveNoLaunchAreOrdinaryOnes) {
  const Buffer out = argument("out", DType::kF32, 8);
  const Expr i = make_var("i");
  std::vector<float> data(8);
  const LoopKernel kernel =
      make_kernel("plain", {out}, for_loop(i, 0, 8, LoopKind::kParallel, store(out, i, one())));
  EXPECT_EQ(run_kernel(kernel, {data.data()}, {}, nullptr, "cuda-emulated+checks"), 0);
  EXPECT_THAT(data, ::testing::Each(1));
}

}  // namespace
}  // namespace gantry
