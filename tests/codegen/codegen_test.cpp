#include "host/codegen/codegen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "host/codegen/find_target.h"
#include "host/support/error.h"
#include "host/tensor/fold.h"
#include "tests/codegen/run_kernel.h"

namespace gantry {
namespace {

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

class OnEveryLevel : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Targets, OnEveryLevel, ::testing::ValuesIn(runnable_targets()),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::ranges::replace_if(
                               name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); },
                               '_');
                           return name;
                         });

/// c[i] = a[i] * b[i] + 2 over a symbolic number of elements.
LoopKernel multiply_add_kernel(LoopKind kind) {
  Expr n = symbol_var("N"), i = make_var("i");
  Buffer a = argument("a", DType::kF32, n), b = argument("b", DType::kF32, n),
         c = argument("c", DType::kF32, n);
  Stmt body = store(c, i, load(a, i) * load(b, i) + float_imm(DType::kF32, 2));
  return make_kernel("multiply_add", {a, b, c}, for_loop(i, 0, n, kind, body), {"N"});
}

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

TEST(Guard, EveryComparisonOfRampsAgreesWithItsDefinition) {
  Buffer out = argument("out", DType::kBool, 1024);
  Expr a = symbol_var("A"), b = symbol_var("B");
  std::vector<Stmt> statements;
  std::vector<std::function<bool(int64_t, int64_t)>> reference;
  int64_t at = 0;
  using Compare = Expr (*)(Expr, Expr);
  auto add = [&](Compare compare, int64_t sa, int64_t sb, std::function<bool(int64_t, int64_t)> expected) {
    statements.push_back(store(out, ramp(at, 1, 8), compare(ramp(a, sa, 8), ramp(b, sb, 8))));
    for (int64_t lane = 0; lane < 8; ++lane) {
      reference.push_back([=](int64_t x, int64_t y) { return expected(x + sa * lane, y + sb * lane); });
    }
    at += 8;
  };
  for (auto [sa, sb] :
       std::vector<std::pair<int64_t, int64_t>>{{1, 0}, {0, 1}, {1, 1}, {3, 1}, {2, 1}, {1, 2}}) {
    add(&lt, sa, sb, std::less<int64_t>());
    add(&le, sa, sb, std::less_equal<int64_t>());
    add(&gt, sa, sb, std::greater<int64_t>());
    add(&ge, sa, sb, std::greater_equal<int64_t>());
    add(&eq, sa, sb, std::equal_to<int64_t>());
  }
  LoadedImage image(build_image(std::vector{make_kernel("compare", {out}, block(statements), {"A", "B"})},
                                find_target("native"), 1));
  for (int64_t x : {0, 3, 8, 1000}) {
    for (int64_t y : {0, 3, 5, 7, 11, 1003}) {
      std::vector<uint8_t> c(1024, 2);
      std::vector<void*> buffers{c.data()};
      const int64_t dims[] = {x, y};
      ASSERT_EQ(image.kernel("compare")(nullptr, buffers.data(), dims), 0);
      for (size_t i = 0; i < reference.size(); ++i)
        ASSERT_EQ(c[i], reference[i](x, y)) << x << " " << y << " case " << i;
    }
  }
}

/// Eight lanes that are x * X + y * Y + constant + stride * lane, as 64 bits compute it.
struct ComparedLanes {
  Expr lanes;
  int64_t x, y, constant, stride;

  int64_t at(int64_t x_value, int64_t y_value, int64_t lane) const {
    const auto product = [](int64_t a, int64_t b) {
      return static_cast<uint64_t>(a) * static_cast<uint64_t>(b);
    };
    return static_cast<int64_t>(product(x, x_value) + product(y, y_value) + static_cast<uint64_t>(constant) +
                                product(stride, lane));
  }
};

