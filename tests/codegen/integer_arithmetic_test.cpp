// Comparisons, divisions and shifts of integers in generated code.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "host/codegen/find_target.h"
#include "host/tensor/fold.h"
#include "tests/codegen/codegen_cases.h"
#include "tests/codegen/run_kernel.h"

namespace gantry {
namespace {

using codegen_cases::OnEveryLevel;
using ::testing::HasSubstr;
using ::testing::Not;

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

}  // namespace
}  // namespace gantry
