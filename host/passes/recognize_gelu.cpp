// The Gaussian error linear unit in steps, as exporters wrote it before ONNX had an op for it:
//   y = 0.5 * x * (1 + erf(x / sqrt(2)))      with the three factors in any order and association
//   y = x * (0.5 + 0.5 * erf(x / sqrt(2)))
#include <cmath>

#include "host/ops/elementwise.h"
#include "host/passes/canonicalize.h"
#include "host/passes/pattern.h"

namespace gantry {
namespace {

std::vector<Rule> gelu_rules() {
  const Pattern x = any("x");
  const Pattern erf = node(op::erf, {either({node(op::divide, {x, scalar(std::sqrt(2.0))}).shared(),
                                             commuted(op::multiply, x, scalar(std::sqrt(0.5))).shared()})});
  const Pattern doubled = commuted(op::add, erf, scalar(1));
  const Pattern distribution = commuted(op::add, commuted(op::multiply, erf, scalar(0.5)), scalar(0.5));
  const auto product = [](const Pattern& a, const Pattern& b) { return commuted(op::multiply, a, b); };
  std::vector<Pattern> forms{product(product(x, scalar(0.5)).shared(), doubled),
                             product(product(x, doubled), scalar(0.5)), product(product(scalar(0.5), doubled), x),
                             product(x, distribution)};
  const auto gelu = [](const Builder& build, const Match& m) {
    // A constant of one element may have more axes than x.
    return m.root()->type == m["x"]->type ? build(nn::gelu, {m["x"]}) : nullptr;
  };
  return {{either(std::move(forms)), gelu}};
}

}  // namespace

void recognize_gelu(Graph& graph, PassContext& context) {
  static const std::vector<Rule> rules = gelu_rules();
  apply_rules(Rewriter(graph.main, context), rules);
}

extern const Pass recognize_gelu_pass{
    .name = "recognize_gelu",
    .purpose = "GELU in steps becomes one op",
    .run = recognize_gelu,
};

}  // namespace gantry
