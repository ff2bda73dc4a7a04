// Dimensions: simplifications by name, and random expressions against direct evaluation.
#include "host/graph/dim.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <random>

#include "host/graph/dim_at_least.h"
#include "host/support/error.h"

namespace gantry {
namespace {

const Dim N = Dim::symbol("N"), T = Dim::symbol("T"), H = Dim::symbol("H");

TEST(Dim, PrintsPolynomialsInACanonicalOrder) {
  EXPECT_EQ((1 + N * 2).str(), "2*N+1");
  EXPECT_EQ((T * N - 3).str(), "N*T-3");
  EXPECT_EQ((Dim(0) - N).str(), "-N");
  EXPECT_EQ((N * N + H - T).str(), "N*N+H-T");
  EXPECT_EQ(Dim().str(), "0");
}

TEST(Dim, EqualPolynomialsCompareEqualHoweverTheyWereBuilt) {
  EXPECT_EQ((N + 1) * (N - 1), N * N - 1);
  EXPECT_EQ(N * T + T, T * (N + 1));
  EXPECT_EQ(N - N, Dim(0));
  EXPECT_FALSE(N == T);
}

std::string at_least(const Dim& dim, int64_t least) {
  std::string text;
  for (const DimAtLeast& bound : simplest_at_least(dim, least))
    text += fmt::format("{}{} >= {}", text.empty() ? "" : ", ", bound.dim.str(), bound.least);
  return text;
}

TEST(DimAtLeast, IsSaidOfTheSymbolWhereItCanBe) {
  EXPECT_EQ(at_least(floordiv(H - 7, 2) + 1, 1), "H >= 7");
  EXPECT_EQ(at_least(floordiv(floordiv(H - 7, 2) - 2, 3) + 1, 1), "H >= 11");
  EXPECT_EQ(at_least(3 * H, 4), "H >= 2");
  EXPECT_EQ(at_least(min(H, T - 2), 1), "H >= 1, T >= 3");
  EXPECT_EQ(at_least(H + T - 4, 1), "H+T >= 5");
  EXPECT_EQ(at_least(5 - H, 1), "-H >= -4");
}

TEST(DimAtLeast, IsNotSaidWhereItAlwaysHolds) {
  EXPECT_EQ(at_least(H + 1, 1), "");
  EXPECT_EQ(at_least(floordiv(H, 2), 0), "");
  EXPECT_EQ(at_least(7, 7), "");
}

TEST(DimAtLeast, OfAProductItIsSaidOfEachSize) {
  EXPECT_THAT(sizes_multiplied(3 * H * H * T), testing::UnorderedElementsAre(H, H, T));
  EXPECT_THAT(sizes_multiplied(H * floordiv(T, 2)), testing::UnorderedElementsAre(H, floordiv(T, 2)));
  for (const Dim& other : {H, H * T + 1, H * floordiv(T - 2, 2), -1 * H * T, Dim(3)})
    EXPECT_THAT(sizes_multiplied(other), testing::ElementsAre(other)) << other.str();
}

TEST(DimAtLeast, MeansTheSameAsTheBoundThatItSimplifies) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    Dim dim = H;
    for (int i = 0; i < 3; ++i) {
      const int64_t number = 1 + static_cast<int64_t>(random() % 5);
      dim = random() % 2 == 0 ? floordiv(dim, number) : random() % 2 == 0 ? dim * number : dim - number;
    }
    const int64_t least = static_cast<int64_t>(random() % 9) - 4;
    const auto bounds = simplest_at_least(dim, least);
    for (int64_t h = 0; h < 200; ++h) {
      const std::map<std::string, int64_t> sizes = {{"H", h}};
      const bool said = std::ranges::all_of(
          bounds, [&](const DimAtLeast& bound) { return bound.dim.evaluate(sizes) >= bound.least; });
      ASSERT_EQ(said, dim.evaluate(sizes) >= least) << dim.str() << " >= " << least << " at " << h;
    }
  }
}

