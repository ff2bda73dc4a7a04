// Small models as protobuf text, and what they compute.
#pragma once

#include <fmt/format.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "host/onnx/import.h"
#include "tests/support/interpreted.h"

namespace gantry::model_text {

/// "a b" is two names, "" none; "-" stands for an input that is left out.
inline std::string names(const std::string& field, const std::string& list) {
  std::string text;
  std::istringstream words(list);
  for (std::string word; words >> word;) text += fmt::format("{}: '{}' ", field, word == "-" ? "" : word);
  return text;
}
inline std::string node(const std::string& op, const std::string& inputs, const std::string& outputs,
                        const std::string& rest = "") {
  return fmt::format("node {{ op_type: '{}' {}{}{} }} ", op, names("input", inputs), names("output", outputs),
                     rest);
}
inline std::string attribute(const std::string& name, const std::string& value) {
  return fmt::format("attribute {{ name: '{}' {} }} ", name, value);
}
inline std::string integer(const std::string& name, int64_t value) {
  return attribute(name, fmt::format("type: INT i: {}", value));
}

/// A tensor of f32 (or i64) with a shape.
struct Given {
  std::vector<int64_t> shape;
  std::vector<double> values;
  DType dtype = DType::kF32;

  ConstantPtr constant() const {
    const Shape dims(shape.begin(), shape.end());
    if (dtype == DType::kF32) {
      const std::vector<float> narrow(values.begin(), values.end());
      return make_constant({dtype, dims}, narrow.data());
    }
    if (dtype == DType::kI32) {
      const std::vector<int32_t> whole(values.begin(), values.end());
      return make_constant({dtype, dims}, whole.data());
    }
    const std::vector<int64_t> whole(values.begin(), values.end());
    return make_constant({DType::kI64, dims}, whole.data());
  }
  std::string declared(const std::string& name) const {
    const int type = dtype == DType::kF32 ? 1 : dtype == DType::kI32 ? 6 : 7;
    std::string text =
        fmt::format("input {{ name: '{}' type {{ tensor_type {{ elem_type: {} shape {{ ", name, type);
    for (int64_t d : shape) text += fmt::format("dim {{ dim_value: {} }} ", d);
    return text + "} } } } ";
  }
};

/// Elements that look random and are the same everywhere: multiples of 1/64 in [-2, 2).
inline std::vector<double> elements(size_t count, uint64_t seed) {
  std::vector<double> values;
  for (size_t i = 0; i < count; ++i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    values.push_back(static_cast<double>(static_cast<int64_t>(seed >> 56) - 128) / 64);
  }
  return values;
}
inline Given random(std::vector<int64_t> shape, uint64_t seed) {
  size_t count = 1;
  for (int64_t d : shape) count *= static_cast<size_t>(d);
  return {std::move(shape), elements(count, seed)};
}

inline std::string output_list(const std::string& outputs) {
  std::string text;
  std::istringstream words(outputs);
  for (std::string word; words >> word;) text += fmt::format("output {{ name: '{}' }} ", word);
  return text;
}

using Inputs = std::vector<std::pair<std::string, Given>>;

inline onnx::ModelProto parse(const std::string& nodes, const Inputs& inputs, const std::string& outputs,
                              const std::string& opsets, const std::string& rest = "") {
  std::string text = "ir_version: 8 " + opsets + " graph { name: 'g' ";
  for (const auto& [name, given] : inputs) text += given.declared(name);
  text += nodes + output_list(outputs);
  onnx::ModelProto proto;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text + "} " + rest, &proto)) << text;
  return proto;
}

/// Elements of each output, floats or integers alike.
inline std::vector<std::vector<double>> results(const onnx::ModelProto& proto, const Inputs& inputs) {
  const Graph graph = import_onnx_bytes(proto.SerializeAsString(), ".");
  std::vector<ConstantPtr> data;
  for (const auto& [name, given] : inputs) data.push_back(given.constant());
  std::vector<std::vector<double>> all;
  for (const ConstantPtr& result : testing::interpret_function(graph.main, data)) {
    std::vector<double>& values = all.emplace_back();
    const auto count = static_cast<size_t>(element_count(result->type.shape).value());
    for (size_t i = 0; i < count; ++i) {
      values.push_back(result->type.dtype == DType::kF32   ? static_cast<double>(result->as<float>()[i])
                       : result->type.dtype == DType::kI32 ? static_cast<double>(result->as<int32_t>()[i])
                                                           : static_cast<double>(result->as<int64_t>()[i]));
    }
  }
  return all;
}

inline void expect_near(const std::vector<double>& actual, const std::vector<double>& expected,
                        double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i)
    EXPECT_NEAR(actual[i], expected[i], tolerance) << "element " << i;
}

inline const std::string kNewest =
    "opset_import { version: 28 } opset_import { domain: 'com.microsoft' version: 1 } ";

/// An input of f32 (or another ONNX element type) whose dimensions are numbers or names: "N 3 H W".
inline std::string open_input(const std::string& name, const std::string& dims, int type = 1) {
  std::string text =
      fmt::format("input {{ name: '{}' type {{ tensor_type {{ elem_type: {} shape {{ ", name, type);
  std::istringstream words(dims);
  for (std::string word; words >> word;) {
    const bool number = word.find_first_not_of("0123456789") == std::string::npos;
    text += number ? fmt::format("dim {{ dim_value: {} }} ", word)
                   : fmt::format("dim {{ dim_param: '{}' }} ", word);
  }
  return text + "} } } } ";
}
/// The graph, whose text has inputs and nodes, as it is imported.
inline Graph imported_graph(const std::string& graph, const std::string& outputs) {
  const std::string text =
      "ir_version: 8 " + kNewest + " graph { name: 'g' " + graph + output_list(outputs) + "}";
  onnx::ModelProto proto;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &proto)) << text;
  return import_onnx_bytes(proto.SerializeAsString(), ".");
}

}  // namespace gantry::model_text
