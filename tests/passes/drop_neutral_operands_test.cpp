#include "tests/passes/pass_test.h"

namespace gantry {
namespace {

std::string dropped(const std::string& text) {
  return after(text, [](Graph& graph) {
    find_pass("drop_neutral_operands")->run(graph, fresh_context());
    dead_code(graph, fresh_context());
  });
}

/// exp of %x, the operation, tanh of that.
std::string between(const std::string& operation, const std::string& type = "Tensor[(N, 4), f32]") {
  return "fn @main(%x: " + type + ") -> " + type + " {\n  %0 = exp(%x)\n" +
         (operation.empty() ? "  %2 = tanh(%0)\n" : "  %1 = " + operation + "\n  %2 = tanh(%1)\n") + "  return %2\n}";
}

TEST(DropNeutralOperands, WhatChangesNoBitGoes) {
  for (const char* operation :
       {"multiply(%0, const(f32, [], [1]))", "multiply(const(f32, [1], [1]), %0)", "divide(%0, const(f32, [], [1]))",
        "power(%0, const(f32, [], [1]))", "subtract(%0, const(f32, [], [0]))"})
    EXPECT_THAT(dropped(between(operation)), IsGraph(between(""))) << operation;
}

TEST(DropNeutralOperands, WhatMayChangeOneStays) {
  for (const char* operation :
       {"multiply(%0, const(f32, [], [1.0000001]))", "divide(const(f32, [], [1]), %0)", "add(%0, const(f32, [], [0]))",
        "subtract(%0, const(f32, [], [-0]))", "subtract(const(f32, [], [0]), %0)", "power(const(f32, [], [1]), %0)"})
    EXPECT_THAT(dropped(between(operation)), IsGraph(between(operation))) << operation << ": -0 + 0 is +0";
}

TEST(DropNeutralOperands, WhatMakesTheResultLargerStays) {
  const std::string text =
      "fn @main(%x: Tensor[(4), f32]) -> Tensor[(1, 4), f32] {\n"
      "  %0 = multiply(%x, const(f32, [1, 1], [1]))\n  return %0\n}";
  EXPECT_THAT(dropped(text), IsGraph(text));
}

}  // namespace
}  // namespace gantry
