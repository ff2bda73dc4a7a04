// Kernels of launches, compiled for a CPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "host/support/error.h"
#include "tests/codegen/run_kernel.h"
#include "tests/loops/gpu_kernels.h"

namespace gantry {
namespace {

std::vector<float> small_integers(size_t count, unsigned seed = 1) {
  std::mt19937 generator(seed);
  std::uniform_int_distribution<int> values(-8, 8);
  std::vector<float> data(count);
  for (float& x : data) x = static_cast<float>(values(generator));
  return data;
}

int32_t split_in_three(void* context, GantryLoopBody body, void* closure, int64_t count) {
  ++*static_cast<int*>(context);
  for (int64_t part = 0; part < 3; ++part) {
    if (int32_t code = body(closure, count * part / 3, count * (part + 1) / 3)) return code;
  }
  return 0;
}

TEST(EmulatedKernel, ATransposeThroughSharedMemoryGivesEveryElement) {
  const int rows = 50, columns = 37;
  std::vector<float> in(rows * columns), out(rows * columns, NAN);
  std::iota(in.begin(), in.end(), 0.0f);
  ASSERT_EQ(run_kernel(test::transpose_kernel(), {in.data(), out.data()}, {rows, columns}, nullptr,
                       "cuda-emulated"),
            0);
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < columns; ++c) ASSERT_EQ(out[c * rows + r], in[r * columns + c]);
  }
}

TEST(EmulatedKernel, BlocksRunInTheHostsParallelLoop) {
  const int rows = 7, n = 150;
  std::vector<float> in = small_integers(rows * n), out(rows, NAN);
  int calls = 0;
  GantryKernelHost host{GANTRY_KERNEL_ABI_VERSION, sizeof(GantryKernelHost), &calls, split_in_three, nullptr};
  ASSERT_EQ(run_kernel(test::row_sum_kernel(), {in.data(), out.data()}, {rows, n}, &host, "cuda-emulated"),
            0);
  EXPECT_EQ(calls, 1);
  for (int r = 0; r < rows; ++r) {
    EXPECT_EQ(out[r], std::accumulate(in.begin() + r * n, in.begin() + (r + 1) * n, 0.0f));
  }
}

TEST(EmulatedKernel, ATiledMatrixProductIsExactForIntegers) {
  const int m = 128, n = 64, k = 48;
  std::vector<float> a = small_integers(m * k), b = small_integers(k * n, 2), c(m * n, NAN);
  ASSERT_EQ(
      run_kernel(test::matmul_kernel(m, n, k), {a.data(), b.data(), c.data()}, {}, nullptr, "cuda-emulated"),
      0);
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      float sum = 0;
      for (int x = 0; x < k; ++x) sum += a[i * k + x] * b[x * n + j];
      ASSERT_EQ(c[i * n + j], sum) << i << ", " << j;
    }
  }
}

TEST(EmulatedKernel, AMatrixInstructionOnHalvesAddsInSinglePrecision) {
  // One warp; every thread's fragments hold 1.5 and its thread number: d = sum over k of 1.5 * thread of (k,
  // n).
  const Buffer out = test::gpu_buffer("out", DType::kF32, 128);
  const Buffer a = test::thread_buffer("fa", DType::kF16, 8), b = test::thread_buffer("fb", DType::kF16, 4),
               d = test::thread_buffer("fd", DType::kF32, 4);
  const test::Grid g;
  const Expr i = make_var("i");
  auto fill = [&](const Buffer& buffer, int64_t count, const Expr& value) {
    return for_loop(i, 0, Expr(count), LoopKind::kSerial, store(buffer, i, cast(buffer->dtype, value)));
  };
  Stmt body = block({fill(a, 8, float_imm(DType::kF32, 1.5)), fill(b, 4, cast(DType::kF32, g.t)),
                     fill(d, 4, float_imm(DType::kF32, 0.25)), mma(MmaShape::kM16N8K16F16, d, 0, a, 0, b, 0),
                     for_loop(i, 0, 4, LoopKind::kSerial, store(out, g.t * 4 + i, load(d, i)))});
  body = allocate(a, allocate(b, allocate(d, body)));
  std::vector<float> c(128, NAN);
  ASSERT_EQ(run_kernel(test::gpu_kernel("mma", {}, {out}, g.run(1, 32, body)), {c.data()}, {}, nullptr,
                       "cuda-emulated"),
            0);
  for (int t = 0; t < 32; ++t) {
    for (int e = 0; e < 4; ++e) {
      const int n = t % 4 * 2 + e % 2;  // b's column n is held by threads 4 n to 4 n + 3, four elements each
      const float expected = 0.25f + 1.5f * 4 * (4 * (4 * n) + 6);
      EXPECT_EQ(c[t * 4 + e], expected) << t << " " << e;
    }
  }
}

TEST(EmulatedKernel, LocalBuffersOfAllThreadsMayTakeAMegabyteOfStack) {
  const Buffer out = test::gpu_buffer("out", DType::kF32, 256);
  const test::Grid g;
  const Expr i = make_var("i");
  auto kernel = [&](int64_t elements) {
    const Buffer room = test::thread_buffer("room", DType::kF32, elements);
    Stmt fill = for_loop(i, 0, Expr(elements), LoopKind::kSerial, store(room, i, cast(DType::kF32, g.t + i)));
    Stmt body = allocate(room, block({fill, barrier(), store(out, g.t, load(room, g.t))}));
    return test::gpu_kernel("registers", {}, {out}, g.run(1, 256, body));
  };
  std::vector<float> c(256, NAN);
  ASSERT_EQ(run_kernel(kernel(1024), {c.data()}, {}, nullptr, "cuda-emulated"), 0);
  for (int t = 0; t < 256; ++t) EXPECT_EQ(c[t], 2.0f * t);
  EXPECT_THROW(run_kernel(kernel(2048), {c.data()}, {}, nullptr, "cuda-emulated"), Error);
}

TEST(EmulatedKernel, AKernelThatReportsRefusesAHostThatDoesNotListen) {
  std::vector<float> in(20), out(20);
  const LoopKernel kernel = test::transpose_kernel();
  EXPECT_EQ(run_kernel(kernel, {in.data(), out.data()}, {4, 5}, nullptr, "cuda-emulated+checks"),
            GANTRY_KERNEL_NEEDS_CHECKER);
  int calls = 0;
  GantryKernelHost host{GANTRY_KERNEL_ABI_VERSION, sizeof(GantryKernelHost), &calls, split_in_three, nullptr};
  EXPECT_EQ(run_kernel(kernel, {in.data(), out.data()}, {4, 5}, &host, "cuda-emulated+checks"),
            GANTRY_KERNEL_NEEDS_CHECKER);
  host.struct_size = offsetof(GantryKernelHost, gpu_checker);
  EXPECT_EQ(run_kernel(kernel, {in.data(), out.data()}, {4, 5}, &host, "cuda-emulated+checks"),
            GANTRY_KERNEL_NEEDS_CHECKER);
}

}  // namespace
}  // namespace gantry
