#include <fmt/format.h>

#include "tests/passes/pass_test.h"

namespace gantry {
namespace {

/// The graph after the pass, of a target that multiplies bytes.
std::string multiplied(const std::string& text) {
  return after(text, [](Graph& graph) {
    PassContext& context = fresh_context();
    context.multiplies_bytes = true;
    find_pass("multiply_bytes")->run(graph, context);
    dead_code(graph, fresh_context());
  });
}

constexpr const char* kWeight = "[1, -2, 3, 127, -128, 6]";

/// Data less a zero point, of that type, times a constant i32 (3, 2).
std::string integers(const std::string& data, const std::string& zero_point,
                     const std::string& weight = kWeight) {
  return fmt::format(
      "fn @main(%x: Tensor[(N, 3), {}], %z: Tensor[(N, 1), i32]) -> Tensor[(N, 2), i32] {{\n"
      "  %0 = cast(%x, to=i32)\n  %1 = subtract(%0, {})\n"
      "  %2 = matmul(%1, const(i32, [3, 2], {}))\n  return %2\n}}",
      data, zero_point, weight);
}

// The columns' sums are 1 + 3 - 128 and -2 + 127 + 6.
TEST(MultiplyBytes, TheZeroPointsShareGoesFromTheSums) {
  EXPECT_THAT(multiplied(integers("u8", "const(i32, [], [117])")),
              IsGraph("fn @main(%x: Tensor[(N, 3), u8], %z: Tensor[(N, 1), i32]) -> Tensor[(N, 2), i32] {\n"
                      "  %0 = nn.dense(%x, const(i8, [3, 2], [1, -2, 3, 127, -128, 6]), units=2)\n"
                      "  %1 = multiply(const(i32, [], [117]), const(i32, [2], [-124, 131]))\n"
                      "  %2 = subtract(%0, %1)\n  return %2\n}"));
}

TEST(MultiplyBytes, ZeroPointsMayBeOneARow) {
  EXPECT_THAT(multiplied(integers("u8", "%z")),
              IsGraph("fn @main(%x: Tensor[(N, 3), u8], %z: Tensor[(N, 1), i32]) -> Tensor[(N, 2), i32] {\n"
                      "  %0 = nn.dense(%x, const(i8, [3, 2], [1, -2, 3, 127, -128, 6]), units=2)\n"
                      "  %1 = multiply(%z, const(i32, [2], [-124, 131]))\n"
                      "  %2 = subtract(%0, %1)\n  return %2\n}"));
}

TEST(MultiplyBytes, SignedDataAreUnsignedOnesLess128) {
  EXPECT_THAT(multiplied(integers("i8", "%z")),
              IsGraph("fn @main(%x: Tensor[(N, 3), i8], %z: Tensor[(N, 1), i32]) -> Tensor[(N, 2), i32] {\n"
                      "  %0 = bitcast(%x, to=u8)\n  %1 = bitwise_xor(%0, const(u8, [], [128]))\n"
                      "  %2 = add(%z, const(i32, [], [128]))\n"
                      "  %3 = nn.dense(%1, const(i8, [3, 2], [1, -2, 3, 127, -128, 6]), units=2)\n"
                      "  %4 = multiply(%2, const(i32, [2], [-124, 131]))\n"
                      "  %5 = subtract(%3, %4)\n  return %5\n}"));
}

TEST(MultiplyBytes, WeightsAreTransposedWhereTheProductDoesSo) {
  const std::string type = "fn @main(%x: Tensor[(N, 3), u8]) -> Tensor[(N, 2), i32] {\n";
  EXPECT_THAT(
      multiplied(type + "  %0 = cast(%x, to=i32)\n"
                        "  %1 = matmul(%0, const(i32, [2, 3], [1, 2, 3, 4, 5, 6]), transpose_b=true)\n"
                        "  return %1\n}"),
      IsGraph(type + "  %0 = nn.dense(%x, const(i8, [3, 2], [1, 4, 2, 5, 3, 6]), units=2)\n  return %0\n}"));
}

TEST(MultiplyBytes, WhatNoByteHoldsStays) {
  for (const std::string& text : {integers("u8", "%z", "[1, -2, 3, 128, -128, 6]"),
                                  integers("u8", "const(i32, [3], [1, 2, 3])"), integers("i16", "%z")})
    EXPECT_THAT(multiplied(text), IsGraph(text));
}

/// The same product in f32, of data less a zero point that was of that type.
std::string floats(const std::string& zero_point, const std::string& weight = kWeight) {
  return fmt::format(
      "fn @main(%x: Tensor[(N, 3), u8], %z: Tensor[(), {0}]) -> Tensor[(N, 2), f32] {{\n"
      "  %0 = cast(%x, to=i32)\n  %1 = cast(%z, to=i32)\n  %2 = subtract(%0, %1)\n  %3 = cast(%2, to=f32)\n"
      "  %4 = nn.dense(%3, const(f32, [3, 2], {1}), units=2)\n  return %4\n}}",
      zero_point, weight);
}

TEST(MultiplyBytes, FloatsThatAreBytesAreMultipliedAsThese) {
  EXPECT_THAT(multiplied(floats("u8")),
              IsGraph("fn @main(%x: Tensor[(N, 3), u8], %z: Tensor[(), u8]) -> Tensor[(N, 2), f32] {\n"
                      "  %0 = cast(%z, to=i32)\n"
                      "  %1 = nn.dense(%x, const(i8, [3, 2], [1, -2, 3, 127, -128, 6]), units=2)\n"
                      "  %2 = multiply(%0, const(i32, [2], [-124, 131]))\n"
                      "  %3 = subtract(%1, %2)\n  %4 = cast(%3, to=f32)\n  return %4\n}"));
}

TEST(MultiplyBytes, FloatsThatMayBeNoBytesStay) {
  for (const std::string& text :
       {floats("u8", "[1, -2, 3, 127, -128.5, 6]"), floats("u8", "[1, -2, 3, 128, -128, 6]"),
        floats("u8", "[1, -2, 3, inf, -128, 6]"), floats("i16")})
    EXPECT_THAT(multiplied(text), IsGraph(text));
}

TEST(MultiplyBytes, FloatsStayWhereI32MightNotHoldTheirSums) {
  const auto deep = [](const char* zero_point, int64_t depth) {
    return fmt::format(
        "fn @main(%x: Tensor[(N, {1}), u8], %z: Tensor[(), {0}]) -> Tensor[(N, 1), f32] {{\n"
        "  %0 = cast(%x, to=i32)\n  %1 = cast(%z, to=i32)\n  %2 = subtract(%0, %1)\n  %3 = cast(%2, to=f32)\n"
        "  %4 = nn.dense(%3, @w: Tensor[({1}, 1), f32], units=1)\n  return %4\n}}",
        zero_point, depth);
  };
  // Bytes of one type differ by 255 at most, u8 and i8 by 383; a weight is 128 at most.
  constexpr int64_t kOfOneType = 65793, kOfTwo = 43804;
  for (const auto& [zero_point, most] : {std::pair("u8", kOfOneType), std::pair("i8", kOfTwo)}) {
    EXPECT_THAT(multiplied(deep(zero_point, most)), ::testing::HasSubstr("nn.dense(%x, ")) << zero_point;
    EXPECT_THAT(multiplied(deep(zero_point, most + 1)), IsGraph(deep(zero_point, most + 1))) << zero_point;
  }
}

TEST(MultiplyBytes, IsForTargetsThatMultiplyThem) {
  EXPECT_FALSE(find_pass("multiply_bytes")->applies(fresh_context()));
}

}  // namespace
}  // namespace gantry
