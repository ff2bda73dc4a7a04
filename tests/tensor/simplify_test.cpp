#include "host/tensor/simplify.h"

#include <gtest/gtest.h>

#include <random>

#include "host/tensor/fold.h"
#include "host/tensor/simplifier.h"
#include "host/tensor/tensor.h"

namespace gantry {
namespace {

struct Vars {
  Expr i = make_var("i"), j = make_var("j"), k = make_var("k"), m = make_var("m");
  Expr n = symbol_var("N"), w = symbol_var("W");
  RangeMap ranges;
  Vars() {
    set(i, 0, 24);
    set(j, 0, 16);
    set(k, 0, 3);
    set(m, 0, n * w);
  }
  void set(const Expr& v, Expr low, Expr extent) { ranges[v.as<VarNode>()] = {low, extent}; }
  std::string operator()(const Expr& e) const { return to_string(simplify(e, ranges)); }
};

TEST(Simplify, QuotientAndRemainderGoTogether) {
  Vars v;
  EXPECT_EQ(v(floordiv(v.i, 5) * 5 + mod(v.i, 5)), "i");
  EXPECT_EQ(v(floordiv(v.m, v.w) * v.w + mod(v.m, v.w)), "m");
  Expr a = floordiv(v.i, 12), b = mod(floordiv(v.i, 4), 3), c = mod(v.i, 4);
  EXPECT_EQ(v((a * 3 + b) * 4 + c), "i");
}

/// Axes fused, split over blocks and threads, and read back as coordinates: no division is left.
TEST(Simplify, CoordinatesOfFusedAxesGoTogether) {
  Expr n = symbol_var("N"), h = symbol_var("H"), w = symbol_var("W");
  for (auto [rows, columns] :
       {std::pair{Expr(7), Expr(5)}, {Expr(56), Expr(56)}, {h, w}, {h * Expr(2), Expr(9)}}) {
    Expr block = make_var("block"), thread = make_var("thread"), lane = make_var("lane");
    Simplifier s;
    s.bind(block, 0, floordiv(n * rows * columns + Expr(63), Expr(64)));
    s.bind(thread, 0, 16);
    s.bind(lane, 0, 4);
    Expr f = block * Expr(64) + thread * Expr(4) + lane, image = rows * columns;
    std::string flat = "block * 64 + thread * 4 + lane";
    Expr row = floordiv(f, columns), column = mod(f, columns);
    EXPECT_EQ(to_string(s.simplify((floordiv(row, rows) * rows + mod(row, rows)) * columns + column)), flat);
    EXPECT_EQ(to_string(s.simplify((floordiv(f, image) * rows + mod(row, rows)) * columns + column)), flat);
    Expr inner = mod(f, image);
    Expr nested = (floordiv(f, image) * rows + floordiv(inner, columns)) * columns + mod(inner, columns);
    EXPECT_EQ(to_string(s.simplify(nested)), flat);
  }
}

TEST(Simplify, DigitsOfAThreadGoTogether) {
  Vars v;
  Expr t = make_var("t");
  v.set(t, 0, 256);
  EXPECT_EQ(v(floordiv(t, 8) * 8 + mod(t, 8)), "t");
  EXPECT_EQ(v(floordiv(t, 32) * 128 + mod(floordiv(t, 8), 4) * 32 + mod(t, 8) * 4), "t * 4");
  EXPECT_EQ(v(floordiv(mod(t, 64), 8) * 8 + mod(t, 8) + floordiv(t, 64) * 64), "t");
  EXPECT_EQ(v(lt(floordiv(t, 5), 3)), "t < 15");
  EXPECT_EQ(v(ge(floordiv(t, 8), 2)), "0 < t - 15");
}

TEST(Simplify, ConditionsNarrowVariablesWhileTheyHold) {
  Expr block = make_var("block"), thread = make_var("thread");
  Simplifier s;
  s.bind(block, 0, 4);
  s.bind(thread, 0, 256);
  size_t known = s.facts();
  s.assume(lt(thread, 64));
  EXPECT_TRUE(s.prove(lt(block * 32 + floordiv(thread, 2), 128)));
  EXPECT_EQ(to_string(s.simplify(mod(thread, 64))), "thread");
  s.assume(ge(thread, 32));
  EXPECT_TRUE(s.prove(gt(floordiv(thread, 16), 1)));
  s.forget(known);
  EXPECT_FALSE(s.prove(lt(block * 32 + floordiv(thread, 2), 128)));
  EXPECT_EQ(to_string(s.simplify(mod(thread, 64))), "mod(thread, 64)");
  Expr guarded = if_then_else(lt(thread, 64), mod(thread, 64), mod(thread, 64));
  EXPECT_EQ(to_string(s.simplify(guarded)), to_string(if_then_else(lt(thread, 64), thread, mod(thread, 64))));
}

TEST(Simplify, TilesDivideExactly) {
  Vars v;
  EXPECT_EQ(v(floordiv(v.i * 16 + v.j, 16)), "i");
  EXPECT_EQ(v(mod(v.i * 16 + v.j, 16)), "j");
  EXPECT_EQ(v(floordiv(v.i * 48 + v.k * 16 + v.j, 48)), "i");
}

TEST(Simplify, RangesDecideComparisonsAndMinima) {
  Vars v;
  EXPECT_EQ(v(min(v.i, 30)), "i");
  EXPECT_EQ(v(max(v.i - 24, 0)), "0");
  EXPECT_EQ(v(lt(v.i * 16 + v.j, 384)), "true");
  EXPECT_EQ(v(ge(v.i, 24)), "false");
  EXPECT_EQ(v(lt(v.m, v.n * v.w)), "true");
  EXPECT_EQ(v(floordiv(v.m, v.n * v.w)), "0");
}

TEST(Simplify, ShiftedTilesStayInside) {
  Vars v;
  Expr o = make_var("o"), t = make_var("t");
  v.set(o, 0, 8);
  v.set(t, 0, 4);
  Expr x = min(o * 4, 25) + t;
  EXPECT_TRUE(can_prove(lt(x, 29), v.ranges));
  EXPECT_FALSE(can_prove(lt(x, 28), v.ranges));
  EXPECT_EQ(v(x - min(o * 4, 25)), "t");
}

TEST(Simplify, SymbolicTilesAreGuardedOnlyWhereNeeded) {
  Vars v;
  Expr o = make_var("o"), t = make_var("t");
  v.set(o, 0, floordiv(v.n + 7, 8));
  v.set(t, 0, 8);
  EXPECT_FALSE(can_prove(lt(o * 8 + t, v.n), v.ranges));
  EXPECT_TRUE(can_prove(lt(o * 8, v.n), v.ranges));
  EXPECT_TRUE(can_prove(lt(o * 8 + t, v.n + 8), v.ranges));
}

TEST(Simplify, RemaindersByDataMayBeNegative) {
  Vars v;
  const Expr x = placeholder({24}, DType::kI64, "x")({v.i}), y = placeholder({24}, DType::kI64, "y")({v.i});
  const Expr unknown = make_var("unknown"), below = v.k - 4;
  const auto is_decided = [&](const Expr& e) { return constant_of(simplify(e, v.ranges)).has_value(); };
  EXPECT_FALSE(is_decided(eq(mod(x, -3), -1)));
  for (const Expr& divisor : {Expr(-3), y, y * 2, unknown, below}) {
    SCOPED_TRACE(to_string(divisor));
    EXPECT_FALSE(is_decided(ge(mod(x, divisor), 0)));
    EXPECT_FALSE(is_decided(ge(floordiv(v.i, divisor), 0)));
    EXPECT_NE(v(max(mod(x, divisor), 0)), v(mod(x, divisor)));
  }
  for (const Expr& divisor : {Expr(3), v.n, v.n * v.w})
    EXPECT_TRUE(can_prove(ge(mod(x, divisor), 0), v.ranges));
  EXPECT_EQ(v(mod(v.i - v.i - 7, -3)), "-1");
}

/// Random index arithmetic over i, j, k.
class RandomExpr {
 public:
  RandomExpr(unsigned seed, const Vars& v) : generator_(seed), v_(v) {}
  int pick(int n) { return std::uniform_int_distribution<int>(0, n - 1)(generator_); }
  int divisor() {
    const int number = pick(12) - 6;
    return number == 0 ? 6 : number;
  }

