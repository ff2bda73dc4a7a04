// Each kind of difference between two graphs is seen, and nothing else is one.
#include "host/graph/structural_equal.h"

#include <gmock/gmock.h>

#include "tests/graph/small_ops.h"

namespace gantry {
namespace {

using testing::HasSubstr;

struct AxisAttrs : AttrsOf<AxisAttrs> {
  int64_t axis = 0;
  void fields(AttrVisitor& visit) override { visit("axis", axis); }
};

std::vector<TensorType> as_first(const Node& node, Function&) {
  return {node.inputs.at(0)->type};
}
std::vector<TensorType> twice(const Node& node, Function&) {
  return {node.inputs.at(0)->type, node.inputs.at(0)->type};
}
std::vector<TensorType> as_body(const Node& node, Function&) {
  return {node.bodies.at(0)->outputs.at(0)->type};
}

const SmallOpTable& ops() {
  static constexpr Op<NoAttrs> relu{"relu"}, tanh{"tanh"}, add{"add"}, halves{"halves"}, fused{"fused"};
  static constexpr Op<AxisAttrs> sum{"sum"};
  static const SmallOpTable table(
      {{relu, as_first}, {tanh, as_first}, {add, as_first}, {sum, as_first}, {halves, twice}, {fused, as_body}});
  return table;
}

std::string function(const std::string& nodes, const std::string& result = "%y") {
  return "fn @main(%a: Tensor[(4), f32], %b: Tensor[(4), f32]) -> Tensor[(4), f32] {\n" + nodes + "  return " + result +
         "\n}\n";
}

/// "" where there is none.
std::string difference(const std::string& left, const std::string& right) {
  const auto found = structural_difference(parse_graph(left, ops()), parse_graph(right, ops()), ops());
  return found ? found->str() : "";
}

TEST(StructuralDifference, NamesOrderAndOriginsAreNone) {
  EXPECT_EQ(difference(function("  %0 = relu(%a)  // Relu_0\n  %1 = tanh(%b)\n  %y = add(%0, %1)\n"),
                       function("  %p = tanh(%b)  // Tanh_7\n  %q = relu(%a)\n  %r = add(%q, %p)\n", "%r")),
            "");
  EXPECT_EQ(difference(function("  %y = add(%a, @c: const(f32, [4], [1, 2, 3, 4]))\n"),
                       function("  %y = add(%a, @d: const(f32, [4], [1, 2, 3, 4]))\n")),
            "");
}

TEST(StructuralDifference, OpsInputsAndTheirOrderAreSeenWithTheirNodes) {
  const std::string found = difference(function("  %y = relu(%a)\n"), function("  %y = tanh(%a)\n"));
  EXPECT_THAT(found, HasSubstr("ops: relu and tanh"));
  EXPECT_THAT(found, HasSubstr("%y = tanh(%a)"));
  EXPECT_NE(difference(function("  %y = relu(%a)\n"), function("  %y = relu(%b)\n")), "");
  EXPECT_NE(difference(function("  %y = add(%a, %b)\n"), function("  %y = add(%b, %a)\n")), "");
  EXPECT_NE(difference(function("  %y = add(%a, none)\n"), function("  %y = add(%a, %b)\n")), "");
  EXPECT_NE(difference(function("  %y = add(%a)\n"), function("  %y = add(%a, %b)\n")), "");
}

TEST(StructuralDifference, AttributesAreSeen) {
  EXPECT_THAT(difference(function("  %y = sum(%a, axis=1)\n"), function("  %y = sum(%a, axis=2)\n")),
              HasSubstr("axis=1 and axis=2"));
  EXPECT_EQ(difference(function("  %y = sum(%a, axis=0)\n"), function("  %y = sum(%a)\n")), "");
}

TEST(StructuralDifference, ConstantsAreComparedByTheirElements) {
  const auto constant = [](const char* text) { return function(std::string("  %y = add(%a, ") + text + ")\n"); };
  EXPECT_THAT(difference(constant("const(f32, [2], [1, 2])"), constant("const(f32, [2], [1, 3])")),
              HasSubstr("elements of a constant"));
  EXPECT_THAT(difference(constant("const(f32, [2], [1, 2])"), constant("const(f32, [1, 2], [1, 2])")),
              HasSubstr("types"));
  EXPECT_NE(difference(constant("const(f32, [], [0])"), constant("const(f32, [], [-0])")), "") << "bits count";
}

TEST(StructuralDifference, WhatIsSharedInOneOnlyIsSeen) {
  const std::string once = function("  %0 = relu(%a)\n  %y = add(%0, %0)\n");
  const std::string each = function("  %0 = relu(%a)\n  %1 = relu(%a)\n  %y = add(%0, %1)\n");
  EXPECT_THAT(difference(once, each), HasSubstr("nodes: 2 and 3"));
  const std::string other = function("  %0 = relu(%a)\n  %1 = tanh(%0)\n  %2 = relu(%a)\n  %y = add(%0, %1)\n");
  const std::string mixed = function("  %0 = relu(%a)\n  %2 = relu(%a)\n  %1 = tanh(%2)\n  %y = add(%0, %1)\n");
  EXPECT_NE(difference(other, mixed), "");
}

TEST(StructuralDifference, ResultsOfANodeAreToldApart) {
  EXPECT_NE(difference(function("  %p, %q = halves(%a)\n  %y = add(%p, %q)\n"),
                       function("  %p, %q = halves(%a)\n  %y = add(%q, %p)\n")),
            "");
}

TEST(StructuralDifference, TypesOfParametersAndNamesOfResultsAreSeen) {
  const std::string four = "fn @main(%a: Tensor[(4), f32]) -> Tensor[(4), f32] {\n  %y = relu(%a)\n  return %y as \"p\"\n}";
  const std::string half = "fn @main(%a: Tensor[(4), f16]) -> Tensor[(4), f16] {\n  %y = relu(%a)\n  return %y as \"p\"\n}";
  const std::string named = "fn @main(%a: Tensor[(4), f32]) -> Tensor[(4), f32] {\n  %y = relu(%a)\n  return %y as \"q\"\n}";
  EXPECT_THAT(difference(four, half), HasSubstr("types: Tensor[(4), f32] and Tensor[(4), f16]"));
  EXPECT_THAT(difference(four, named), HasSubstr("names of results"));
}

TEST(StructuralDifference, BodiesAndPlacementsAreSeen) {
  const auto group = [](const std::string& op, const std::string& behind = "") {
    return function("  %y = fused(%a) fn @f(%x: Tensor[(4), f32]) -> Tensor[(4), f32] {\n    %0 = " + op +
                    "(%x)\n    return %0\n  }" + behind + "\n");
  };
  EXPECT_EQ(difference(group("relu"), group("relu")), "");
  EXPECT_THAT(difference(group("relu"), group("tanh")), HasSubstr("ops: relu and tanh"));
  EXPECT_THAT(difference(group("relu", " on cpu"), group("relu", " on gpu")), HasSubstr("on cpu and on gpu"));
}

TEST(StructuralDifference, NodesThatNothingReadsCount) {
  EXPECT_NE(difference(function("  %0 = relu(%a)\n  %y = tanh(%b)\n"), function("  %y = tanh(%b)\n")), "");
  EXPECT_NE(difference(function("  %0 = relu(%a)\n  %y = tanh(%b)\n"), function("  %0 = tanh(%a)\n  %y = tanh(%b)\n")), "");
}

TEST(StructuralDifference, LongChainsNeedNoStack) {
  std::string nodes = "  %0 = relu(%a)\n";
  for (int i = 1; i < 20000; ++i) nodes += "  %" + std::to_string(i) + " = relu(%" + std::to_string(i - 1) + ")\n";
  const Graph graph = parse_graph(function(nodes, "%19999"), ops());
  EXPECT_FALSE(structural_difference(graph, clone_graph(graph), ops()));
}

}  // namespace
}  // namespace gantry
