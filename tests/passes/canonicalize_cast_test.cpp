#include "tests/passes/pass_test.h"

namespace gantry {
namespace {

/// The lines of the function's body after the pass.
std::string canonical(const std::string& from, const std::string& nodes, const std::string& to) {
  const std::string text =
      after("fn @main(%x: Tensor[(4), " + from + "]) -> Tensor[(4), " + to + "] {\n" + nodes + "  return %out\n}\n",
            canonicalize_cast);
  const size_t begin = text.find('\n') + 1;
  return text.substr(begin, text.find("  return") - begin);
}

std::string twice(const std::string& from, const std::string& between, const std::string& to) {
  return canonical(from, "  %a = cast(%x, to=" + between + ")\n  %b = cast(%a, to=" + to + ")\n  %out = copy(%b)\n", to);
}

TEST(CanonicalizeCast, BeginsBeforeACastThatKeepsEveryValue) {
  EXPECT_EQ(twice("f16", "f32", "f64"), "  %0 = cast(%x, to=f64)\n  %out = copy(%0)\n");
  EXPECT_EQ(twice("u8", "f32", "i32"), "  %0 = cast(%x, to=i32)\n  %out = copy(%0)\n");
  EXPECT_EQ(twice("i8", "f16", "f32"), "  %0 = cast(%x, to=f32)\n  %out = copy(%0)\n");
  EXPECT_EQ(twice("u4", "i32", "f32"), "  %0 = cast(%x, to=f32)\n  %out = copy(%0)\n");
  EXPECT_EQ(twice("f8e4m3fn", "f32", "f64"), "  %0 = cast(%x, to=f64)\n  %out = copy(%0)\n");
  EXPECT_EQ(twice("bool", "i64", "f32"), "  %0 = cast(%x, to=f32)\n  %out = copy(%0)\n");
}

TEST(CanonicalizeCast, ThereAndBackIsNothing) {
  EXPECT_EQ(twice("f32", "f64", "f32"), "  %out = copy(%x)\n");
  EXPECT_EQ(twice("u8", "i32", "u8"), "  %out = copy(%x)\n");
  EXPECT_EQ(twice("f8e5m2", "f32", "f8e5m2"), "  %out = copy(%x)\n");
  EXPECT_EQ(twice("i4", "i8", "i4"), "  %out = copy(%x)\n");
}

TEST(CanonicalizeCast, KeepsCastsThatRound) {
  for (const auto& [from, between, to] :
       {std::array{"f32", "f16", "f32"}, std::array{"f32", "i32", "f32"}, std::array{"i32", "f32", "i32"},
        std::array{"i32", "u32", "i64"}, std::array{"i16", "f16", "f32"}, std::array{"f16", "bf16", "f32"},
        std::array{"i64", "f64", "f32"}, std::array{"f32", "f8e4m3fn", "f32"}, std::array{"u8", "u4", "u8"},
        std::array{"u2", "f8e8m0fnu", "f32"}, std::array{"u4", "f6e2m3fn", "f32"},
        std::array{"i32", "bool", "i32"}, std::array{"i16", "f32", "u8"}, std::array{"u8", "f32", "i8"},
        std::array{"i32", "f64", "i16"}}) {
    SCOPED_TRACE(from);
    EXPECT_EQ(twice(from, between, to), "  %a = cast(%x, to=" + std::string(between) + ")\n  %b = cast(%a, to=" +
                                            to + ")\n  %out = copy(%b)\n");
  }
}

// The cast of an integer rounds once, as that of f64 does (WideBfloat in tests/codegen).
TEST(CanonicalizeCast, IntegersBecomeNarrowFloatsWithoutTheFloatBetween) {
  EXPECT_EQ(twice("i32", "f64", "bf16"), "  %0 = cast(%x, to=bf16)\n  %out = copy(%0)\n");
}

TEST(CanonicalizeCast, EachReaderWidensForItself) {
  EXPECT_EQ(canonical("u8",
                      "  %a = cast(%x, to=f32)  // Cast\n  %b = exp(%a)\n  %c = sqrt(%a)\n  %out = add(%b, %c)\n",
                      "f32"),
            "  %a = cast(%x, to=f32)  // Cast\n  %b = exp(%a)\n  %0 = cast(%x, to=f32)  // Cast\n"
            "  %c = sqrt(%0)\n  %out = add(%b, %c)\n");
}

TEST(CanonicalizeCast, LeavesOneWhereAReaderTakesItFromMemory) {
  const std::string nodes =
      "  %a = cast(%x, to=f32)\n  %b = exp(%a)\n  %c = nn.softmax(%a, axis=0)\n  %out = add(%b, %c)\n";
  EXPECT_EQ(canonical("u8", nodes, "f32"), nodes);
  const std::string narrowing = "  %a = cast(%x, to=f32)\n  %b = exp(%a)\n  %out = add(%b, %a)\n";
  EXPECT_EQ(canonical("f64", narrowing, "f32"), narrowing);
}

}  // namespace
}  // namespace gantry
