#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "host/loops/evaluate.h"
#include "host/support/error.h"
#include "host/tensor/element.h"
#include "tests/loops/gpu_kernels.h"

namespace gantry::test {
namespace {

using ::testing::HasSubstr;

template <typename T>
std::span<std::byte> bytes(std::vector<T>& data) {
  return std::as_writable_bytes(std::span<T>(data));
}

std::vector<float> small_integers(size_t count, unsigned seed = 1) {
  std::mt19937 generator(seed);
  std::uniform_int_distribution<int> values(-8, 8);
  std::vector<float> data(count);
  for (float& x : data) x = static_cast<float>(values(generator));
  return data;
}

class EmulateLaunches : public ::testing::TestWithParam<bool> {
 protected:
  LoopKernel emulate(const LoopKernel& kernel) const { return emulate_launches(kernel, GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Checks, EmulateLaunches, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "With" : "Without"; });

TEST_P(EmulateLaunches, ATransposeThroughSharedMemoryIsSplitAtItsBarrier) {
  const int rows = 19, columns = 37;
  std::vector<float> in(rows * columns), out(rows * columns, NAN);
  std::iota(in.begin(), in.end(), 0.0f);
  evaluate(emulate(transpose_kernel()), {bytes(in), bytes(out)}, {{"R", rows}, {"C", columns}});
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < columns; ++c) ASSERT_EQ(out[c * rows + r], in[r * columns + c]);
  }
}

TEST_P(EmulateLaunches, ARowIsSummedByShufflesAndSharedMemory) {
  const int rows = 3, n = 150;
  std::vector<float> in = small_integers(rows * n), out(rows, NAN);
  evaluate(emulate(row_sum_kernel()), {bytes(in), bytes(out)}, {{"B", rows}, {"N", n}});
  for (int r = 0; r < rows; ++r) {
    EXPECT_EQ(out[r], std::accumulate(in.begin() + r * n, in.begin() + (r + 1) * n, 0.0f));
  }
}

TEST_P(EmulateLaunches, ATiledMatrixProductKeepsItsSumsAcrossBarriers) {
  const int m = 64, n = 128, k = 32;
  std::vector<float> a = small_integers(m * k), b = small_integers(k * n, 2), c(m * n, NAN);
  evaluate(emulate(matmul_kernel(m, n, k)), {bytes(a), bytes(b), bytes(c)}, {});
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      float sum = 0;
      for (int x = 0; x < k; ++x) sum += a[i * k + x] * b[x * n + j];
      ASSERT_EQ(c[i * n + j], sum) << i << ", " << j;
    }
  }
}

TEST_P(EmulateLaunches, ALetThatDiffersBetweenThreadsKeepsItsValueAcrossABarrier) {
  const Buffer in = gpu_buffer("in", DType::kF32, 8), out = gpu_buffer("out", DType::kF32, 8);
  const Buffer room = shared_buffer("room", DType::kF32, 8);
  const Grid g;
  const Expr v = make_var("v", DType::kF32), u = make_var("u", DType::kF32);
  // The value loaded before the barrier stays, although the element changes after it.
  Stmt body = let(v, load(room, g.t) * float_imm(DType::kF32, 3),
                  let(u, load(in, 0),
                      block({barrier(), store(room, mod(g.t + 1, 8), float_imm(DType::kF32, -1)), barrier(),
                             store(out, g.t, v + u + load(room, g.t))})));
  body = allocate(room, block({store(room, g.t, load(in, g.t)), barrier(), body}));
  std::vector<float> a = small_integers(8), c(8, NAN);
  evaluate(emulate(gpu_kernel("k", {in}, {out}, g.run(1, 8, body))), {bytes(a), bytes(c)}, {});
  for (int i = 0; i < 8; ++i) EXPECT_EQ(c[i], 3 * a[i] + a[0] - 1);
}