  Expr index(int depth) {
    if (depth == 0) {
      Expr leaves[] = {v_.i, v_.j, v_.k, Expr(pick(20) - 8), v_.n};
      return leaves[pick(5)];
    }
    switch (pick(8)) {
      case 0:
      case 1:
        return index(depth - 1) + index(depth - 1);
      case 2:
        return index(depth - 1) - index(depth - 1);
      case 3:
        return index(depth - 1) * Expr(pick(9) - 2);
      case 4:
        return floordiv(index(depth - 1), Expr(divisor()));
      case 5:
        return mod(index(depth - 1), Expr(divisor()));
      case 6:
        return min(index(depth - 1), index(depth - 1));
      default:
        return max(index(depth - 1), index(depth - 1));
    }
  }
  Expr condition(int depth) {
    Expr a = index(depth), b = index(depth);
    Expr all[] = {lt(a, b), le(a, b), gt(a, b), ge(a, b), eq(a, b), ne(a, b)};
    Expr c = all[pick(6)];
    return pick(3) ? c : c && lt(index(depth), index(depth));
  }

 private:
  std::mt19937 generator_;
  const Vars& v_;
};

int64_t value_of(const Expr& e, const Vars& v, int64_t i, int64_t j, int64_t k, int64_t n) {
  Expr value = substitute(
      e, {{v.i.as<VarNode>(), i}, {v.j.as<VarNode>(), j}, {v.k.as<VarNode>(), k}, {v.n.as<VarNode>(), n}});
  auto constant = constant_of(value);
  EXPECT_TRUE(constant.has_value()) << to_string(value);
  return constant.value_or(0);
}

TEST(Simplify, NeverChangesTheValueOfRandomExpressions) {
  Vars v;
  for (unsigned seed = 0; seed < 3000; ++seed) {
    RandomExpr random(seed, v);
    bool boolean = seed % 3 == 0;
    Expr e = boolean ? random.condition(2) : random.index(4);
    Expr s = simplify(e, v.ranges);
    Interval bounds = boolean ? Interval{} : bounds_of(e, v.ranges);
    for (int trial = 0; trial < 25; ++trial) {
      int64_t i = random.pick(24), j = random.pick(16), k = random.pick(3), n = random.pick(30);
      int64_t expected = value_of(e, v, i, j, k, n);
      ASSERT_EQ(value_of(s, v, i, j, k, n), expected)
          << to_string(e) << "  =>  " << to_string(s) << " at " << i << " " << j << " " << k << " " << n;
      if (bounds.low) {
        ASSERT_LE(*bounds.low, expected) << to_string(e);
      }
      if (bounds.high) {
        ASSERT_GE(*bounds.high, expected) << to_string(e);
      }
    }
  }
}

}  // namespace
}  // namespace gantry
