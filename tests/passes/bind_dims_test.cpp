// Nodes that bind symbols: what keeps them, where they stand, and what they mean for memory.
#include "host/ops/bind_dims.h"

#include "host/passes/symbol_order.h"
#include "host/support/error.h"
#include "tests/passes/pass_test.h"

namespace gantry {
namespace {

constexpr const char* kCut = R"(fn @main(%x: Tensor[(8), f32], %n: Tensor[(1), i64]) -> Tensor[(k), f32] {
  %0 = nn.relu(%x)
  %1 = bind_dims(%n, symbols=(k))  // Slice_0
  %2 = strided_slice(%0, begin=(0), end=(k))
  return %2
}
)";

TEST(BindDims, PrintsAndReadsBack) {
  EXPECT_EQ(print(parse_graph(kCut, table()), table()), kCut);
}

TEST(BindDims, IsKeptWhileItsSymbolsAreMentioned) {
  EXPECT_EQ(after(kCut, dead_code), kCut);
  EXPECT_EQ(after(R"(fn @main(%x: Tensor[(8), f32], %n: Tensor[(1), i64]) -> Tensor[(8), f32] {
  %0 = nn.relu(%x)
  %1 = multiply(%n, %n)
  %2 = bind_dims(%1, symbols=(k))
  %3 = strided_slice(%0, begin=(0), end=(k))
  return %0
}
)",
                  dead_code),
            R"(fn @main(%x: Tensor[(8), f32], %n: Tensor[(1), i64]) -> Tensor[(8), f32] {
  %0 = nn.relu(%x)
  return %0
}
)");
}

TEST(BindDims, IsNotFoldedWithAConstant) {
  const std::string text = R"(fn @main(%x: Tensor[(8), f32]) -> Tensor[(k), f32] {
  %0 = bind_dims(const(i64, [1], [3]), symbols=(k))
  %1 = strided_slice(%x, begin=(0), end=(k))
  return %1
}
)";
  EXPECT_EQ(after(text, fold_constant), text);
}

TEST(BindDims, TakesAsManySymbolsAsTheTensorHasElements) {
  const auto parse = [](const std::string& arguments) {
    return parse_graph("fn @main(%n: Tensor[(2), i64]) -> Tensor[(0), bool] {\n  %0 = bind_dims(" + arguments +
                           ")\n  return %0\n}\n",
                       table());
  };
  EXPECT_NO_THROW(parse("%n, symbols=(a, b)"));
  EXPECT_NO_THROW(parse("%n, symbols=(a, b), negatives=(c, d)"));
  EXPECT_NO_THROW(parse("symbols=(a), values=(2*N+1)"));
  EXPECT_THROW(parse("%n, symbols=(a)"), Error);
  EXPECT_THROW(parse("%n, symbols=(a, 2*b)"), Error);
  EXPECT_THROW(parse("%n, symbols=(a, b), negatives=(c)"), Error);
  EXPECT_THROW(parse("symbols=(a)"), Error);
}

TEST(BindDims, ASymbolIsBoundOnceAndBySomething) {
  Graph twice = parse_graph(R"(fn @main(%n: Tensor[(1), i64]) -> Tensor[(0), bool] {
  %0 = bind_dims(%n, symbols=(k))
  %1 = bind_dims(%n, symbols=(k))
  return %1
}
)",
                            table());
  EXPECT_THROW(verify(twice, table(), "parsing"), Error);
  Graph never = parse_graph(R"(fn @main(%n: Tensor[(1), i64], %x: Tensor[(8), f32]) -> Tensor[(j), f32] {
  %0 = bind_dims(%n, symbols=(k))
  %1 = strided_slice(%x, begin=(0), end=(j))
  return %1
}
)",
                            table());
  EXPECT_THROW(verify(never, table(), "parsing"), Error);
}

TEST(SymbolOrder, MovesABindingInFrontOfWhatMentionsItsSymbols) {
  Graph graph = parse_graph(R"(fn @main(%x: Tensor[(8), f32], %n: Tensor[(1), i64]) -> Tensor[(k), f32] {
  %0 = nn.relu(%x)
  %1 = strided_slice(%0, begin=(0), end=(k))
  %2 = multiply(%n, %n)
  %3 = bind_dims(%2, symbols=(k))
  return %1
}
)",
                            table());
  order_by_symbols(graph.main);
  EXPECT_EQ(print(graph, table()), R"(fn @main(%x: Tensor[(8), f32], %n: Tensor[(1), i64]) -> Tensor[(k), f32] {
  %0 = nn.relu(%x)
  %2 = multiply(%n, %n)
  %3 = bind_dims(%2, symbols=(k))
  %1 = strided_slice(%0, begin=(0), end=(k))
  return %1
}
)");
}

TEST(PlanMemory, ABindingEndsAStretchAndWhatLivesAcrossItIsKept) {
  const Graph graph = parse_graph(R"(fn @main(%x: Tensor[(8), f32], %n: Tensor[(1), i64]) -> Tensor[(k), f32] {
  %0 = nn.relu(%x)
  %1 = exp(%0)
  %2 = multiply(%n, %n)
  %3 = bind_dims(%2, symbols=(k))
  %4 = strided_slice(%1, begin=(0), end=(k))
  %5 = exp(%4)
  %6 = nn.relu(%5)
  return %6
}
)",
                                  table());
  const MemoryPlan plan = plan_memory(graph.main, {});
  const auto slot = [&](size_t node) { return plan.slots.at(graph.main.nodes()[node]->result()); };
  ASSERT_EQ(plan.stretches.size(), 2u);
  EXPECT_FALSE(slot(0).kept_by);
  EXPECT_EQ(slot(1).kept_by, 0u);
  EXPECT_FALSE(slot(2).kept_by);  // only the binding reads it
  EXPECT_FALSE(slot(4).kept_by);
  EXPECT_FALSE(slot(5).kept_by);
  const std::map<std::string, int64_t> sizes{{"k", 5}};
  EXPECT_EQ(plan.stretches[0].kept_bytes.evaluate(sizes), 64);
  EXPECT_EQ(plan.stretches[1].kept_bytes, Dim(0));
  EXPECT_EQ(plan.stretches[0].workspace_bytes.evaluate(sizes), 64);  // %0 and %2 in turns
  EXPECT_EQ(plan.stretches[1].workspace_bytes.evaluate(sizes), 128);
}

TEST(BindDims, AnOutputSizedAfterItsDataAreComputedLeavesThemInTheWorkspace) {
  const Graph late = parse_graph(R"(fn @main(%x: Tensor[(8), f32], %n: Tensor[(2), i64]) -> Tensor[(a, b), f32] {
  %0 = nn.relu(%x)
  %1 = bind_dims(%n, symbols=(a, b))
  %2 = reshape(%0, shape=(a, b))
  return %2
}
)",
                                 table());
  const Value* computed = late.main.nodes()[0]->result();
  EXPECT_EQ(outputs_sized_late(late.main), std::set<const Value*>{late.main.outputs[0]});
  const MemoryPlan plan = plan_memory(late.main, {});
  ASSERT_EQ(plan.slots.count(computed), 1u);
  EXPECT_EQ(plan.slots.at(computed).kept_by, std::optional<size_t>(0));  // a later stretch copies it
  const Graph in_time = parse_graph(kCut, table());
  EXPECT_TRUE(outputs_sized_late(in_time.main).empty());
  EXPECT_EQ(plan_memory(in_time.main, {}).slots.count(in_time.main.outputs[0]), 0u);
}

}  // namespace
}  // namespace gantry
