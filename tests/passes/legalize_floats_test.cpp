// f16 and bf16 models become f32 ones with the same inputs and outputs.
#include "tests/passes/pass_test.h"

namespace gantry {
namespace {

TEST(LegalizeFloats, NarrowResultsAreRoundedOnceWhereTheyLeave) {
  EXPECT_EQ(after(R"(fn @main(%x: Tensor[(N, 2), f16]) -> Tensor[(N, 2), f16] {
  %0 = add(%x, @b: Tensor[(2), f16])  // A
  %1 = exp(%0)
  %2 = sqrt(%1)
  return %2
})",
                  legalize_floats),
            R"(fn @main(%x: Tensor[(N, 2), f16]) -> Tensor[(N, 2), f16] {
  %3 = cast(%x, to=f32)  // A
  %4 = cast(const(f16, [2], [0x0, 0x0]), to=f32)  // A
  %5 = add(%3, %4)  // A
  %7 = exp(%5)
  %9 = sqrt(%7)
  %10 = cast(%9, to=f16)
  return %10
}
)");
}

TEST(LegalizeFloats, CastsOfTheModelToANarrowTypeRoundAndOthersBeginAtWhatWasComputed) {
  EXPECT_EQ(after(R"(fn @main(%x: Tensor[(4), f32]) -> (Tensor[(4), f32], Tensor[(4), i32]) {
  %0 = cast(%x, to=bf16)
  %1 = exp(%0)
  %2 = cast(%1, to=f32)
  %3 = cast(%1, to=i32)
  return %2 as "a", %3 as "b"
})",
                  legalize_floats),
            R"(fn @main(%x: Tensor[(4), f32]) -> (Tensor[(4), f32], Tensor[(4), i32]) {
  %0 = cast(%x, to=bf16)
  %4 = cast(%0, to=f32)
  %5 = exp(%4)
  %6 = cast(%5, to=bf16)
  %3 = cast(%6, to=i32)
  return %5 as "a", %3 as "b"
}
)");
}

TEST(LegalizeFloats, BitsAreThoseOfTheRoundedNumber) {
  EXPECT_EQ(after(R"(fn @main(%x: Tensor[(4), f16]) -> Tensor[(4), i16] {
  %0 = exp(%x)
  %1 = bitcast(%0, to=i16)
  return %1
})",
                  legalize_floats),
            R"(fn @main(%x: Tensor[(4), f16]) -> Tensor[(4), i16] {
  %2 = cast(%x, to=f32)
  %3 = exp(%2)
  %4 = cast(%3, to=f16)
  %1 = bitcast(%4, to=i16)
  return %1
}
)");
}

TEST(LegalizeFloats, OtherTypesAndNodesWithoutFloatsStayAsTheyAre) {
  const std::string text =
      R"(fn @main(%x: Tensor[(4), f64], %i: Tensor[(4), i64]) -> (Tensor[(4), f64], Tensor[(4), i64]) {
  %0 = exp(%x)
  %1 = add(%i, %i)
  return %0 as "a", %1 as "b"
}
)";
  EXPECT_EQ(after(text, legalize_floats), text);
}

}  // namespace
}  // namespace gantry
