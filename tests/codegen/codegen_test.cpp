#include "host/codegen/codegen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <numeric>

#include "host/codegen/find_target.h"
#include "host/support/error.h"
#include "tests/codegen/codegen_cases.h"
#include "tests/codegen/run_kernel.h"

namespace gantry {
namespace {

using codegen_cases::multiply_add_kernel;
using codegen_cases::OnEveryLevel;
using ::testing::HasSubstr;
using ::testing::Not;

/// The x86 levels that this machine can run.
std::vector<std::string> runnable_targets() {
  std::vector<std::string> result;
  const Target native = find_target("native");
  for (const char* name : {"x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"}) {
    const Target target = find_target(name);
    const bool runs = target.family == native.family &&
                      std::ranges::all_of(target.features, [&](const std::string& f) {
                        return std::ranges::find(native.features, f) != native.features.end();
                      });
    if (runs) result.emplace_back(name);
  }
  result.emplace_back("native");
  return result;
}

INSTANTIATE_TEST_SUITE_P(Targets, OnEveryLevel, ::testing::ValuesIn(runnable_targets()),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::ranges::replace_if(
                               name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); },
                               '_');
                           return name;
                         });

TEST_P(OnEveryLevel, ASerialLoopOverASymbolicExtentComputesEveryElement) {
  std::vector<float> a(37), b(37), c(38, -1);
  std::iota(a.begin(), a.end(), 0.0f);
  std::iota(b.begin(), b.end(), 5.0f);
  ASSERT_EQ(run_kernel(multiply_add_kernel(LoopKind::kSerial), {a.data(), b.data(), c.data()}, {37}, nullptr,
                       GetParam()),
            0);
  for (int i = 0; i < 37; ++i) EXPECT_EQ(c[i], a[i] * b[i] + 2);
  EXPECT_EQ(c[37], -1);
}

TEST_P(OnEveryLevel, VectorLoadsOfEveryStrideReadTheRightElements) {
  Buffer in = argument("in", DType::kF32, 64), out = argument("out", DType::kF32, 64);
  std::vector<Stmt> statements;
  const std::vector<int64_t> strides{1, 0, -1, 2, 3, -2};
  for (size_t s = 0; s < strides.size(); ++s) {
    Expr index = ramp(int64_t{strides[s] < 0 ? 31 : 1}, strides[s], 8);
    statements.push_back(store(out, ramp(static_cast<int64_t>(8 * s), 1, 8), load(in, index)));
  }
  std::vector<float> a(64), c(64, -1);
  std::iota(a.begin(), a.end(), 0.0f);
  ASSERT_EQ(run_kernel(make_kernel("strides", {in, out}, block(statements)), {a.data(), c.data()}, {},
                       nullptr, GetParam()),
            0);
  for (size_t s = 0; s < strides.size(); ++s) {
    for (int lane = 0; lane < 8; ++lane) {
      EXPECT_EQ(c[8 * s + lane], (strides[s] < 0 ? 31 : 1) + strides[s] * lane) << "stride " << strides[s];
    }
  }
}

TEST_P(OnEveryLevel, GatheredIndicesAreReadLaneByLane) {
  Buffer in = argument("in", DType::kF32, 64), at = argument("at", DType::kI32, 8),
         out = argument("out", DType::kF32, 16);
  Expr lanes = ramp(0, 1, 8);
  Expr indirect = cast(DType::kI64, load(at, lanes));
  Stmt body = block({store(out, lanes, load(in, indirect)),
                     store(out, ramp(8, 1, 8), load(in, floordiv(ramp(0, 5, 8), broadcast(int64_t{3}, 8))))});
  std::vector<float> a(64), c(16);
  std::iota(a.begin(), a.end(), 0.0f);
  std::vector<int32_t> indices{7, 3, 60, 1, 1, 22, 0, 5};
  ASSERT_EQ(run_kernel(make_kernel("gather", {in, at, out}, body), {a.data(), indices.data(), c.data()}, {},
                       nullptr, GetParam()),
            0);
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(c[i], static_cast<float>(indices[i]));
    EXPECT_EQ(c[8 + i], static_cast<float>(5 * i / 3));
  }
}

