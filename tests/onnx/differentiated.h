// Models in float64 with a Gradient node, and the same derivatives by central differences.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tests/onnx/model_text.h"

namespace gantry::differentiated {

/// A tensor of f64.
struct Tensor64 {
  std::vector<int64_t> shape;
  std::vector<double> values;

  ConstantPtr constant() const {
    return make_constant({DType::kF64, Shape(shape.begin(), shape.end())}, values.data());
  }
};
using Inputs64 = std::vector<std::pair<std::string, Tensor64>>;

/// Elements in (low, high) that look random, are the same everywhere, and of which none are equal.
inline Tensor64 between(double low, double high, std::vector<int64_t> shape, uint64_t seed) {
  size_t count = 1;
  for (const int64_t d : shape) count *= static_cast<size_t>(d);
  Tensor64 tensor{std::move(shape), {}};
  for (size_t i = 0; i < count; ++i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    tensor.values.push_back(low + (high - low) * static_cast<double>(seed >> 11) * 0x1p-53);
  }
  return tensor;
}

inline const std::string kOpsets =
    "opset_import { version: 24 } opset_import { domain: 'ai.onnx.preview.training' version: 1 } "
    "opset_import { domain: 'com.microsoft' version: 1 } ";

inline std::string declared(const std::string& name, const std::string& dims) {
  return fmt::format("input {{ name: '{}' type {{ tensor_type {{ elem_type: 11 shape {{ {} }} }} }} }} ",
                     name, dims);
}
inline std::string declared(const std::string& name, const Tensor64& tensor) {
  std::string dims;
  for (const int64_t d : tensor.shape) dims += fmt::format("dim {{ dim_value: {} }} ", d);
  return declared(name, dims);
}

/// Constants of the model.
inline std::string integers(const std::string& name, const std::vector<int64_t>& shape,
                            const std::vector<int64_t>& values) {
  std::string text = fmt::format("initializer {{ name: '{}' data_type: 7 ", name);
  for (const int64_t d : shape) text += fmt::format("dims: {} ", d);
  for (const int64_t v : values) text += fmt::format("int64_data: {} ", v);
  return text + "} ";
}
inline std::string integers(const std::string& name, const std::vector<int64_t>& values) {
  return integers(name, {static_cast<int64_t>(values.size())}, values);
}
inline std::string doubles(const std::string& name, const std::vector<int64_t>& shape,
                           const std::vector<double>& values) {
  std::string text = fmt::format("initializer {{ name: '{}' data_type: 11 ", name);
  for (const int64_t d : shape) text += fmt::format("dims: {} ", d);
  for (const double v : values) text += fmt::format("double_data: {} ", v);
  return text + "} ";
}
inline std::string real(const std::string& name, double value) {
  return model_text::attribute(name, fmt::format("type: FLOAT f: {}", value));
}
inline std::string list(const std::string& name, const std::string& values) {
  return model_text::attribute(name, fmt::format("type: INTS ints: [{}]", values));
}
inline std::string text(const std::string& name, const std::string& value) {
  return model_text::attribute(name, fmt::format("type: STRING s: '{}'", value));
}

/// A node Gradient; names as in model_text::node.
inline std::string gradient(const std::string& xs, const std::string& y, const std::string& inputs,
                            const std::string& outputs, const std::string& zs = "") {
  std::string rest = "domain: 'ai.onnx.preview.training' " + text("y", y) +
                     model_text::attribute("xs", "type: STRINGS " + model_text::names("strings", xs));
  if (!zs.empty()) rest += model_text::attribute("zs", "type: STRINGS " + model_text::names("strings", zs));
  return model_text::node("Gradient", inputs, outputs, rest);
}

inline std::string bytes_of(const std::string& graph, const std::string& outputs) {
  const std::string text =
      "ir_version: 8 " + kOpsets + " graph { name: 'g' " + graph + model_text::output_list(outputs) + "} ";
  onnx::ModelProto proto;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &proto)) << text;
  return proto.SerializeAsString();
}

inline Graph imported(const std::string& graph, const std::string& outputs) {
  return import_onnx_bytes(bytes_of(graph, outputs), ".");
}

/// Elements of each output, all f64.
inline std::vector<std::vector<double>> run(const Graph& graph, const Inputs64& inputs) {
  std::vector<ConstantPtr> data;
  for (const auto& [name, tensor] : inputs) data.push_back(tensor.constant());
  std::vector<std::vector<double>> all;
  for (const ConstantPtr& result : testing::interpret_function(graph.main, data)) {
    EXPECT_EQ(result->type.dtype, DType::kF64);
    const auto count = static_cast<size_t>(element_count(result->type.shape).value());
    all.emplace_back(result->as<double>(), result->as<double>() + count);
  }
  return all;
}
/// The same of a model whose inputs have the tensors' shapes.
inline std::vector<std::vector<double>> run(const std::string& nodes, const Inputs64& inputs,
                                            const std::string& outputs) {
  std::string graph;
  for (const auto& [name, tensor] : inputs) graph += declared(name, tensor);
  return run(imported(graph + nodes, outputs), inputs);
}

/// The gradients of the sum of sin(t) by all inputs, where the nodes compute t of them, are those of central
/// differences.
inline void expect_gradients(const std::string& nodes, const Inputs64& inputs, double tolerance = 2e-6) {
  std::string graph, names, outputs;
  for (const auto& [name, tensor] : inputs) {
    graph += declared(name, tensor);
    names += name + " ";
    outputs += "d_" + name + " ";
  }
  graph += nodes + model_text::node("Sin", "t", "y");
  const std::vector<std::vector<double>> actual =
      run(imported(graph + gradient(names, "y", names, outputs), outputs), inputs);
  ASSERT_EQ(actual.size(), inputs.size());
  const Graph function = imported(graph, "y");
  const auto total = [&](const Inputs64& at) {
    double sum = 0;
    const std::vector<double> y = run(function, at).at(0);
    for (const double v : y) sum += v;
    return sum;
  };
  for (size_t k = 0; k < inputs.size(); ++k) {
    ASSERT_EQ(actual[k].size(), inputs[k].second.values.size());
    for (size_t i = 0; i < actual[k].size(); ++i) {
      constexpr double kStep = 1e-5;
      Inputs64 above = inputs, below = inputs;
      above[k].second.values[i] += kStep;
      below[k].second.values[i] -= kStep;
      const double expected = (total(above) - total(below)) / (2 * kStep);
      EXPECT_NEAR(actual[k][i], expected, tolerance * std::max(1.0, std::abs(expected)))
          << "by element " << i << " of " << inputs[k].first;
    }
  }
}

}  // namespace gantry::differentiated
