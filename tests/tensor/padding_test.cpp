#include "host/tensor/padding.h"

#include <gtest/gtest.h>

#include "host/tensor/fold.h"
#include "host/tensor/tensor.h"

namespace gantry {
namespace {

struct Padded {
  Tensor x = placeholder({Expr(8)}, DType::kF32, "x"), w = placeholder({Expr(3)}, DType::kF32, "w");
  Expr i = make_var("i"), k = make_var("k");
  Expr inside = ge(i + k - 1, 0) && lt(i + k - 1, 8);
  Expr element(const Expr& fill) const { return if_then_else(inside, x({i + k - 1}), fill); }
};

TEST(WithoutPadding, LeavesOutZeroFactorsOfASum) {
  Padded p;
  std::vector<Expr> inside;
  auto value = without_padding(ReduceKind::kSum, p.element(float_imm(DType::kF32, 0)) * p.w({p.k}), inside);
  ASSERT_TRUE(value.has_value());
  EXPECT_TRUE(structurally_equal(*value, p.x({p.i + p.k - 1}) * p.w({p.k})));
  EXPECT_EQ(inside.size(), 2u) << "one condition for each end";
}

TEST(WithoutPadding, LeavesOutTheIdentityOfAMaximum) {
  Padded p;
  std::vector<Expr> inside;
  EXPECT_TRUE(
      without_padding(ReduceKind::kMax, p.element(identity_of(ReduceKind::kMax, DType::kF32)), inside));
  EXPECT_EQ(inside.size(), 2u);
}

TEST(WithoutPadding, KeepsFillsThatCount) {
  Padded p;
  std::vector<Expr> inside;
  EXPECT_FALSE(without_padding(ReduceKind::kMax, p.element(float_imm(DType::kF32, 0)), inside));
  EXPECT_FALSE(without_padding(ReduceKind::kSum, p.element(float_imm(DType::kF32, 1)), inside));
  EXPECT_FALSE(without_padding(ReduceKind::kSum, p.element(float_imm(DType::kF32, 0)) + p.w({p.k}), inside));
  EXPECT_FALSE(without_padding(ReduceKind::kSum, p.x({p.i}) * p.w({p.k}), inside));
}

}  // namespace
}  // namespace gantry