// X is an index, Y the number that "in" holds.
TEST(Guard, ComparisonsWithDataThatIsFarAwayDoNotWrap) {
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min(), kMost = std::numeric_limits<int64_t>::max();
  Buffer in = argument("in", DType::kI64, 1), out = argument("out", DType::kBool, 1024);
  Expr x = symbol_var("X"), y = make_var("y");
  const std::vector<ComparedLanes> near{
      {ramp(x, 1, 8), 1, 0, 0, 1}, {ramp(x, -1, 8), 1, 0, 0, -1}, {broadcast(x, 8), 1, 0, 0, 0}};
  const std::vector<ComparedLanes> far{{broadcast(load(in, 0), 8), 0, 1, 0, 0},
                                       {broadcast(y, 8), 0, 1, 0, 0},
                                       {ramp(y, 1, 8), 0, 1, 0, 1},
                                       {broadcast(kMost, 8), 0, 0, kMost, 0},
                                       {broadcast(kLeast, 8), 0, 0, kLeast, 0}};
  std::vector<Stmt> statements;
  std::vector<std::function<bool(int64_t, int64_t)>> reference;
  using Compare = Expr (*)(Expr, Expr);
  const auto add = [&](Compare compare, const ComparedLanes& a, const ComparedLanes& b,
                       const std::function<bool(int64_t, int64_t)>& expected) {
    statements.push_back(
        store(out, ramp(static_cast<int64_t>(reference.size()), 1, 8), compare(a.lanes, b.lanes)));
    for (int64_t lane = 0; lane < 8; ++lane) {
      reference.push_back([=](int64_t x_value, int64_t y_value) {
        return expected(a.at(x_value, y_value, lane), b.at(x_value, y_value, lane));
      });
    }
  };
  for (const ComparedLanes& a : near) {
    for (const ComparedLanes& b : far) {
      for (const auto& [left, right] : {std::pair(a, b), std::pair(b, a)}) {
        add(&lt, left, right, std::less<int64_t>());
        add(&le, left, right, std::less_equal<int64_t>());
        add(&gt, left, right, std::greater<int64_t>());
        add(&ge, left, right, std::greater_equal<int64_t>());
      }
    }
  }
  const Stmt body = let(y, load(in, 0), block(statements));
  LoadedImage image(
      build_image(std::vector{make_kernel("far", {in, out}, body, {"X"})}, find_target("native"), 1));
  for (const int64_t index : {0, 3, 1000}) {
    for (const int64_t number : {kLeast, kLeast + 5, int64_t{-1}, int64_t{4}, kMost - 5, kMost}) {
      std::vector<uint8_t> c(1024, 2);
      int64_t data = number;
      std::vector<void*> buffers{&data, c.data()};
      ASSERT_EQ(image.kernel("far")(nullptr, buffers.data(), &index), 0);
      for (size_t i = 0; i < reference.size(); ++i)
        ASSERT_EQ(c[i], reference[i](index, number)) << index << " " << number << " case " << i;
    }
  }
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

TEST(Division, FloorsForEverySignOfItsOperands) {
  Buffer out = argument("out", DType::kI64, 6);
  Expr a = make_var("a"), b = make_var("b");
  Buffer in = argument("in", DType::kI64, 2);
  Stmt body =
      let(a, load(in, 0),
          let(b, load(in, 1),
              block({store(out, 0, floordiv(a, b)), store(out, 1, mod(a, b)), store(out, 2, floordiv(a, 8)),
                     store(out, 3, mod(a, 8)), store(out, 4, floordiv(a, 7)), store(out, 5, mod(a, 7))})));
  LoadedImage image(
      build_image(std::vector{make_kernel("divide", {in, out}, body)}, find_target("native"), 1));
  for (int64_t x : {-17, -16, -8, -1, 0, 1, 7, 8, 23}) {
    for (int64_t y : {-7, -2, 1, 3, 8}) {
      int64_t operands[] = {x, y}, result[6];
      std::vector<void*> buffers{operands, result};
      ASSERT_EQ(image.kernel("divide")(nullptr, buffers.data(), nullptr), 0);
      auto floored = [](int64_t p, int64_t q) {
        return static_cast<int64_t>(std::floor(static_cast<double>(p) / static_cast<double>(q)));
      };
      for (auto [at, d] : std::vector<std::pair<int, int64_t>>{{0, y}, {2, 8}, {4, 7}}) {
        EXPECT_EQ(result[at], floored(x, d)) << x << "/" << d;
        EXPECT_EQ(result[at + 1], x - d * floored(x, d)) << x << "%" << d;
      }
    }
  }
}

TEST(Division, OfAVariableThatIsNegativeInTheSecondCopyOfALoopsBodyRoundsDown) {
  const Buffer out = argument("out", DType::kI64, 16);
  const Expr r = make_var("r"), p = make_var("p");
  const Stmt copies = block(
      {let(p, r * 2, store(out, r * 2, mod(p, 3))), let(p, r * 2 - 3, store(out, r * 2 + 1, mod(p, 3)))});
  std::vector<int64_t> result(16, -1);
  const Stmt loop = for_loop(r, 0, 8, LoopKind::kSerial, copies);
  ASSERT_EQ(run_kernel(make_kernel("copies", {out}, loop), {result.data()}), 0);
  for (int64_t i = 0; i < 8; ++i) {
    EXPECT_EQ(result[static_cast<size_t>(2 * i)], 2 * i % 3) << i;
    EXPECT_EQ(result[static_cast<size_t>(2 * i + 1)], (2 * i + 3) % 3) << i;  // 6 more than there
  }
}

/// Quotients and remainders, towards zero and floored, of eight pairs of integers of type T.
template <typename T>
void expect_quotients_that_wrap(const std::string& target, DType dtype, bool vector) {
  const Buffer in = argument("in", dtype, 16), out = argument("out", dtype, 32);
  const Expr i = vector ? ramp(0, 1, 8) : make_var("i");
  const Expr a = load(in, i), b = load(in, i + 8);
  Stmt body = block({store(out, i, a / b), store(out, i + 8, binary(BinaryOp::kRem, a, b)),
                     store(out, i + 16, floordiv(a, b)), store(out, i + 24, mod(a, b))});
  if (!vector) body = for_loop(i, 0, 8, LoopKind::kSerial, body);
  constexpr T kLeast = std::numeric_limits<T>::min(), kMost = std::numeric_limits<T>::max();
  std::vector<T> operands{kLeast, kLeast, kLeast, -7, 7, -1, 0, kMost, -1, 3, -2, -1, -2, -1, -1, -1};
  std::vector<T> result(32, 99);
  const LoopKernel kernel = make_kernel("wrap", {in, out}, body);
  ASSERT_EQ(run_kernel(kernel, {operands.data(), result.data()}, {}, nullptr, target), 0);
  for (size_t k = 0; k < 8; ++k) {
    const T x = operands[k], y = operands[k + 8];
    const T quotient = static_cast<T>(y != -1 ? x / y : x == kLeast ? x : -x);
    const T rest = y == -1 ? T(0) : static_cast<T>(x % y);
    const bool is_below = rest != 0 && (rest < 0) != (y < 0);
    EXPECT_EQ(result[k], quotient) << k;
    EXPECT_EQ(result[k + 8], rest) << k;
    EXPECT_EQ(result[k + 16], static_cast<T>(quotient - (is_below ? 1 : 0))) << k;
    EXPECT_EQ(result[k + 24], static_cast<T>(rest + (is_below ? y : 0))) << k;
  }
}

TEST_P(OnEveryLevel, TheSmallestIntegerDividedByMinusOneWraps) {
  for (const bool vector : {false, true}) {
    expect_quotients_that_wrap<int8_t>(GetParam(), DType::kI8, vector);
    expect_quotients_that_wrap<int16_t>(GetParam(), DType::kI16, vector);
    expect_quotients_that_wrap<int32_t>(GetParam(), DType::kI32, vector);
    expect_quotients_that_wrap<int64_t>(GetParam(), DType::kI64, vector);
  }
}

TEST(Division, ByADivisorThatIsNeverMinusOneIsNotGuardedOnceMore) {
  const Buffer in = argument("in", DType::kI32, 2), out = argument("out", DType::kI32, 1);
  const Expr a = load(in, 0), b = load(in, 1), one = int_imm(DType::kI32, 1);
  const auto text = [&](const Expr& divisor) {
    const LoopKernel kernel = make_kernel("divide", {in, out}, store(out, 0, a / divisor));
    return emit_llvm_text(kernel, find_target("x86-64-v3"));
  };
  const Expr is_bad = eq(b, int_imm(DType::kI32, 0)) || eq(b, int_imm(DType::kI32, -1));
  EXPECT_THAT(text(b), HasSubstr("sub i32"));
  EXPECT_THAT(text(select(is_bad, one, b)), Not(HasSubstr("sub i32")));
}

/// Eight numbers of type T shifted to the left and to the right, as folding has it.
template <typename T>
void expect_shifts_as_folded(const std::string& target, DType dtype, bool vector) {
  const Buffer in = argument("in", dtype, 16), out = argument("out", dtype, 32);
  const Expr i = vector ? ramp(0, 1, 8) : make_var("i");
  const Expr a = load(in, i), b = load(in, i + 8);
  const Expr inside = int_imm(dtype, 3), beyond = int_imm(dtype, 8 * sizeof(T));
  Stmt body =
      block({store(out, i, binary(BinaryOp::kShl, a, b)), store(out, i + 8, binary(BinaryOp::kShr, a, b)),
             store(out, i + 16, binary(BinaryOp::kShl, a, inside)),
             store(out, i + 24, binary(BinaryOp::kShr, a, beyond))});
  if (!vector) body = for_loop(i, 0, 8, LoopKind::kSerial, body);
  constexpr T kLeast = std::numeric_limits<T>::min(), kMost = std::numeric_limits<T>::max();
  constexpr T kBelow = static_cast<T>(-3), kWidth = static_cast<T>(8 * sizeof(T)), kLast = kWidth - 1;
  std::vector<T> operands{1, 77, kMost,  kLeast, kBelow, 5,   kMost,  kBelow,
                          0, 3,  kWidth, kWidth, kLast,  100, kBelow, kMost};
  std::vector<T> result(32, 99);
  const LoopKernel kernel = make_kernel("shift", {in, out}, body);
  ASSERT_EQ(run_kernel(kernel, {operands.data(), result.data()}, {}, nullptr, target), 0);
  const auto folded = [&](BinaryOp op, T x, int64_t y) {
    return static_cast<T>(fold_integers(op, dtype, static_cast<int64_t>(x), y).value());
  };
  for (size_t k = 0; k < 8; ++k) {
    const T x = operands[k];
    const auto y = static_cast<int64_t>(operands[k + 8]);
    EXPECT_EQ(result[k], folded(BinaryOp::kShl, x, y)) << name_of(dtype) << " " << k;
    EXPECT_EQ(result[k + 8], folded(BinaryOp::kShr, x, y)) << name_of(dtype) << " " << k;
    EXPECT_EQ(result[k + 16], folded(BinaryOp::kShl, x, 3)) << name_of(dtype) << " " << k;
    EXPECT_EQ(result[k + 24], folded(BinaryOp::kShr, x, kWidth)) << name_of(dtype) << " " << k;
  }
}

TEST_P(OnEveryLevel, ShiftsByTheWidthOrMoreOrLessThanNothingAreAsFolded) {
  for (const bool vector : {false, true}) {
    expect_shifts_as_folded<int8_t>(GetParam(), DType::kI8, vector);
    expect_shifts_as_folded<uint8_t>(GetParam(), DType::kU8, vector);
    expect_shifts_as_folded<int32_t>(GetParam(), DType::kI32, vector);
    expect_shifts_as_folded<uint32_t>(GetParam(), DType::kU32, vector);
    expect_shifts_as_folded<int64_t>(GetParam(), DType::kI64, vector);
    expect_shifts_as_folded<uint64_t>(GetParam(), DType::kU64, vector);
  }
}

TEST(Shift, ByAConstantIsNotGuarded) {
  const Buffer in = argument("in", DType::kU32, 2), out = argument("out", DType::kU32, 1);
  const auto text = [&](const Expr& amount) {
    const LoopKernel kernel =
        make_kernel("shift", {in, out}, store(out, 0, binary(BinaryOp::kShl, load(in, 0), amount)));
    return emit_llvm_text(kernel, find_target("x86-64-v3"));
  };
  EXPECT_THAT(text(load(in, 1)), HasSubstr("select"));
  EXPECT_THAT(text(int_imm(DType::kU32, 5)), Not(HasSubstr("select")));
}

TEST_P(OnEveryLevel, FloatsBecomeIntegersBySaturation) {
  Buffer in = argument("in", DType::kF32, 8), i8 = argument("i8", DType::kI8, 8),
         u8 = argument("u8", DType::kU8, 8), i64 = argument("i64", DType::kI64, 8);
  Expr lanes = ramp(0, 1, 8);
  Expr x = load(in, lanes);
  Stmt body = block({store(i8, lanes, cast(DType::kI8, x)), store(u8, lanes, cast(DType::kU8, x)),
                     store(i64, lanes, cast(DType::kI64, x))});
  std::vector<float> a{0.9f, -0.9f, 127.6f, -300, 1e20f, -1e20f, 200.5f, NAN};
  std::vector<int8_t> r8(8);
  std::vector<uint8_t> ru8(8);
  std::vector<int64_t> r64(8);
  ASSERT_EQ(run_kernel(make_kernel("saturate", {in, i8, u8, i64}, body),
                       {a.data(), r8.data(), ru8.data(), r64.data()}, {}, nullptr, GetParam()),
            0);
  EXPECT_THAT(r8, ::testing::ElementsAre(0, 0, 127, -128, 127, -128, 127, 0));
  EXPECT_THAT(ru8, ::testing::ElementsAre(0, 0, 127, 0, 255, 0, 200, 0));
  EXPECT_THAT(r64, ::testing::ElementsAre(0, 0, 127, -300, std::numeric_limits<int64_t>::max(),
                                          std::numeric_limits<int64_t>::min(), 200, 0));
}

/// The half nearest to x, ties to even, by search over all of them.
uint16_t nearest_half(float x, const std::vector<float>& halves) {
  uint16_t best = 0;
  double least = INFINITY;
  for (uint32_t h = 0; h < 0x8000; ++h) {
    const double value = h == 0x7c00 ? 65536.0 : halves[h];
    if (h > 0x7c00) break;
    const double distance = std::abs(std::abs(static_cast<double>(x)) - value);
    if (distance < least || (distance == least && h % 2 == 0)) {
      least = distance;
      best = static_cast<uint16_t>(h);
    }
  }
  return std::signbit(x) ? best | 0x8000 : best;
}

TEST_P(OnEveryLevel, HalvesAreReadExactlyAndWrittenToTheNearest) {
  const int64_t count = 1 << 16;
  Buffer in = argument("in", DType::kF16, count), out = argument("out", DType::kF32, count),
         wide = argument("wide", DType::kF32, 64), narrow = argument("narrow", DType::kF16, 64);
  Expr i = make_var("i"), lanes = ramp(i * 16, 1, 16), j = make_var("j");
  Stmt body = block(
      {for_loop(i, 0, count / 16, LoopKind::kSerial, store(out, lanes, cast(DType::kF32, load(in, lanes)))),
       for_loop(j, 0, 64, LoopKind::kSerial, store(narrow, j, cast(DType::kF16, load(wide, j))))});
  std::vector<uint16_t> halves(count), written(64);
  std::iota(halves.begin(), halves.end(), uint16_t{0});
  std::vector<float> read(count),
      inputs{0.f,   -0.f,     1.f,   65504.f, 65519.f,  65520.f,    1e9f,           INFINITY,       -INFINITY,
             6e-8f, 2.98e-8f, 3e-8f, 6.1e-5f, 6.09e-5f, 1.0009765f, 1.00048828125f, 1.00146484375f, -3.14159f,
             1e-9f, 0.1f};
  while (inputs.size() < 64)
    inputs.push_back(
        std::ldexp(1.f + 0.013f * static_cast<float>(inputs.size()), static_cast<int>(inputs.size()) - 45));
  ASSERT_EQ(run_kernel(make_kernel("halves", {in, out, wide, narrow}, body),
                       {halves.data(), read.data(), inputs.data(), written.data()}, {}, nullptr, GetParam()),
            0);
  for (int64_t h = 0; h < count; ++h) {
    const int exponent = (h >> 10) & 31, mantissa = h & 1023;
    const double sign = h & 0x8000 ? -1 : 1;
    if (exponent == 31 && mantissa != 0) {
      ASSERT_TRUE(std::isnan(read[h])) << h;
      continue;
    }
    const double expected = exponent == 31  ? INFINITY
                            : exponent == 0 ? std::ldexp(mantissa, -24)
                                            : std::ldexp(1024 + mantissa, exponent - 25);
    ASSERT_EQ(read[h], static_cast<float>(sign * expected)) << h;
  }
  for (size_t k = 0; k < 64; ++k) EXPECT_EQ(written[k], nearest_half(inputs[k], read)) << inputs[k];
}

TEST(Bfloat16, IsRoundedToNearestEven) {
  Buffer in = argument("in", DType::kF32, 8), out = argument("out", DType::kBF16, 8);
  Expr lanes = ramp(0, 1, 8);
  std::vector<uint32_t> bits{0x3f800000, 0x3f808000, 0x3f818000, 0x3f808001,
                             0x7f7fffff, 0x7fc00000, 0x80000001, 0xff800000};
  std::vector<uint16_t> c(8);
  ASSERT_EQ(run_kernel(make_kernel("bf16", {in, out}, store(out, lanes, cast(DType::kBF16, load(in, lanes)))),
                       {bits.data(), c.data()}),
            0);
  EXPECT_THAT(c, ::testing::ElementsAre(0x3f80, 0x3f80, 0x3f82, 0x3f81, 0x7f80, 0x7fc0, 0x8000, 0xff80));
}

TEST_P(OnEveryLevel, MinAndMaxReturnTheOtherOperandOfANaNThatIsNoConstant) {
  Buffer a = argument("a", DType::kF32, 8), b = argument("b", DType::kF32, 8),
         out = argument("out", DType::kF32, 32);
  Expr lanes = ramp(0, 1, 8);
  Expr x = load(a, lanes), y = load(b, lanes), zero = broadcast(float_imm(DType::kF32, 0), 8);
  Stmt body = block({store(out, lanes, min(x, y)), store(out, ramp(8, 1, 8), max(x, y)),
                     store(out, ramp(16, 1, 8), max(x, zero)), store(out, ramp(24, 1, 8), min(zero, x))});
  std::vector<float> va{NAN, 1, 2, -3, INFINITY, -INFINITY, NAN, 5}, vb{1, NAN, 3, -4, 2, 2, NAN, 5}, c(32);
  ASSERT_EQ(run_kernel(make_kernel("extremes", {a, b, out}, body), {va.data(), vb.data(), c.data()}, {},
                       nullptr, GetParam()),
            0);
  for (int i = 0; i < 8; ++i) {
    EXPECT_TRUE(c[i] == std::fmin(va[i], vb[i]) || (std::isnan(c[i]) && i == 6)) << i;
    EXPECT_TRUE(c[8 + i] == std::fmax(va[i], vb[i]) || (std::isnan(c[8 + i]) && i == 6)) << i;
    const bool nan = std::isnan(va[i]);
    EXPECT_TRUE(nan ? std::isnan(c[16 + i]) : c[16 + i] == std::fmax(va[i], 0.0f)) << i;
    EXPECT_TRUE(nan ? std::isnan(c[24 + i]) : c[24 + i] == std::fmin(va[i], 0.0f)) << i;
  }
}

// An accumulator that began as a number stays one, whichever operand it is; one that was given data may be
// NaN.
TEST_P(OnEveryLevel, ExtremesOfAnAccumulatorPassOverNaN) {
  Buffer a = argument("a", DType::kF32, 24), out = argument("out", DType::kF32, 24),
         most = local_buffer("most", DType::kF32, 8), least = local_buffer("least", DType::kF32, 8),
         copy = local_buffer("copy", DType::kF32, 8);
  const Expr lanes = ramp(0, 1, 8);
  auto number = [](double value) { return broadcast(float_imm(DType::kF32, value), 8); };
  std::vector<Stmt> steps{store(most, lanes, number(-INFINITY)), store(least, lanes, number(INFINITY)),
                          store(copy, lanes, load(a, lanes))};
  for (int64_t from : {0, 8, 16}) {
    const Expr x = load(a, ramp(from, 1, 8));
    steps.push_back(store(most, lanes, max(load(most, lanes), x)));
    steps.push_back(store(least, lanes, min(x, load(least, lanes))));
    steps.push_back(store(copy, lanes, max(load(copy, lanes), x)));
  }
  for (const auto& [buffer, at] : {std::pair(most, 0), std::pair(least, 8), std::pair(copy, 16)})
    steps.push_back(store(out, ramp(at, 1, 8), load(buffer, lanes)));
  const Stmt body = allocate(most, allocate(least, allocate(copy, block(std::move(steps)))));
  std::vector<float> x{NAN, 1, NAN, -3, INFINITY, NAN, NAN, 5,  2,   NAN, NAN, -4,
                       1,   1, 7,   5,  -2,       3,   8,   -5, NAN, 4,   NAN, NAN},
      y(24);
  ASSERT_EQ(
      run_kernel(make_kernel("extremes", {a, out}, body), {x.data(), y.data()}, {}, nullptr, GetParam()), 0);
  for (size_t i = 0; i < 8; ++i) {
    const float largest = std::fmax(std::fmax(x[i], x[8 + i]), x[16 + i]);
    EXPECT_EQ(y[i], largest) << i;
    EXPECT_EQ(y[8 + i], std::fmin(std::fmin(x[i], x[8 + i]), x[16 + i])) << i;
    EXPECT_EQ(y[16 + i], largest) << i;
  }
}

TEST_P(OnEveryLevel, MinAndMaxOfHalvesReturnTheOtherOperandOfANaN) {
  std::vector<float> va{NAN, 1, 2, -3, INFINITY, -INFINITY, NAN, 5}, vb{1, NAN, 3, -4, 2, 2, NAN, 5};
  std::vector<uint16_t> ha{0x7e00, 0x3c00, 0x4000, 0xc200, 0x7c00, 0xfc00, 0x7e00, 0x4500},
      hb{0x3c00, 0x7e00, 0x4200, 0xc400, 0x4000, 0x4000, 0x7e00, 0x4500};
  Buffer a = argument("a", DType::kF16, 8), b = argument("b", DType::kF16, 8);
  Expr lanes = ramp(0, 1, 8), x = load(a, lanes), y = load(b, lanes);
  // A kernel each: LLVM narrows only what has a single use.
  auto run = [&](Buffer out, Expr value, void* results) {
    const LoopKernel kernel = make_kernel("half_extremes", {a, b, out}, store(out, lanes, std::move(value)));
    ASSERT_EQ(run_kernel(kernel, {ha.data(), hb.data(), results}, {}, nullptr, GetParam()), 0);
  };
  for (bool is_max : {false, true}) {
    std::vector<uint16_t> halves(8);
    std::vector<float> floats(8);
    run(argument("out", DType::kF16, 8), is_max ? max(x, y) : min(x, y), halves.data());
    Expr wide_x = cast(DType::kF32, x), wide_y = cast(DType::kF32, y);
    run(argument("out", DType::kF32, 8), is_max ? max(wide_x, wide_y) : min(wide_x, wide_y), floats.data());
    for (size_t i = 0; i < 8; ++i) {
      const float expected = is_max ? std::fmax(va[i], vb[i]) : std::fmin(va[i], vb[i]);
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(floats[i])) << i;
        EXPECT_GT(halves[i] & 0x7fff, 0x7c00) << i;
        continue;
      }
      EXPECT_EQ(floats[i], expected) << i;
      EXPECT_EQ(halves[i], expected == va[i] ? ha[i] : hb[i]) << i;
    }
  }
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