TEST_P(OnEveryLevel, LanesWhosePredicateIsFalseAreNeitherReadNorWritten) {
  Expr n = symbol_var("N"), base = make_var("base");
  Buffer in = argument("in", DType::kF32, n), out = argument("out", DType::kF32, n),
         wide = argument("wide", DType::kF32, n * 2);
  Expr lanes = ramp(base, 1, 16);
  Expr guard = lt(lanes, broadcast(n, 16));
  Expr value = load(in, lanes, guard);
  Stmt body = block({store(out, lanes, value, guard), store(wide, ramp(base * 2, 2, 16), value, guard)});
  LoopKernel kernel = make_kernel("guarded", {in, out, wide}, let(base, int64_t{16}, body), {"N"});
  std::vector<float> a(21), c(32, -1), w(64, -1);
  std::iota(a.begin(), a.end(), 0.0f);
  ASSERT_EQ(run_kernel(kernel, {a.data(), c.data(), w.data()}, {21}, nullptr, GetParam()), 0);
  for (int i = 0; i < 32; ++i) EXPECT_EQ(c[i], i >= 16 && i < 21 ? static_cast<float>(i) : -1.0f) << i;
  for (int i = 0; i < 64; ++i)
    EXPECT_EQ(w[i], i >= 32 && i < 42 && i % 2 == 0 ? static_cast<float>(i / 2) : -1.0f) << i;
}

TEST(IfThenElse, DoesNotEvaluateTheBranchNotChosen) {
  Buffer in = argument("in", DType::kF32, 4), out = argument("out", DType::kF32, 8);
  Expr i = make_var("i");
  // Element -1 lies in a page that cannot be read on no machine we know; a null buffer makes sure.
  Expr value = if_then_else(ge(i, 4), float_imm(DType::kF32, 1), load(in, i));
  Stmt body = for_loop(i, 4, 4, LoopKind::kSerial, store(out, i, value));
  std::vector<float> c(8);
  ASSERT_EQ(run_kernel(make_kernel("lazy", {in, out}, body), {nullptr, c.data()}), 0);
  EXPECT_THAT(c, ::testing::ElementsAre(0, 0, 0, 0, 1, 1, 1, 1));
}

/// A register tile: `rows` x `columns` vectors of accumulators over a reduction of K steps.
LoopKernel register_tile(const std::string& name, int rows, int columns, int lanes) {
  Expr steps = symbol_var("K"), k = make_var("k");
  Buffer a = argument("a", DType::kF32, steps * rows),
         b = argument("b", DType::kF32, steps * (columns * lanes)),
         c = argument("c", DType::kF32, rows * columns * lanes),
         tile = local_buffer("tile", DType::kF32, rows * columns * lanes);
  std::vector<Stmt> clear, update, copy;
  for (int r = 0; r < rows; ++r) {
    for (int v = 0; v < columns; ++v) {
      Expr at = ramp(int64_t{(r * columns + v) * lanes}, 1, lanes);
      clear.push_back(store(tile, at, broadcast(float_imm(DType::kF32, 0), lanes)));
      Expr product = broadcast(load(a, k * rows + r), lanes) *
                     load(b, ramp(k * (columns * lanes) + v * lanes, 1, lanes));
      update.push_back(store(tile, at, load(tile, at) + product));
      copy.push_back(store(c, at, load(tile, at)));
    }
  }
  Stmt reduce = for_loop(k, 0, steps, LoopKind::kSerial, block(update));
  return make_kernel(name, {a, b, c}, allocate(tile, block({block(clear), reduce, block(copy)})), {"K"});
}

TEST_P(OnEveryLevel, ARegisterTileComputesTheMatrixProduct) {
  constexpr int kRows = 4, kColumns = 2, kLanes = 8, kSteps = 19;
  std::vector<float> a(kRows * kSteps), b(kSteps * kColumns * kLanes), c(kRows * kColumns * kLanes);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 7) - 3;
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 11) - 5;
  ASSERT_EQ(run_kernel(register_tile("tile", kRows, kColumns, kLanes), {a.data(), b.data(), c.data()},
                       {kSteps}, nullptr, GetParam()),
            0);
  for (int r = 0; r < kRows; ++r) {
    for (int j = 0; j < kColumns * kLanes; ++j) {
      float expected = 0;
      for (int k = 0; k < kSteps; ++k) expected += a[k * kRows + r] * b[k * kColumns * kLanes + j];
      EXPECT_EQ(c[r * kColumns * kLanes + j], expected);
    }
  }
}