TEST(Dim, ExactQuotientsOfPolynomialsHaveNoDivision) {
  EXPECT_EQ(floordiv(2 * N, 2), N);
  EXPECT_EQ(floordiv(N * T * 768, 768), N * T);
  EXPECT_EQ(floordiv(N * T * 768, N * T), Dim(768));
  EXPECT_EQ(floordiv(N * T * 768, N), T * 768);
  EXPECT_EQ(floordiv((N + 1) * 768, N + 1), Dim(768));
  EXPECT_EQ(floordiv((N + 1) * (T + 2) * 3, T + 2), N * 3 + 3);
  EXPECT_EQ(floordiv(N * T * 768, N * 12), T * 64);
}

TEST(Dim, RemaindersOfMultiplesAreZero) {
  EXPECT_EQ(mod(4 * N, 4), Dim(0));
  EXPECT_EQ(mod(N * T, T), Dim(0));
  EXPECT_EQ(mod(4 * N + 3, 4), Dim(3));
  EXPECT_EQ(mod(mod(N, 8), 4), mod(N, 4));
}

TEST(Dim, ConstantsLeaveADivisionWhereTheyCan) {
  EXPECT_EQ(floordiv(N + 5, 2).str(), "floordiv(N+1, 2)+2");
  EXPECT_EQ(floordiv(2 * N + 3, 2), N + 1);
  EXPECT_EQ(floordiv(mod(N, 4), 4), Dim(0));
  EXPECT_EQ(mod(6 * N + 3, 4).str(), "2*mod(N+1, 2)+1");
}

TEST(Dim, HalvingTwiceIsDividingByFour) {
  const Dim half = floordiv(H + 1, 2);
  EXPECT_EQ(floordiv(half + 1, 2), floordiv(H + 3, 4));
  EXPECT_EQ(floordiv(floordiv(H, 2), 2), floordiv(H, 4));
}

TEST(Dim, MaximumAndMinimumUseLowerBounds) {
  EXPECT_EQ(max(N, 0), N);
  EXPECT_EQ(max(N + 1, 1), N + 1);
  EXPECT_EQ(min(N, -1), Dim(-1));
  EXPECT_EQ(max(N + 2, N), N + 2);
  EXPECT_EQ(max(N, T), max(T, N));
  EXPECT_EQ(max(max(N, 4), max(T, 7)), max(max(T, 7), N));
  EXPECT_EQ(max(N, 1).str(), "max(1, N)");
}

TEST(Dim, MaximumAndMinimumTakeTheEndsOfSixtyFourBits) {
  const int64_t least = std::numeric_limits<int64_t>::min(), most = std::numeric_limits<int64_t>::max();
  for (const Dim& dim : {N, N + 5, N - 5, 5 - N, floordiv(N + 3, 4), Dim(7), Dim(-7)}) {
    EXPECT_EQ(max(dim, least), dim);
    EXPECT_EQ(min(dim, least), Dim(least)) << dim.str();
    EXPECT_EQ(max(dim, most), Dim(most)) << dim.str();
    EXPECT_EQ(min(dim, most), dim);
  }
  EXPECT_EQ(max(N + 5, least + 1), N + 5);
  EXPECT_TRUE(provably_different(N, least));
  EXPECT_TRUE(provably_different(most, -1));
}

TEST(Dim, LowerBoundsHoldForSymbolsFromZero) {
  EXPECT_EQ((N * T + 3).lower_bound(), 3);
  EXPECT_EQ((N - 1).lower_bound(), -1);
  EXPECT_EQ((Dim(5) - N).lower_bound(), std::nullopt);
  EXPECT_EQ((floordiv(N - 1, 2) + 1).lower_bound(), 0);
  EXPECT_EQ(max(N - 5, 2).lower_bound(), 2);
}

TEST(Dim, LowerBoundsSeeWhatTermsHaveInCommon) {
  const Dim blocks = ceildiv(N, 4);
  EXPECT_EQ((blocks * 4 - N).lower_bound(), 0);
  EXPECT_EQ((N - floordiv(N, 4) * 4).lower_bound(), 0);
  EXPECT_EQ((max(N, 9) - N).lower_bound(), 0);
  EXPECT_EQ((N - min(N, T)).lower_bound(), 0);
  EXPECT_EQ((floordiv(max(N, 9) + 3, 4) * 4 - max(N, 9) + 2).lower_bound(), 2);
  EXPECT_EQ(max(N - blocks * 4 - 1, 0), Dim(0));
}

