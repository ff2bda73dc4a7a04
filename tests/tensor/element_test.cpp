#include "host/tensor/element.h"

#include <gtest/gtest.h>

#include <cmath>

#include "host/tensor/fold.h"

namespace gantry {
namespace {

TEST(Half, EveryFiniteValueSurvivesTheWayThroughFloat) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    float value = half_to_float(static_cast<uint16_t>(bits));
    if (std::isnan(value)) continue;
    EXPECT_EQ(float_to_half(value), bits);
    EXPECT_EQ(round_float(DType::kF16, static_cast<double>(value)), static_cast<double>(value));
  }
}

TEST(Half, RoundsTiesToEven) {
  EXPECT_EQ(float_to_half(1.0F + 0x1p-11F), 0x3c00);
  EXPECT_EQ(float_to_half(1.0F + 3 * 0x1p-11F), 0x3c02);
  EXPECT_EQ(float_to_half(65520.0F), 0x7c00);
  EXPECT_EQ(float_to_half(65519.0F), 0x7bff);
}

TEST(Fold, FloorDivisionRoundsTowardsMinusInfinity) {
  EXPECT_EQ(fold_integers(BinaryOp::kFloorDiv, DType::kI64, -7, 2), -4);
  EXPECT_EQ(fold_integers(BinaryOp::kMod, DType::kI64, -7, 2), 1);
  EXPECT_EQ(fold_integers(BinaryOp::kDiv, DType::kI64, -7, 2), -3);
  EXPECT_EQ(fold_integers(BinaryOp::kDiv, DType::kI64, 1, 0), std::nullopt);
}

TEST(Fold, IntegersWrapAtTheirWidth) {
  EXPECT_EQ(fold_integers(BinaryOp::kAdd, DType::kI8, 127, 1), -128);
  EXPECT_EQ(fold_integers(BinaryOp::kSub, DType::kU8, 0, 1), 255);
}

TEST(Fold, ShiftsByTheWidthOrMoreOrLessThanNothingLeaveNothingButTheSign) {
  for (const int64_t amount : {8, 63, 64, 100, -1, -128}) {
    EXPECT_EQ(fold_integers(BinaryOp::kShl, DType::kI8, 3, amount), 0) << amount;
    EXPECT_EQ(fold_integers(BinaryOp::kShr, DType::kI8, 3, amount), 0) << amount;
    EXPECT_EQ(fold_integers(BinaryOp::kShr, DType::kI8, -3, amount), -1) << amount;
  }
  for (const int64_t amount : {8, 64, 255}) {
    EXPECT_EQ(fold_integers(BinaryOp::kShl, DType::kU8, 200, amount), 0) << amount;
    EXPECT_EQ(fold_integers(BinaryOp::kShr, DType::kU8, 200, amount), 0) << amount;
  }
}

TEST(Fold, FloatToIntegerSaturates) {
  EXPECT_EQ(float_to_integer(DType::kI8, 300), 127);
  EXPECT_EQ(float_to_integer(DType::kU8, -3), 0);
  EXPECT_EQ(float_to_integer(DType::kI64, 1e30), INT64_MAX);
  EXPECT_EQ(float_to_integer(DType::kI32, NAN), 0);
}

TEST(Fold, IntegersBecomeFloatsInOneRounding) {
  const auto folded = [](DType from, auto value, DType to) {
    return round_float(to, integer_to_float(from, static_cast<int64_t>(value), to));
  };
  constexpr int64_t kEven = int64_t{1} << 53, kHalf = int64_t{1} << 29;  // from there on: half of f32's steps
  EXPECT_EQ(folded(DType::kI64, kEven + kHalf + 1, DType::kF32), 0x1p53 + 0x1p30);
  EXPECT_EQ(folded(DType::kI64, -kEven - kHalf - 1, DType::kF32), -0x1p53 - 0x1p30);
  EXPECT_EQ(folded(DType::kI64, kEven + 3 * kHalf - 1, DType::kF32), 0x1p53 + 0x1p30);
  EXPECT_EQ(folded(DType::kI64, kEven + kHalf, DType::kF32), 0x1p53);
  EXPECT_EQ(folded(DType::kI64, INT64_MIN, DType::kF32), -0x1p63);
  EXPECT_EQ(folded(DType::kU64, (uint64_t{1} << 63) + (uint64_t{1} << 39) + 1, DType::kF32), 0x1p63 + 0x1p40);
  EXPECT_EQ(folded(DType::kU64, UINT64_MAX, DType::kF32), 0x1p64);
  EXPECT_EQ(folded(DType::kI64, kEven + 3, DType::kF64), 0x1p53 + 4);
  EXPECT_EQ(folded(DType::kI64, (int64_t{1} << 52) + 1, DType::kF64), 0x1p52 + 1);
}

}  // namespace
}  // namespace gantry
