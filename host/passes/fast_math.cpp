// Arithmetic rearranged as if numbers were exact: opt-in, since each rewrite may move results by some units in the
// last place, and what overflowed on the way to a finite result, or the other way round, may differ altogether.
//
//   divide(%x, @c)                      =>   multiply(%x, reciprocal(@c))
//   multiply(multiply(%x, @a), @b)      =>   multiply(%x, multiply(@a, @b))
//   add(add(%x, @a), @b)                =>   add(%x, add(@a, @b))
//   divide(%x, sqrt(%y))                =>   multiply(%x, rsqrt(%y))
//   reciprocal(sqrt(%x))                =>   rsqrt(%x)
// where power(%x, 0.5) is as good as sqrt(%x).
#include <algorithm>

#include "host/ops/elementwise.h"
#include "host/passes/made_of_constants.h"
#include "host/passes/passes.h"
#include "host/passes/pattern.h"
#include "host/passes/strided_view.h"

namespace gantry {
namespace {

bool with_fast_math(const PassContext& context) {
  return context.fast_math;
}

/// Integers keep their arithmetic: there it is exact, and their quotients are rounded.
Pattern of_floats(const Pattern& pattern) {
  return pattern.where([](const Value& value) { return is_float(value.type.dtype); });
}

/// A constant, or what earlier rewrites compute from constants alone.
bool is_fixed(const Value& value) {
  return is_made_of_constants(value, [](const Node& node) {
    return !node.inputs.empty() &&
           std::ranges::all_of(node.inputs, [](const Value* input) { return input != nullptr; });
  });
}
Pattern fixed(std::string name) {
  return any(std::move(name)).where(is_fixed);
}

/// (x . a) . b as x . (a . b).
Rule association(const Op<NoAttrs>& op) {
  return {of_floats(commuted(op, commuted(op, any("x"), fixed("a")), fixed("b"))),
          [&op](const Builder& build, const Match& m) {
            return build(op, {m["x"], build(op, {m["a"], m["b"]})});
          }};
}

/// The square root of %y, also as a power, which differs for -0 and -infinity alone.
Pattern root(const Pattern& y) {
  const auto is_half = [](const Value& value) { return constant_scalar(&value) == 0.5; };
  const Pattern power = node(op::power, {y, constant("half").where(is_half)}).where([](const Value& value) {
    const Node* made = producer_of(&value, op::power);
    return made != nullptr && value.type == made->inputs[0]->type;
  });
  return either({node(op::sqrt, {y}), power});
}

std::vector<Rule> fast_rules() {
  const Pattern root_of_y = root(any("y"));
  return {
      {of_floats(node(op::reciprocal, {root_of_y})),
       [](const Builder& build, const Match& m) { return build(op::rsqrt, {m["y"]}); }},
      {of_floats(node(op::divide, {any("x"), root_of_y})),
       [](const Builder& build, const Match& m) {
         return build(op::multiply, {m["x"], build(op::rsqrt, {m["y"]})});
       }},
      {of_floats(node(op::divide, {any("x"), constant("c")})),
       [](const Builder& build, const Match& m) {
         return build(op::multiply, {m["x"], build(op::reciprocal, {m["c"]})});
       }},
      association(op::multiply),
      association(op::add),
  };
}

}  // namespace

void fast_math(Graph& graph, PassContext& context) {
  static const std::vector<Rule> rules = fast_rules();
  apply_rules(Rewriter(graph.main, context), rules);
  remove_dead_nodes(graph.main);
}

extern const Pass fast_math_pass{
    .name = "fast_math",
    .purpose = "with --optimize fast-math: arithmetic is rearranged as if numbers were exact",
    .when = with_fast_math,
    .run = fast_math,
};

}  // namespace gantry
