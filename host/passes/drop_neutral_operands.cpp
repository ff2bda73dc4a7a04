// Arithmetic with a neutral element is what it is done to. Exact for every value, signed zeros and NaN included, which
// is why 0 goes in subtractions alone: -0 + 0 is +0.
//
//   multiply(%x, 1)   =>   %x        subtract(%x, 0)   =>   %x
//   divide(%x, 1)     =>   %x        power(%x, 1)      =>   %x
//
// Where the constant makes the result larger by broadcasting, it stays.
#include <cmath>
#include <optional>

#include "host/ops/elementwise.h"
#include "host/passes/passes.h"
#include "host/passes/pattern.h"
#include "host/passes/strided_view.h"

namespace gantry {
namespace {

/// A constant of one element, that number to the last bit.
Pattern exactly(double value) {
  return constant("neutral").where([value](const Value& given) {
    const std::optional<double> number = constant_scalar(&given);
    return number && *number == value && std::signbit(*number) == std::signbit(value);
  });
}

/// What is left of the operation; null where its result has another shape.
Value* operand(const Builder&, const Match& m) {
  return m["x"]->type == m.root()->type ? m["x"] : nullptr;
}

std::vector<Rule> neutral_rules() {
  const Pattern x = any("x"), one = exactly(1);
  return {
      {commuted(op::multiply, x, one), operand},
      {node(op::divide, {x, one}), operand},
      {node(op::power, {x, one}), operand},
      {node(op::subtract, {x, exactly(0)}), operand},
  };
}

void drop_neutral_operands(Graph& graph, PassContext& context) {
  static const std::vector<Rule> rules = neutral_rules();
  apply_rules(Rewriter(graph.main, context), rules);
}

}  // namespace

extern const Pass drop_neutral_operands_pass{
    .name = "drop_neutral_operands",
    .purpose = "multiplications by 1, subtractions of 0 and the like go",
    .run = drop_neutral_operands,
};

}  // namespace gantry
