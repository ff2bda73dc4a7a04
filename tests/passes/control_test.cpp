// Control flow: what its type rules ask for, and what passes make of what only a body mentions.
#include "host/ops/control.h"

#include "host/passes/symbol_order.h"
#include "host/support/error.h"
#include "tests/passes/pass_test.h"

namespace gantry {
namespace {

constexpr const char* kCut = R"(fn @main(%x: Tensor[(8), f32], %n: Tensor[(1), i64], %c: Tensor[(), bool]) -> Tensor[(y), f32] {
  %0 = bind_dims(%n, symbols=(k))  // Slice_0
  %1 = if(%c, %x, %x, then_inputs=1, dims=(y), symbols=(y)) fn @cut(%a: Tensor[(8), f32]) -> Tensor[(k), f32] {
    %0 = strided_slice(%a, begin=(0), end=(k))
    return %0
  } fn @whole(%a: Tensor[(8), f32]) -> Tensor[(8), f32] {
    %0 = nn.relu(%a)
    return %0
  }  // If_0
  return %1
}
)";

constexpr const char* kDouble = R"(fn @main(%x: Tensor[(8), f32], %n: Tensor[(), i64]) -> (Tensor[(y), f32], Tensor[(t, 1), f32]) {
  %0, %1 = loop(%n, %x, has_count=true, states=1, dims=(y, t, 1), symbols=(y, t), entry=(s)) fn @twice(%turn: Tensor[(), i64], %goes_on: Tensor[(), bool], %a: Tensor[(s), f32]) -> (Tensor[(), bool], Tensor[(2*s), f32], Tensor[(1), f32]) {
    %0 = copy(%goes_on)
    %1 = concatenate(%a, %a)
    %2 = strided_slice(%a, begin=(0), end=(1))
    return %0, %1, %2
  }  // Loop_0
  return %0, %1
}
)";

TEST(ControlFlow, PrintsAndReadsBack) {
  for (const char* text : {kCut, kDouble}) EXPECT_EQ(print(parse_graph(text, table()), table()), text);
}

TEST(ControlFlow, KeepsTheBindingThatOnlyABodyMentions) {
  EXPECT_EQ(after(kCut, dead_code), kCut);
}

TEST(ControlFlow, StandsBehindTheBindingThatOnlyABodyMentions) {
  Graph graph = parse_graph(kCut, table());
  std::vector<Node*> order = graph.main.nodes();
  std::ranges::reverse(order);
  graph.main.reorder(order);
  order_by_symbols(graph.main);
  EXPECT_EQ(print(graph, table()), kCut);
}

TEST(ControlFlow, IsLeftAloneByPassesThatFoldMergeAndFuse) {
  for (const char* text : {kCut, kDouble}) {
    EXPECT_EQ(after(text, fold_constant), text);
    EXPECT_EQ(after(text, eliminate_common_subexpr), text);
    EXPECT_EQ(after(text, fuse_ops), text);
  }
}

TEST(ControlFlow, IsDroppedWhereNothingReadsIt) {
  std::string text = kDouble;
  text.replace(text.rfind("%0, %1"), 6, "%x, %n");
  text.replace(text.find("(Tensor[(y), f32], Tensor[(t, 1), f32])"), 39, "(Tensor[(8), f32], Tensor[(), i64])");
  EXPECT_EQ(after(text, dead_code), R"(fn @main(%x: Tensor[(8), f32], %n: Tensor[(), i64]) -> (Tensor[(8), f32], Tensor[(), i64]) {
  return %x, %n
}
)");
}

std::string changed(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(ControlFlow, AsksForBodiesThatFit) {
  const auto refused = [](const std::string& text) { EXPECT_THROW(parse_graph(text, table()), Error) << text; };
  refused(changed(kCut, "%c: Tensor[(), bool]", "%c: Tensor[(), i64]"));
  refused(changed(kCut, "then_inputs=1", "then_inputs=2"));
  refused(changed(kCut, "dims=(y)", "dims=(y, y)"));
  refused(changed(kCut, "symbols=(y)", "symbols=(z)"));
  refused(changed(kCut, "fn @cut(%a: Tensor[(8), f32])", "fn @cut(%a: Tensor[(7), f32])"));
  refused(changed(kDouble, "states=1", "states=2"));
  refused(changed(kDouble, "has_count=true, ", ""));
  refused(changed(kDouble, "entry=(s)", "entry=(2*s)"));
  refused(changed(kDouble, "dims=(y, t, 1)", "dims=(y, t)"));
}

}  // namespace
}  // namespace gantry
