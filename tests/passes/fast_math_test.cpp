#include <fmt/format.h>

#include "tests/passes/pass_test.h"

namespace gantry {
namespace {

std::string fast(const std::string& nodes, const std::string& type = "f32") {
  const std::string text = after("fn @main(%x: Tensor[(4), " + type + "], %y: Tensor[(4), " + type +
                                     "]) -> Tensor[(4), " + type + "] {\n" + nodes + "  return %out\n}\n",
                                 [](Graph& graph) {
                                   fast_math(graph, fresh_context());
                                   fold_constant(graph, fresh_context());
                                   dead_code(graph, fresh_context());
                                 });
  const size_t begin = text.find('\n') + 1;
  return text.substr(begin, text.find("  return") - begin);
}

TEST(FastMath, QuotientsByConstantsBecomeProducts) {
  EXPECT_EQ(fast("  %out = divide(%x, const(f32, [4], [1, 2, 4, 8]))\n"),
            "  %1 = multiply(%x, const(f32, [4], [1, 0.5, 0.25, 0.125]))\n");
}

TEST(FastMath, QuotientsBySquareRootsBecomeProducts) {
  EXPECT_EQ(fast("  %r = sqrt(%y)\n  %out = divide(%x, %r)\n"), "  %0 = rsqrt(%y)\n  %1 = multiply(%x, %0)\n");
  EXPECT_EQ(fast("  %r = sqrt(%x)\n  %out = reciprocal(%r)\n"), "  %0 = rsqrt(%x)\n");
}

TEST(FastMath, APowerByAHalfIsASquareRoot) {
  const std::string power = "  %r = power(%x, const(f32, [], [0.5]))\n";
  EXPECT_EQ(fast(power + "  %out = reciprocal(%r)\n"), "  %0 = rsqrt(%x)\n");
  EXPECT_EQ(fast(power + "  %out = divide(%y, %r)\n"), "  %0 = rsqrt(%x)\n  %1 = multiply(%y, %0)\n");
  for (const char* other : {"const(f32, [], [0.25])", "const(f32, [1, 1], [0.5])", "%y"}) {
    const std::string kept = fmt::format("  %p = power(%x, {})\n  %r = reciprocal(%p)\n", other);
    EXPECT_THAT(fast(kept + "  %out = reshape(%r, shape=(4))\n"), testing::HasSubstr("reciprocal(%p)"))
        << other;
  }
}

TEST(FastMath, ChainsOfConstantsBecomeOne) {
  EXPECT_EQ(fast("  %a = multiply(%x, const(f32, [], [3]))\n  %out = multiply(const(f32, [], [2]), %a)\n"),
            "  %1 = multiply(%x, const(f32, [], [6]))\n");
  EXPECT_EQ(fast("  %a = add(%x, const(f32, [], [3]))\n  %b = add(%a, const(f32, [], [2]))\n"
                 "  %out = add(%b, const(f32, [], [1]))\n"),
            "  %3 = add(%x, const(f32, [], [6]))\n");
}

TEST(FastMath, WhatIsMadeOfConstantsIsLookedAtOnceHoweverOftenItIsRead) {
  std::string nodes = "  %w0 = add(const(f32, [4], [0, 0, 0, 0]), const(f32, [4], [0, 0, 0, 0]))\n";
  for (int i = 1; i < 64; ++i) nodes += fmt::format("  %w{} = add(%w{}, %w{})\n", i, i - 1, i - 1);
  EXPECT_THAT(fast(nodes + "  %a = add(%x, %w63)\n  %out = add(%a, const(f32, [], [1]))\n"),
              testing::HasSubstr(" = add(%x, const(f32, [4], [1, 1, 1, 1]))\n"));
}

TEST(FastMath, IntegersKeepTheirArithmetic) {
  const std::string quotient = "  %out = divide(%x, const(i32, [], [3]))\n";
  EXPECT_EQ(fast(quotient, "i32"), quotient);
}

}  // namespace
}  // namespace gantry
