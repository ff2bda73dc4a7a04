#include "host/tensor/expr.h"

#include <gtest/gtest.h>

#include "host/support/error.h"
#include "host/tensor/tensor.h"

namespace gantry {
namespace {

TEST(Expr, PrintsInfixWithParenthesesOnlyWhereNeeded) {
  Expr i = make_var("i"), j = make_var("j");
  EXPECT_EQ(to_string((i + j) * 4 + 1), "(i + j) * 4 + 1");
  EXPECT_EQ(to_string(i - (j - 1)), "i - (j - 1)");
  EXPECT_EQ(to_string(floordiv(i, 8)), "floordiv(i, 8)");
  EXPECT_EQ(to_string(lt(i, j) && eq(i, 0)), "i < j && i == 0");
}

TEST(Expr, ConstantsFoldWhileBuilding) {
  EXPECT_EQ(to_string(Expr(3) * 4 + 2), "14");
  Expr i = make_var("i");
  EXPECT_TRUE((i + 0).same_as(i));
  EXPECT_TRUE((i * 1).same_as(i));
  EXPECT_EQ(to_string(i * 0), "0");
}

TEST(Expr, FloatsKeepWhatIsNotAnIdentity) {
  Expr x = make_var("x", DType::kF32);
  EXPECT_FALSE((x + float_imm(DType::kF32, 0)).same_as(x));  // -0 + 0 is +0
  EXPECT_FALSE((x * float_imm(DType::kF32, 0)).as<FloatImmNode>());
  EXPECT_TRUE((x * float_imm(DType::kF32, 1)).same_as(x));
}

TEST(Expr, OperandsOfDifferentTypesAreAnInternalError) {
  EXPECT_THROW(make_var("x", DType::kF32) + make_var("i"), Error);
}

TEST(Expr, ASymbolIsTheSameVariableEverywhere) {
  EXPECT_TRUE(symbol_var("N").same_as(Expr(Dim::symbol("N"))));
  EXPECT_EQ(to_string(Expr(Dim::symbol("N") * 2)), to_string(Expr(Dim::parse("2*N"))));
}

TEST(Expr, SharedNodesAreRewrittenOnce) {
  Expr e = make_var("x", DType::kF32);
  const auto* x = e.as<VarNode>();
  for (int i = 0; i < 200; ++i) e = e * e;  // 2^200 paths
  Expr y = make_var("y", DType::kF32);
  Expr replaced = substitute(e, {{x, y}});
  int nodes = 0;
  walk(replaced, [&](const Expr&) { ++nodes; });
  EXPECT_LT(nodes, 1000);
}

TEST(Tensor, AReductionBelowTheRootIsAnInternalError) {
  Tensor a = placeholder({4}, DType::kF32, "a");
  auto k = reduce_axis(0, 4, "k");
  EXPECT_THROW(compute(
                   {4}, [&](auto& i) { return a({i[0]}) + sum(a({k->var}), {k}); }, "c"),
               Error);
}

TEST(Tensor, TopologicalOrderListsProducersFirstAndOnce) {
  Tensor a = placeholder({4}, DType::kF32, "a");
  Tensor b = compute(
      {4}, [&](auto& i) { return a({i[0]}) * a({i[0]}); }, "b");
  Tensor c = compute(
      {4}, [&](auto& i) { return a({i[0]}) + b({i[0]}); }, "c");
  std::vector<Operation> order = topological_order({c, b});
  ASSERT_EQ(order.size(), 3U);
  EXPECT_EQ(order[0], a.op());
  EXPECT_EQ(order[1], b.op());
  EXPECT_EQ(order[2], c.op());
}

}  // namespace
}  // namespace gantry