TEST(Dim, LowerBoundsSeeThatAPartIsNoMoreThanTheWhole) {
  const Dim half = floordiv(N, 2), head = floordiv(N, 6);
  EXPECT_EQ((N - half).lower_bound(), 0);
  EXPECT_EQ((N + 3 - half).lower_bound(), 3);
  EXPECT_EQ((half + 1 - floordiv(N + 1, 2)).lower_bound(), 0);
  EXPECT_EQ((N - head * 5).lower_bound(), 0);
  EXPECT_EQ((head - floordiv(N, 12)).lower_bound(), 0);
  const Dim middle = min(N, 9), begin = floordiv(N - middle, 2);
  EXPECT_EQ(begin.lower_bound(), 0);
  EXPECT_EQ((N - begin - middle).lower_bound(), 0);
  EXPECT_EQ((half - floordiv(N, 3) * 2).lower_bound(), std::nullopt);
  constexpr int64_t kFar = int64_t{1} << 62;
  EXPECT_EQ((N - half - kFar).lower_bound(), std::nullopt) << "twice that is no number of i64";
}

TEST(Dim, WhatIsAddedToAnExtremumGoesInsideWhereItCancelsAnOperand) {
  EXPECT_EQ((max(Dim(256) - N, 0) + N).str(), "max(256, N)");
  EXPECT_EQ(max(Dim(256) - N, 0) + (N * 2 + T + 1), max(N, 256) + N + T + 1);
  EXPECT_EQ(max(N, 256) - N, max(Dim(256) - N, 0));
  EXPECT_EQ(min(Dim(8) - N, T) + N, min(8, N + T));
}

TEST(Dim, WhatIsLeftOfADivisionAndProductsAreAsSumsAre) {
  const std::pair<Dim, const char*> cases[] = {
      {floordiv(2 * N + max(3 - N, 2) + T, 3), "floordiv(N+T+max(3, N+2), 3)"},
      {mod(2 * N + max(8 - N, 3) + T, 3), "mod(N+T+max(8, N+3), 3)"},
      {(0 - N - max(3 - N, 0)) * -1, "max(3, N)"},
  };
  for (const auto& [dim, text] : cases) {
    EXPECT_EQ(dim.str(), text);
    EXPECT_EQ(Dim::parse(dim.str()), dim);
  }
}

TEST(Dim, SymbolsThatAreNotReplacedKeepTheirRanges) {
  const Dim few = Dim::symbol("L", {1, 7});
  EXPECT_EQ((few * N + T).substitute({{"N", 1}}).symbol_ranges().at("L"), (DimRange{1, 7}));
  EXPECT_EQ(floordiv(few * N, 8).substitute({{"N", 1}}), Dim(0));
  EXPECT_EQ(max(few + N, T).substitute({{"N", 0}, {"T", 7}}), Dim(7));
}

TEST(Dim, DivisionRoundsTowardsMinusInfinity) {
  EXPECT_EQ(floordiv(Dim(-7), Dim(2)).value(), -4);
  EXPECT_EQ(mod(Dim(-7), Dim(2)).value(), 1);
  EXPECT_EQ(mod(Dim(7), Dim(-2)).value(), -1);
  EXPECT_EQ(ceildiv(Dim(7), Dim(2)).value(), 4);
}

TEST(Dim, DivisionByZeroIsAUserError) {
  EXPECT_THROW(floordiv(N, 0), Error);
  EXPECT_THROW(mod(Dim(1), Dim(0)), Error);
  EXPECT_THROW(floordiv(Dim(1), N).evaluate({{"N", 0}}), Error);
}

TEST(Dim, OverflowIsAUserErrorInsteadOfAWrappedValue) {
  const int64_t large = int64_t{1} << 62;
  EXPECT_THROW(Dim(large) * Dim(2), Error);
  EXPECT_THROW(Dim(large) * N * Dim(4), Error);
  EXPECT_THROW((N * N).evaluate({{"N", int64_t{1} << 32}}), Error);
  EXPECT_THROW(Dim::parse("99999999999999999999"), Error);
}