TEST(RegisterTile, KeepsItsAccumulatorsInRegisters) {
  struct Case {
    const char *target, *multiply_add, *stack;
    int rows, columns, lanes;
  };
  for (const Case& c :
       {Case{"sapphirerapids", "vfmadd", "(%rsp)", 14, 2, 16},
        Case{"x86-64-v4", "vfmadd", "(%rsp)", 6, 4, 16}, Case{"x86-64-v3", "vfmadd", "(%rsp)", 6, 2, 8},
        Case{"aarch64", "fmla", "[sp", 8, 3, 4}, Case{"cortex-a72", "fmla", "[sp", 8, 2, 4}}) {
    const std::string text =
        emit_assembly(register_tile("tile", c.rows, c.columns, c.lanes), find_target(c.target));
    int count = 0;
    for (size_t at = text.find(c.multiply_add); at != std::string::npos;
         at = text.find(c.multiply_add, at + 1))
      ++count;
    EXPECT_GE(count, c.rows * c.columns) << c.target;
    // No accumulator may live on the stack inside the loop; saved registers at the ends are all that is
    // allowed.
    const size_t first = text.find(c.multiply_add), last = text.rfind(c.multiply_add);
    EXPECT_THAT(text.substr(first, last - first), Not(HasSubstr(c.stack))) << c.target;
  }
}

TEST(Image, ForAArch64LinksWithoutAnImport) {
  std::vector<LoopKernel> kernels{register_tile("tile", 8, 2, 4), multiply_add_kernel(LoopKind::kParallel)};
  const CodeImage image = build_image(kernels, find_target("aarch64+dotprod"), 2);
  ASSERT_GT(image.elf.size(), 64u);
  EXPECT_EQ(std::memcmp(image.elf.data(), "\177ELF\2\1", 6), 0);
  EXPECT_EQ(static_cast<int>(image.elf[18]), 183);  // e_machine: EM_AARCH64
  EXPECT_EQ(static_cast<int>(image.elf[16]), 3);    // e_type: ET_DYN
}

TEST(Image, HoldsManyKernelsCompiledByManyThreads) {
  std::vector<LoopKernel> kernels;
  for (int i = 0; i < 12; ++i) kernels.push_back(register_tile("tile_" + std::to_string(i), 1 + i % 3, 1, 8));
  LoadedImage image(build_image(kernels, find_target("native"), 4));
  for (const LoopKernel& kernel : kernels) EXPECT_NE(image.kernel(kernel.name), nullptr);
}

TEST(Image, RefusesTwoKernelsOfOneName) {
  std::vector<LoopKernel> kernels{register_tile("tile", 1, 1, 8), register_tile("tile", 1, 1, 8)};
  try {
    build_image(kernels, find_target("native"), 1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInternal);
    EXPECT_THAT(error.what(), HasSubstr("tile"));
  }
}

TEST(LocalBuffer, BeyondTheStacksLimitIsAnErrorThatNamesIt) {
  Buffer out = argument("out", DType::kF32, 1), big = local_buffer("big", DType::kF32, 1 << 20);
  LoopKernel kernel = make_kernel("deep", {out}, allocate(big, store(out, 0, load(big, 0))));
  try {
    build_image({&kernel, 1}, find_target("native"), 1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("big"));
    EXPECT_THAT(error.what(), HasSubstr("deep"));
  }
}

TEST(Dump, ShowsLlvmIrAndAssemblyOfAKernel) {
  EXPECT_THAT(emit_llvm_text(multiply_add_kernel(LoopKind::kSerial), find_target("x86-64-v3")),
              HasSubstr("define"));
  EXPECT_THAT(emit_assembly(multiply_add_kernel(LoopKind::kSerial), find_target("aarch64")),
              HasSubstr("fmadd"));
}

}  // namespace
}  // namespace gantry