TEST_P(EmulateLaunches, AVariableMayDifferBetweenThreadsInOneOfTwoPlacesOnly) {
  const Buffer in = gpu_buffer("in", DType::kI64, 8), out = gpu_buffer("out", DType::kI64, 8);
  const Buffer room = shared_buffer("room", DType::kI64, 8);
  const Grid g;
  const Expr v = make_var("v");
  const Stmt of_thread =
      let(v, load(in, g.t),
          block({store(room, g.t, v), barrier(), store(out, g.t, v + load(room, mod(g.t + 1, 8)))}));
  const Stmt meet = block({barrier(), store(out, g.t, v + load(out, g.t))});
  const Stmt of_block = let(v, load(in, 0), if_stmt(lt(v, 5), meet));
  const Stmt body = allocate(room, block({of_thread, of_block}));
  std::vector<int64_t> a{3, 1, 4, 1, 5, 9, 2, 6}, c(8, -1);
  evaluate(emulate(gpu_kernel("k", {in}, {out}, g.run(1, 8, body))), {bytes(a), bytes(c)}, {});
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(c[i], a[i] + a[(i + 1) % 8] + a[0]);
}

TEST_P(EmulateLaunches, LaunchesInsideASerialLoopRunInOrder) {
  // Each step adds the neighbour's value of the step before.
  const Buffer in = gpu_buffer("in", DType::kF32, 4), out = gpu_buffer("out", DType::kF32, 4),
               copy = gpu_buffer("copy", DType::kF32, 4, BufferScope::kScratch);
  const Grid g, h;
  const Expr step = make_var("step"), n = symbol_var("T");
  Stmt start = g.run(1, 4, store(out, g.t, load(in, g.t)));
  Stmt save = g.run(1, 4, store(copy, g.t, load(out, g.t)));
  Stmt add = h.run(
      2, 2, store(out, h.x * 2 + h.t, load(copy, h.x * 2 + h.t) + load(copy, mod(h.x * 2 + h.t + 1, 4))));
  LoopKernel kernel = gpu_kernel(
      "k", {in}, {out}, block({start, for_loop(step, 0, n, LoopKind::kSerial, block({save, add}))}), {"T"});
  kernel.scratch = {copy};
  std::vector<float> a{1, 2, 3, 4}, c(4, NAN), expected = a;
  evaluate(emulate(kernel), {bytes(a), bytes(c)}, {{"T", 3}});
  for (int s = 0; s < 3; ++s) {
    const std::vector<float> before = expected;
    for (size_t i = 0; i < 4; ++i) expected[i] = before[i] + before[(i + 1) % 4];
  }
  EXPECT_EQ(c, expected);
}

TEST_P(EmulateLaunches, ASharedScalarMayBoundALoopAroundBarriers) {
  const Buffer in = gpu_buffer("in", DType::kI64, 1), out = gpu_buffer("out", DType::kI64, 4);
  const Buffer count = shared_buffer("count", DType::kI64, 1), ring = shared_buffer("ring", DType::kI64, 4);
  const Buffer mine = thread_buffer("mine", DType::kI64, 1);
  const Grid g;
  const Expr i = make_var("i");
  Stmt pass = block(
      {store(mine, 0, load(ring, mod(g.t + 1, 4))), barrier(), store(ring, g.t, load(mine, 0)), barrier()});
  Stmt body =
      block({if_stmt(eq(g.t, 0), store(count, 0, load(in, 0))), store(ring, g.t, g.t), barrier(),
             for_loop(i, 0, load(count, 0), LoopKind::kSerial, pass), store(out, g.t, load(ring, g.t))});
  body = allocate(count, allocate(ring, allocate(mine, body)));
  std::vector<int64_t> a{3}, c(4, -1);
  evaluate(emulate(gpu_kernel("k", {in}, {out}, g.run(1, 4, body))), {bytes(a), bytes(c)}, {});
  EXPECT_THAT(c, ::testing::ElementsAre(3, 0, 1, 2));
}

TEST(EmulateLaunchesLoops, WithoutChecksGridsOfOneBlockHaveNoLoopAndBarriersVanish) {
  const std::string text = to_string(emulate_launches(transpose_kernel(), false));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("barrier")));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("bz")));
  EXPECT_THAT(text, HasSubstr("emulated block for by"));
  EXPECT_THAT(text, HasSubstr("emulated thread for t in [0, +256)"));
}

