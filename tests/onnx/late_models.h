// Models with sequences and optionals of which only the running model knows what they hold, and what they
// give.
#pragma once

#include <cstdlib>
#include <string>
#include <vector>

#include "host/support/error.h"
#include "tests/onnx/model_text.h"

namespace gantry::late_models {

using namespace model_text;  // NOLINT: the tests' own language

using Numbers = std::vector<double>;
using Tensors = std::vector<Given>;

/// n0 to n3 and nm1 to nm3 as scalars, v0 to v3 as vectors of one: i64.
inline const std::string kNumbers = [] {
  std::string text;
  for (int i = -3; i <= 3; ++i) {
    const std::string sign = i < 0 ? "m" : "";
    text += fmt::format("initializer {{ name: 'n{}{}' data_type: 7 int64_data: {} }} ", sign, std::abs(i), i);
    text += fmt::format("initializer {{ name: 'v{}{}' dims: 1 data_type: 7 int64_data: {} }} ", sign,
                        std::abs(i), i);
  }
  return text;
}();

inline std::string graph(const std::string& name, const std::string& inputs, const std::string& nodes,
                         const std::string& outputs) {
  std::string text = "type: GRAPH g { name: 'body' " + nodes + output_list(outputs);
  std::istringstream words(inputs);
  for (std::string word; words >> word;) text += fmt::format("input {{ name: '{}' }} ", word);
  return attribute(name, text + "}");
}
inline std::string branches(const std::string& then_nodes, const std::string& then_outputs,
                            const std::string& else_nodes, const std::string& else_outputs) {
  return graph("then_branch", "", then_nodes, then_outputs) +
         graph("else_branch", "", else_nodes, else_outputs);
}
inline std::string optional_type(const std::string& of) {
  return attribute("type", "type: TYPE_PROTO tp { " + of + " } ");
}
inline const std::string kOfFloats = "tensor_type { elem_type: 1 }";

inline std::vector<Numbers> run(const std::string& nodes, const std::string& outputs, const Inputs& inputs) {
  return results(parse(kNumbers + nodes, inputs, outputs, kNewest), inputs);
}
inline std::string error_of(const std::string& nodes, const std::string& outputs, const Inputs& inputs) {
  try {
    run(nodes, outputs, inputs);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

inline Given whole(double value) {
  return {{}, {value}, DType::kI64};
}
inline Given floats(const Numbers& values) {
  return {{static_cast<int64_t>(values.size())}, values};
}

/// The outputs that a sequence is: elements, then rows of rank and dimensions.
inline std::vector<Numbers> packed(const Tensors& tensors, size_t rank = 1) {
  std::vector<Numbers> all(2);
  for (const Given& tensor : tensors) {
    all[0].insert(all[0].end(), tensor.values.begin(), tensor.values.end());
    all[1].push_back(static_cast<double>(tensor.shape.size()));
    for (size_t d = 0; d < rank; ++d)
      all[1].push_back(d < tensor.shape.size() ? static_cast<double>(tensor.shape[d]) : 1);
  }
  return all;
}

inline const Inputs kThree = {{"a", floats({1, 2})}, {"b", floats({3})}, {"c", floats({4, 5, 6})}};
/// more = m > 0
inline const std::string kMore = node("Greater", "m n0", "more");

inline Inputs three_and(double m) {
  Inputs inputs = kThree;
  inputs.emplace_back("m", whole(m));
  return inputs;
}

/// s: a, b and c without the one at `gone`.
inline const std::string kTwoOfThree =
    node("SequenceConstruct", "a b c", "three") + node("SequenceErase", "three gone", "s");

inline Inputs three_without(double gone, double at = 0) {
  Inputs inputs = kThree;
  inputs.emplace_back("gone", whole(gone));
  inputs.emplace_back("at", whole(at));
  return inputs;
}

}  // namespace gantry::late_models