TEST(Dim, TheLeastIntegerIsDividedByMinusOneWithoutATrap) {
  const int64_t least = std::numeric_limits<int64_t>::min();
  EXPECT_THROW(floordiv(Dim(least) * N, Dim(-1) * N), Error);
  EXPECT_THROW(floordiv(Dim(least) * N * N, Dim(1) - N), Error);
  EXPECT_THROW(mod(T, Dim(least)), Error);
}

TEST(Dim, BoundsOfWhatIsNestedDeeplyAreFound) {
  // As offsets of values that lie above each other. Each level asks twice for what is known of the one below
  // it.
  Dim end = N;
  for (int i = 0; i < 40; ++i) end = max(end + N, T * (i + 2));
  EXPECT_EQ((end + N).lower_bound(), 0);
  EXPECT_EQ((end - T * 100).lower_bound(), std::nullopt);
  EXPECT_EQ(end.evaluate({{"N", 2}, {"T", 1}}), 82);
  EXPECT_EQ(end.evaluate({{"N", 0}, {"T", 3}}), 123);
}

TEST(Dim, MissingSymbolIsNamed) {
  try {
    (N + T).evaluate({{"N", 1}});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser);
    EXPECT_THAT(error.what(), testing::HasSubstr("'T'"));
  }
}

TEST(Dim, ParseReportsWhatItCannotRead) {
  for (const char* text : {"", "N+", "2**N", "floordiv(N)", "N)", "foo(N, 1)", "1N", "(N", "N N", "#"}) {
    EXPECT_THROW(Dim::parse(text), Error) << text;
  }
  EXPECT_THROW(Dim::parse(std::string(100000, '(')), Error);
  EXPECT_THROW(Dim::symbol("a b"), Error);
  EXPECT_EQ(Dim::parse(" floordiv( H + 2*p - k , 2 ) + 1 "),
            floordiv(H + Dim::parse("2*p") - Dim::symbol("k"), 2) + 1);
}

TEST(Dim, SumsOfAnyLengthAreReadAsTheyWouldBeAdded) {
  Dim sum = 0;
  std::string text = "0";
  for (int i = 1; i <= 9; ++i) {
    const std::string name = fmt::format("N{}", i % 4);
    sum = i % 3 == 0 ? sum - Dim(i) * Dim::symbol(name) : sum + Dim(i) * Dim::symbol(name);
    text += fmt::format(" {} {}*{}", i % 3 == 0 ? '-' : '+', i, name);
    EXPECT_EQ(Dim::parse(text), sum) << text;
  }
}

TEST(Dim, ProvablyDifferentNeedsAConstantDifference) {
  EXPECT_TRUE(provably_different(N + 1, N));
  EXPECT_FALSE(provably_different(N, T));
  EXPECT_FALSE(provably_different(N, 3));
}

TEST(Dim, ElementCountOfAScalarIsOneAndZeroAbsorbs) {
  EXPECT_EQ(element_count({}), Dim(1));
  EXPECT_EQ(element_count({Dim(int64_t{1} << 40), Dim(int64_t{1} << 40), 0}), Dim(0));
  EXPECT_EQ(to_string(Shape{N, 3, 224}), "(N, 3, 224)");
}

// --- random expressions

/// An expression tree evaluated directly, without any simplification.
struct Tree {
  char kind;  // c s + - * / % M m
  int64_t constant = 0;
  std::string symbol;
  std::shared_ptr<Tree> a, b;