TEST(EmulateLaunchesLoops, WithChecksBarriersAndAllLoopsOverBlocksStay) {
  const std::string text = to_string(emulate_launches(transpose_kernel(), true));
  EXPECT_THAT(text, HasSubstr("barrier"));
  EXPECT_THAT(text, HasSubstr("emulated block for bz in [0, +1)"));
}

std::string error_of(const Stmt& body, int64_t threads = 64) {
  const Grid g;
  try {
    emulate_launches(gpu_kernel("faulty", {}, {}, g.run(1, threads, body)), false);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(EmulateLaunchesErrors, ABarrierUnderAConditionOnTheThreadIsNamed) {
  const Grid g;
  try {
    emulate_launches(gpu_kernel("faulty", {}, {}, g.run(1, 64, if_stmt(lt(g.t, 3), barrier()))), false);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("faulty"));
    EXPECT_THAT(error.what(),
                HasSubstr("a condition around a barrier, shuffle or matrix instruction depends on t"));
  }
}

TEST(EmulateLaunchesErrors, ABarrierInALoopBoundByALocalBufferIsNamed) {
  const Buffer count = thread_buffer("count", DType::kI64, 1);
  EXPECT_THAT(
      error_of(allocate(count, block({store(count, 0, Expr(2)), for_loop(make_var("i"), 0, load(count, 0),
                                                                         LoopKind::kSerial, barrier())}))),
      HasSubstr("depends on count"));
}

TEST(EmulateLaunchesErrors, AShuffleWithAThreadThatDoesNotExistIsNamed) {
  const Buffer x = thread_buffer("x", DType::kF32, 1);
  Stmt body = allocate(x, block({store(x, 0, float_imm(DType::kF32, 1)), shuffle(x, 0, load(x, 0), 16)}));
  EXPECT_THAT(error_of(body, 48), HasSubstr("thread 32 of 48 shuffles with thread 48"));
  EXPECT_EQ(error_of(body, 64), "no error");
}

// --- matrix instructions

struct MmaCase {
  MmaShape shape;
  DType dtype;
  int64_t depth;
  const char* name;
};

/// Where the PTX ISA's figures put the elements of a fragment: a[row, k], b[k, column], d[row, column].
struct Coordinates {
  int64_t row, column;
};
Coordinates a_place(const MmaCase& c, int64_t lane, int64_t e) {
  const int64_t group = lane / 4, member = lane % 4;
  if (c.dtype == DType::kF32) return {(e == 0 || e == 2) ? group : group + 8, e < 2 ? member : member + 4};
  const int64_t row = (e < 2 || (e >= 4 && e < 6)) ? group : group + 8;
  return {row, member * 2 + (e & 1) + (e < 4 ? 0 : 8)};
}
Coordinates b_place(const MmaCase& c, int64_t lane, int64_t e) {
  const int64_t group = lane / 4, member = lane % 4;
  if (c.dtype == DType::kF32) return {e == 0 ? member : member + 4, group};
  return {member * 2 + (e & 1) + (e < 2 ? 0 : 8), group};
}
Coordinates d_place(int64_t lane, int64_t e) {
  return {e < 2 ? lane / 4 : lane / 4 + 8, lane % 4 * 2 + (e & 1)};
}

class EmulateMma : public ::testing::TestWithParam<MmaCase> {};
INSTANTIATE_TEST_SUITE_P(Shapes, EmulateMma,
                         ::testing::Values(MmaCase{MmaShape::kM16N8K8Tf32, DType::kF32, 8, "M16N8K8Tf32"},
                                           MmaCase{MmaShape::kM16N8K16Bf16, DType::kBF16, 16, "M16N8K16Bf16"},
                                           MmaCase{MmaShape::kM16N8K16F16, DType::kF16, 16, "M16N8K16F16"},
                                           MmaCase{MmaShape::kM16N8K8F16, DType::kF16, 8, "M16N8K8F16"}),
                         [](const auto& info) { return info.param.name; });

/// Each thread's fragments lie one after another in the arguments; two warps, two blocks; d += a * b twice.
TEST_P(EmulateMma, MatchesAProductInDoublePrecision) {
  const MmaCase& c = GetParam();
  const int64_t a_count = 16 * c.depth / 32, b_count = 8 * c.depth / 32, threads = 64, blocks = 2;
  const Buffer a = gpu_buffer("a", c.dtype, Expr(blocks * threads * a_count)),
               b = gpu_buffer("b", c.dtype, Expr(blocks * threads * b_count)),
               out = gpu_buffer("out", DType::kF32, Expr(blocks * threads * 4));
  // Two fragments of a in one buffer: the instruction reads the second.
  const Buffer fa = thread_buffer("fa", c.dtype, 2 * a_count), fb = thread_buffer("fb", c.dtype, b_count),
               fd = thread_buffer("fd", DType::kF32, 4);
  const Grid g;
  const Expr thread = g.x * Expr(threads) + g.t, i = make_var("i"), j = make_var("j"), r = make_var("r");
  Stmt body = block({
      for_loop(i, 0, Expr(a_count), LoopKind::kSerial,
               store(fa, i + Expr(a_count), load(a, thread * Expr(a_count) + i))),
      for_loop(i, 0, Expr(b_count), LoopKind::kSerial, store(fb, i, load(b, thread * Expr(b_count) + i))),
      for_loop(j, 0, 4, LoopKind::kSerial, store(fd, j, float_imm(DType::kF32, 0))),
      for_loop(r, 0, 2, LoopKind::kSerial, mma(c.shape, fd, 0, fa, Expr(a_count), fb, 0)),
      for_loop(j, 0, 4, LoopKind::kSerial, store(out, thread * 4 + j, load(fd, j))),
  });
  body = allocate(fa, allocate(fb, allocate(fd, body)));
  const LoopKernel kernel =
      emulate_launches(gpu_kernel("k", {a, b}, {out}, g.run(Expr(blocks), threads, body)), false);

  const size_t width = byte_width(c.dtype);
  std::vector<float> as = small_integers(static_cast<size_t>(blocks * threads * a_count)),
                     bs = small_integers(static_cast<size_t>(blocks * threads * b_count), 2);
  auto encode = [&](const std::vector<float>& values) {
    std::vector<std::byte> data(values.size() * width);
    for (size_t k = 0; k < values.size(); ++k) write_float(c.dtype, data.data() + k * width, values[k]);
    return data;
  };
  std::vector<std::byte> a_bytes = encode(as), b_bytes = encode(bs);
  std::vector<float> result(static_cast<size_t>(blocks * threads * 4), NAN);
  evaluate(kernel, {a_bytes, b_bytes, bytes(result)}, {});

  for (int64_t warp = 0; warp < blocks * threads / 32; ++warp) {
    std::vector<double> am(static_cast<size_t>(16 * c.depth)), bm(static_cast<size_t>(8 * c.depth));
    for (int64_t lane = 0; lane < 32; ++lane) {
      const int64_t t = warp * 32 + lane;
      for (int64_t e = 0; e < a_count; ++e) {
        const Coordinates at = a_place(c, lane, e);
        am[static_cast<size_t>(at.row * c.depth + at.column)] = as[static_cast<size_t>(t * a_count + e)];
      }
      for (int64_t e = 0; e < b_count; ++e) {
        const Coordinates at = b_place(c, lane, e);
        bm[static_cast<size_t>(at.row * 8 + at.column)] = bs[static_cast<size_t>(t * b_count + e)];
      }
    }
    for (int64_t lane = 0; lane < 32; ++lane) {
      for (int64_t e = 0; e < 4; ++e) {
        const Coordinates at = d_place(lane, e);
        double sum = 0;
        for (int64_t k = 0; k < c.depth; ++k)
          sum += am[static_cast<size_t>(at.row * c.depth + k)] * bm[static_cast<size_t>(k * 8 + at.column)];
        ASSERT_EQ(result[static_cast<size_t>((warp * 32 + lane) * 4 + e)], 2 * sum)
            << warp << " " << lane << " " << e;
      }
    }
  }
}

}  // namespace
}  // namespace gantry::test
