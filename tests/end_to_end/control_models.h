// Small models with control flow, run in every way; expected values are computed by the tests, element by element.
#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <cmath>
#include <functional>
#include <numeric>
#include <sstream>

#include "host/graph/structural_equal.h"
#include "host/ops/op.h"
#include "host/passes/fuse_ops.h"
#include "tests/end_to_end/networks.h"
#include "tests/support/compiled_model.h"
#include "tests/support/interpreted.h"

namespace gantry::end_to_end {

using Floats = std::vector<float>;

inline ConstantPtr tensor(const Floats& values, std::vector<int64_t> shape = {}) {
  if (shape.empty()) shape = {static_cast<int64_t>(values.size())};
  static const float none = 0;
  return make_constant({DType::kF32, Shape(shape.begin(), shape.end())}, values.empty() ? &none : values.data());
}
inline Floats floats(const ConstantPtr& tensor) {
  const auto count = static_cast<size_t>(element_count(tensor->type.shape).value());
  return {tensor->as<float>(), tensor->as<float>() + count};
}

inline std::string node(const std::string& op, const std::string& inputs, const std::string& outputs,
                 const std::string& rest = "") {
  std::string text = fmt::format("node {{ op_type: '{}' name: '{}_{}' ", op, op, outputs.substr(0, outputs.find(' ')));
  for (const auto& [field, list] : {std::pair("input", inputs), std::pair("output", outputs)}) {
    std::istringstream words(list);
    for (std::string word; words >> word;) text += fmt::format("{}: '{}' ", field, word);
  }
  return text + rest + "} ";
}
inline std::string graph_attribute(const std::string& name, const std::string& nodes, const std::string& outputs,
                                   const std::string& inputs = "") {
  std::string text = fmt::format("attribute {{ name: '{}' type: GRAPH g {{ name: '{}' {}", name, name, nodes);
  std::istringstream words(inputs);
  for (std::string word; words >> word;) text += fmt::format("input {{ name: '{}' }} ", word);
  words = std::istringstream(outputs);
  for (std::string word; words >> word;) text += fmt::format("output {{ name: '{}' }} ", word);
  return text + "} } ";
}
inline std::string branches(const std::string& then_nodes, const std::string& then_outputs, const std::string& else_nodes,
                     const std::string& else_outputs) {
  return graph_attribute("then_branch", then_nodes, then_outputs) +
         graph_attribute("else_branch", else_nodes, else_outputs);
}
inline std::string axis(int64_t value) {
  return fmt::format("attribute {{ name: 'axis' type: INT i: {} }} ", value);
}
/// Of reductions of opset 16, but ReduceSum.
inline std::string axis_list(int64_t value) {
  return fmt::format("attribute {{ name: 'axes' type: INTS ints: {} }} attribute {{ name: 'keepdims' type: INT i: 0 }} ", value);
}
/// %c: whether the sum of an input is more than a constant.
inline std::string sum_is_more(const std::string& input, const std::string& bound, const std::string& result) {
  return node("ReduceSum", input, result + "_sum", "attribute { name: 'keepdims' type: INT i: 0 } ") +
         node("Greater", result + "_sum " + bound, result);
}

/// A model of one input x: f32 (N), with the scalars zero, two and ten.
inline std::string model(const std::string& nodes, const std::string& outputs) {
  std::string text =
      "ir_version: 8 opset_import { version: 16 } graph { name: 'g' "
      "input { name: 'x' type { tensor_type { elem_type: 1 shape { dim { dim_param: 'N' } } } } } "
      "initializer { name: 'zero' data_type: 1 float_data: 0 } "
      "initializer { name: 'two' data_type: 1 float_data: 2 } "
      "initializer { name: 'ten' data_type: 1 float_data: 10 } " +
      nodes;
  std::istringstream words(outputs);
  for (std::string word; words >> word;)
    text += fmt::format("output {{ name: '{}' type {{ tensor_type {{ elem_type: 1 }} }} }} ", word);
  onnx::ModelProto proto;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text + "}", &proto)) << text;
  return proto.SerializeAsString();
}

using Expected = std::function<std::vector<Floats>(const Floats&)>;

inline const Floats kInputs[] = {{1, 2, 3}, {-1, -2, -3, 5, -6}, {20}, {4, -1, 9, 7}, {-1}, {1, 2, 3}, {30, 1}};

/// Runs one compiled module on one input after another: what a run leaves behind must not matter.
inline void expect_results(const std::string& bytes, const Expected& expected, const testing::CompileSettings& settings) {
  testing::LocalModel program(testing::compile_to_bytes(import_onnx_bytes(bytes, ""), settings), settings.threads,
                              testing::device_for(settings.target));
  for (const Floats& x : kInputs) {
    const std::vector<ConstantPtr> actual = program.run({tensor(x)});
    const std::vector<Floats> wanted = expected(x);
    ASSERT_EQ(actual.size(), wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i)
      EXPECT_EQ(floats(actual[i]), wanted[i]) << ::testing::PrintToString(x) << ", output " << i;
  }
}

inline void expect_results(const std::string& bytes, const Expected& expected) {
  for (const int level : {0, 2, 3}) {
    SCOPED_TRACE(level);
    expect_results(bytes, expected, {.opt_level = level});
  }
  SCOPED_TRACE("emulated GPU");
  expect_results(bytes, expected, {.target = testing::gpu_test_target("+checks")});
  SCOPED_TRACE("interpreted");
  for (const Floats& x : kInputs) {
    ImportOptions options;
    options.shapes["x"] = {static_cast<int64_t>(x.size())};
    const auto actual = testing::interpret_function(import_onnx_bytes(bytes, "", options).main, {tensor(x)});
    const std::vector<Floats> wanted = expected(x);
    for (size_t i = 0; i < wanted.size(); ++i) EXPECT_EQ(floats(actual.at(i)), wanted[i]);
  }
}

/// Printed, the graph is read as it was.
inline void expect_reads_back(const Graph& graph) {
  const FusedOpTable table(op_set());
  const std::string text = print(graph, table);
  const Graph again = parse_graph(text, table);
  EXPECT_EQ(print(again, table), text);
  EXPECT_FALSE(structural_difference(again, graph, table).has_value()) << text;
}

inline float sum(const Floats& x) {
  return std::accumulate(x.begin(), x.end(), 0.0f);
}
inline Floats each(Floats x, float (*f)(float)) {
  std::ranges::transform(x, x.begin(), f);
  return x;
}

}  // namespace gantry::end_to_end
