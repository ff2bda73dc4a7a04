#include "host/graph/shape_guess.h"

#include <gtest/gtest.h>

namespace gantry::guess {
namespace {

const Dim kN = Dim::symbol("N"), kH = Dim::symbol("H");

TEST(ShapeGuess, IsOnlyForWhatIsNotKnown) {
  EXPECT_EQ(extent(Dim(3), Extent::kSide), 3);
  EXPECT_EQ(extent(Dim(4096), Extent::kSide), 4096);
  EXPECT_EQ(extent(std::optional<int64_t>(7), Extent::kDepth), 7);
  EXPECT_EQ(extent(std::optional<int64_t>(), Extent::kDepth), value(Extent::kDepth));
}

TEST(ShapeGuess, FollowsExpressionsFromTheInputsSide) {
  EXPECT_EQ(extent(kH, Extent::kSide), 224);
  EXPECT_EQ(extent(floordiv(kH - 1, 2) + 1, Extent::kSide), 112);
  EXPECT_EQ(extent(floordiv(kH, 1000), Extent::kSide), 1) << "an extent is one at least";
  EXPECT_EQ(extent(kH * kH, Extent::kSide), 224) << "and no longer than the guess";
}

TEST(ShapeGuess, KeepsToTheRangeOfASymbol) {
  const Dim small = Dim::symbol("H", {1, 32}), large = Dim::symbol("H", {512, 4096});
  EXPECT_EQ(extent(small, Extent::kSide), 32);
  EXPECT_EQ(extent(floordiv(small, 2), Extent::kSide), 16);
  EXPECT_EQ(extent(large, Extent::kSide), 512);
  EXPECT_EQ(extent(floordiv(large, 2), Extent::kSide), 256);
  EXPECT_EQ(extent(Dim::symbol("N", {4, 8}), Extent::kBatch), 4);
}

TEST(ShapeGuess, CountsRowsOfABatchOfSequences) {
  EXPECT_EQ(rows({kN, kH, 64}), value(Extent::kRows));
  EXPECT_EQ(rows({kN, 10, 64}), 10);
  EXPECT_EQ(rows({2, kH, 64}), 2 * value(Extent::kRows));
  EXPECT_EQ(rows({kN, 64}), value(Extent::kRows));
  EXPECT_EQ(rows({64}), 1);
}

TEST(ShapeGuess, OfATotalIsOtherwiseWhereItOverflows) {
  EXPECT_EQ(total(kN * 16, 64, 5), 16 * 64);
  Dim product = kN;
  for (int i = 0; i < 12; ++i) product = product * kN;
  EXPECT_EQ(total(product, 64, 5), 5);
}

TEST(ShapeGuess, OfALongExtentIsAMultipleOfEveryVector) {
  for (const int64_t lanes : {4, 8, 16, 32, 64}) EXPECT_EQ(kLong % lanes, 0);
}

}  // namespace
}  // namespace gantry::guess
