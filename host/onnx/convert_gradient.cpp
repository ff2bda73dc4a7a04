// Gradient (ai.onnx.preview.training): derivatives of a part of the graph that the node names.
#include <algorithm>

#include "host/onnx/converters.h"
#include "host/onnx/gradient.h"

namespace gantry {
namespace {

/// The names in xs, then those in zs: one for each input.
std::vector<std::string> variable_names(const NodeImport& n, std::vector<std::string> names) {
  const std::vector<std::string> others = n.text_list("zs");
  names.insert(names.end(), others.begin(), others.end());
  if (names.size() != n.input_count())
    n.fail("has {} inputs for the {} tensors named in xs and zs", n.input_count(), names.size());
  std::vector<std::string> sorted = names;
  std::ranges::sort(sorted);
  const auto twice = std::ranges::adjacent_find(sorted);
  if (twice != sorted.end()) n.fail("xs and zs name '{}' twice", *twice);
  return names;
}

/// The specification leaves open what the derivative of a tensor of several elements is; as the result has
/// the shape of the tensor that is varied, it is that of the sum of the elements.
void convert_gradient(NodeImport& n) {
  const std::vector<std::string> xs = n.text_list("xs");
  const std::string y_name = n.text("y", "");
  if (y_name.empty() || xs.empty()) n.fail("names no tensor y, or none in xs");
  if (n.output_count() > xs.size())
    n.fail("has {} outputs for the {} tensors named in xs", n.output_count(), xs.size());
  const Substituted part = n.substitute(variable_names(n, xs), xs.size(), y_name);
  const Term y(n, part.result);
  if (!is_float(y.dtype())) n.fail("'{}' is {}, which has no derivatives", y_name, part.result->type.str());
  std::vector<Value*> variables, fixed;
  std::vector<size_t> outputs;
  for (size_t i = 0; i < part.variables.size(); ++i) {
    Value* variable = part.variables[i];
    const bool is_wanted = i < xs.size() && n.wants(i);
    if (is_wanted && !is_float(variable->type.dtype))
      n.fail("'{}' is {}, by which nothing has a derivative", xs[i], variable->type.str());
    (is_wanted ? variables : fixed).push_back(variable);
    if (is_wanted) outputs.push_back(i);
  }
  const std::vector<Value*> adjoints = adjoints_of(n, y, constant_like(y, 1), variables, fixed);
  for (size_t k = 0; k < outputs.size(); ++k) {
    const Term x(n, variables[k]);
    n.set(outputs[k], adjoints[k] != nullptr ? adjoints[k] : static_cast<Value*>(constant_like(x, 0)));
  }
}

}  // namespace

void add_gradient_converters(ConverterTable& table) {
  table.push_back({"Gradient", 1, convert_gradient, kTraining});
}

}  // namespace gantry
