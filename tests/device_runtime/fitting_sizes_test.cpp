#include "device_runtime/src/fitting_sizes.h"

#include <gtest/gtest.h>

namespace gantry::runtime {
namespace {

TEST(FittingSizes, AreMultiples) {
  EXPECT_EQ(fitting_sizes(225, [](int64_t size) { return size % 32 == 0; }),
            "must be a multiple of 32; 224 or 256 would do");
  EXPECT_EQ(fitting_sizes(1000003, [](int64_t size) { return size % 32 == 0; }),
            "must be a multiple of 32; 1000000 or 1000032 would do");
  EXPECT_EQ(fitting_sizes(3, [](int64_t size) { return size % 32 == 1; }),
            "must be 1 more than a multiple of 32; 1 or 33 would do");
}

TEST(FittingSizes, OfMultiplesHaveBounds) {
  EXPECT_EQ(fitting_sizes(20, [](int64_t size) { return size % 16 == 0 && size >= 48 && size <= 512; }),
            "must be a multiple of 16, at least 48, at most 512; 48 would do");
}

TEST(FittingSizes, HaveBounds) {
  EXPECT_EQ(fitting_sizes(5, [](int64_t size) { return size >= 7; }), "must be at least 7");
  EXPECT_EQ(fitting_sizes(600, [](int64_t size) { return size <= 512; }), "must be at most 512");
  EXPECT_EQ(fitting_sizes(0, [](int64_t size) { return size <= 512; }), "must be between 1 and 512");
  EXPECT_EQ(fitting_sizes(224, [](int64_t size) { return size > 32 && size <= 80; }),
            "must be between 33 and 80");
  EXPECT_EQ(fitting_sizes(100000, [](int64_t size) { return size <= 512; }), "must be at most 512")
      << "far from the one given";
}

TEST(FittingSizes, MayBeFew) {
  EXPECT_EQ(fitting_sizes(3, [](int64_t size) { return size == 4; }), "must be 4");
  EXPECT_EQ(fitting_sizes(3, [](int64_t size) { return size == 4 || size == 9; }), "must be 4 or 9");
  EXPECT_EQ(fitting_sizes(3, [](int64_t) { return false; }), "");
}

TEST(FittingSizes, WithoutARuleAreTheNearest) {
  EXPECT_EQ(fitting_sizes(10, [](int64_t size) { return size % 32 > 16; }),
            "which does not fit; 17 would do");
  EXPECT_EQ(fitting_sizes(40, [](int64_t size) { return size % 32 > 16; }),
            "which does not fit; 31 or 49 would do");
}

TEST(FittingSizes, OfIntervalsAreMultiplesThatAllLieInOne) {
  const auto fits = [](int64_t size) { return (size + 3) % 32 <= 3; };  // 29 to 32, 61 to 64, …
  EXPECT_EQ(fitting_sizes(225, fits), "which does not fit; multiples of 32 like 224 or 256 would do");
  EXPECT_EQ(fitting_sizes(10, fits), "which does not fit; multiples of 32 like 32 would do");
}

TEST(FittingSizes, AreTriedForAnySizeGiven) {
  for (const int64_t given : {int64_t{0}, int64_t{-5}, INT64_MAX})
    EXPECT_EQ(fitting_sizes(given, [](int64_t size) { return size == 4; }), "must be 4") << given;
}

TEST(BrokenSizes, NameThePlaceAndTheNode) {
  const SuspectSize height = {dimension_place("x", 2, "H", "height"), 225,
                              [](int64_t size) { return size % 32 == 0; }};
  EXPECT_EQ(
      broken_sizes(std::span(&height, 1), "H = 225 must equal floordiv(H, 32) = 224", "Reshape_3"),
      "input 'x': height (dimension 2, H) is 225, must be a multiple of 32; 224 or 256 would do (needed by "
      "Reshape_3)");
}

TEST(BrokenSizes, OfSeveralDimensionsAreAlternatives) {
  const SuspectSize sizes[] = {{dimension_place("a", 0, "N", ""), 3, [](int64_t size) { return size == 4; }},
                               {dimension_place("b", 1, "M", ""), 4, [](int64_t size) { return size == 3; }}};
  EXPECT_EQ(
      broken_sizes(sizes, "N = 3 must equal M = 4", "Add_1"),
      "input 'a': dimension 0 (N) is 3, must be 4; or input 'b': dimension 1 (M) is 4, must be 3 (N = 3 must "
      "equal M = 4, needed by Add_1)");
  EXPECT_EQ(broken_sizes(sizes, "(N - 1) * (M - 1) = 6 must equal 0",
                         "Add_1 (N and M must be equal, or one of them 1)"),
            "input 'a': dimension 0 (N) is 3, must be 4; or input 'b': dimension 1 (M) is 4, must be 3 "
            "(needed by Add_1 "
            "(N and M must be equal, or one of them 1))");
}

}  // namespace
}  // namespace gantry::runtime
