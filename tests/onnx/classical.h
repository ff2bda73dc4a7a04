// Models of one node of ai.onnx.ml as protobuf text, and what they compute.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "host/support/error.h"
#include "tests/onnx/model_text.h"

namespace gantry::classical {

using namespace model_text;  // NOLINT: the tests' own language

using Values = std::vector<double>;

inline constexpr const char* kDomain = "domain: 'ai.onnx.ml' ";
inline const std::string kOpsets =
    "opset_import { version: 18 } opset_import { domain: 'ai.onnx.ml' version: 5 } ";

inline std::string floats(const std::string& name, const Values& values) {
  return attribute(name, fmt::format("type: FLOATS floats: [{}]", fmt::join(values, ", ")));
}
inline std::string integers(const std::string& name, const std::vector<int64_t>& values) {
  return attribute(name, fmt::format("type: INTS ints: [{}]", fmt::join(values, ", ")));
}
inline std::string text(const std::string& name, const std::string& value) {
  return attribute(name, fmt::format("type: STRING s: '{}'", value));
}
inline std::string tensor(const std::string& name, int type, const Values& values) {
  std::string bytes = fmt::format("type: TENSOR t {{ data_type: {} dims: {} ", type, values.size());
  for (double v : values)
    bytes += std::isnan(v) ? "float_data: nan "
                           : fmt::format("{}: {} ", type == 1 ? "float_data" : "int32_data", v);
  return attribute(name, bytes + "}");
}

/// All outputs of one node of ai.onnx.ml.
inline std::vector<Values> run(const std::string& op, const std::string& attributes, const Inputs& inputs,
                               const std::string& outputs = "y") {
  std::string names;
  for (const auto& [name, given] : inputs) names += name + " ";
  return results(parse(node(op, names, outputs, kDomain + attributes), inputs, outputs, kOpsets), inputs);
}

/// As the first result of run(), elements of i64 exactly.
inline std::vector<int64_t> run_whole(const std::string& op, const std::string& attributes,
                                      const Inputs& inputs) {
  std::string names;
  std::vector<ConstantPtr> data;
  for (const auto& [name, given] : inputs) {
    names += name + " ";
    data.push_back(given.constant());
  }
  const onnx::ModelProto model = parse(node(op, names, "y", kDomain + attributes), inputs, "y", kOpsets);
  const Graph graph = import_onnx_bytes(model.SerializeAsString(), ".");
  const ConstantPtr y = testing::interpret_function(graph.main, data).at(0);
  EXPECT_EQ(y->type.dtype, DType::kI64);
  return {y->as<int64_t>(), y->as<int64_t>() + y->size / sizeof(int64_t)};
}

/// What is said to be wrong with one node of ai.onnx.ml.
inline std::string error_of(const std::string& op, const std::string& attributes, const Inputs& inputs) {
  try {
    run(op, attributes, inputs);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace gantry::classical