  Dim dim() const {
    switch (kind) {
      case 'c':
        return constant;
      case 's':
        return Dim::symbol(symbol);
      case '+':
        return a->dim() + b->dim();
      case '-':
        return a->dim() - b->dim();
      case '*':
        return a->dim() * b->dim();
      case '/':
        return floordiv(a->dim(), b->dim());
      case '%':
        return mod(a->dim(), b->dim());
      case 'M':
        return max(a->dim(), b->dim());
      default:
        return min(a->dim(), b->dim());
    }
  }
  /// Nothing where a division by zero occurs.
  std::optional<int64_t> value(const std::map<std::string, int64_t>& bindings) const {
    if (kind == 'c') return constant;
    if (kind == 's') return bindings.at(symbol);
    const auto x = a->value(bindings), y = b->value(bindings);
    if (!x || !y || ((kind == '/' || kind == '%') && *y == 0)) return std::nullopt;
    int64_t floor = 0;
    if (kind == '/' || kind == '%')
      floor = static_cast<int64_t>(std::floor(static_cast<double>(*x) / static_cast<double>(*y)));
    switch (kind) {
      case '+':
        return *x + *y;
      case '-':
        return *x - *y;
      case '*':
        return *x * *y;
      case '/':
        return floor;
      case '%':
        return *x - floor * *y;
      case 'M':
        return std::max(*x, *y);
      default:
        return std::min(*x, *y);
    }
  }
};

std::shared_ptr<Tree> random_tree(std::mt19937& random, int depth) {
  auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  auto tree = std::make_shared<Tree>();
  if (depth == 0 || pick(5) == 0) {
    if (pick(2) == 0) {
      tree->kind = 'c';
      tree->constant = pick(12) - 3;
    } else {
      tree->kind = 's';
      tree->symbol = std::vector<std::string>{"N", "T", "H"}[static_cast<size_t>(pick(3))];
    }
    return tree;
  }
  tree->kind = "++-**//%%Mm"[pick(11)];
  tree->a = random_tree(random, depth - 1);
  tree->b = random_tree(random, depth - 1);
  return tree;
}

std::optional<int64_t> run_postfix(const Dim& dim, const std::map<std::string, int64_t>& bindings) {
  std::vector<int64_t> stack;
  dim.visit_postfix([&](Dim::Opcode opcode, int64_t constant, const std::string& symbol) {
    if (opcode == Dim::Opcode::kConstant) return stack.push_back(constant);
    if (opcode == Dim::Opcode::kSymbol) return stack.push_back(bindings.at(symbol));
    const int64_t b = stack.back();
    stack.pop_back();
    int64_t& a = stack.back();
    switch (opcode) {
      case Dim::Opcode::kAdd:
        a += b;
        break;
      case Dim::Opcode::kMul:
        a *= b;
        break;
      case Dim::Opcode::kFloorDiv:
        a = floordiv(Dim(a), Dim(b)).value();
        break;
      case Dim::Opcode::kMod:
        a = mod(Dim(a), Dim(b)).value();
        break;
      case Dim::Opcode::kMax:
        a = std::max(a, b);
        break;
      default:
        a = std::min(a, b);
        break;
    }
  });
  if (stack.size() != 1) return std::nullopt;
  return stack[0];
}

TEST(DimProperty, CanonicalFormsHaveTheValueOfTheExpressionTheyCameFrom) {
  std::mt19937 random(7);
  int compared = 0;
  for (int i = 0; i < 6000; ++i) {
    const auto tree = random_tree(random, 1 + i % 6);
    Dim dim;
    try {
      dim = tree->dim();
    } catch (const Error&) {
      continue;  // a constant division by zero or too many terms
    }
    const Dim reparsed = Dim::parse(dim.str());
    ASSERT_EQ(reparsed, dim) << dim.str() << " reads as " << reparsed.str();
    for (int j = 0; j < 12; ++j) {
      std::map<std::string, int64_t> values;
      std::map<std::string, Dim> constants;
      for (const char* name : {"N", "T", "H"}) {
        values[name] = static_cast<int64_t>(random() % 9);
        constants[name] = values[name];
      }
      const auto expected = tree->value(values);
      if (!expected) continue;
      ASSERT_EQ(dim.evaluate(values), *expected) << dim.str();
      ASSERT_EQ(dim.substitute(constants), Dim(*expected)) << dim.str();
      ASSERT_EQ(run_postfix(dim, values), expected) << dim.str();
      const auto low = dim.lower_bound();
      if (low) {
        ASSERT_LE(*low, *expected) << dim.str();
      }
      ++compared;
    }
  }
  EXPECT_GT(compared, 20000);
}

}  // namespace
}  // namespace gantry
