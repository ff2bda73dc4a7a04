// A step of training, compiled: the loss of a small network and its gradients by the weights, beside the
// graph interpreter.
#include <fmt/format.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include "host/onnx/import.h"
#include "tests/cases/local_model.h"
#include "tests/end_to_end/networks.h"
#include "tests/support/interpreted.h"

namespace gantry::end_to_end {
namespace {

std::string input(const std::string& name, const std::vector<int64_t>& shape, int type = 1) {
  std::string text =
      fmt::format("input {{ name: '{}' type {{ tensor_type {{ elem_type: {} shape {{ ", name, type);
  for (const int64_t d : shape) text += fmt::format("dim {{ dim_value: {} }} ", d);
  return text + "} } } } ";
}
std::string list(const std::string& field, const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += fmt::format("{}: '{}' ", field, name);
  return text;
}
std::string node(const std::string& op, const std::vector<std::string>& inputs, const std::string& output,
                 const std::string& rest = "") {
  return fmt::format("node {{ op_type: '{}' {} output: '{}' {}}} ", op, list("input", inputs), output, rest);
}

/// Images of 9 x 9 through two convolutions, normalisation, pooling and a matrix to a loss.
Graph step() {
  const std::vector<std::string> weights{"w1", "s", "b", "w2", "m", "c"};
  std::string graph = input("x", {2, 3, 9, 9}) + input("w1", {8, 3, 3, 3}) + input("s", {8}) +
                      input("b", {8}) + input("w2", {4, 8, 3, 3}) + input("m", {16, 5}) + input("c", {5}) +
                      "initializer { name: 'labels' dims: 2 data_type: 7 int64_data: 4 int64_data: 1 } ";
  graph += node("Conv", {"x", "w1"}, "h1", "attribute { name: 'pads' type: INTS ints: [1, 1, 1, 1] } ");
  graph += node("InstanceNormalization", {"h1", "s", "b"}, "n1");
  graph += node("Relu", {"n1"}, "r1");
  graph += node("Conv", {"r1", "w2"}, "h2", "attribute { name: 'strides' type: INTS ints: [2, 2] } ");
  graph += node("MaxPool", {"h2"}, "p",
                "attribute { name: 'kernel_shape' type: INTS ints: [2, 2] } "
                "attribute { name: 'strides' type: INTS ints: [2, 2] } ");
  graph += node("Flatten", {"p"}, "f");
  graph += node("Gemm", {"f", "m", "c"}, "scores");
  graph += node("SoftmaxCrossEntropyLoss", {"scores", "labels"}, "loss");
  graph += fmt::format("node {{ op_type: 'Gradient' domain: 'ai.onnx.preview.training' {} ",
                       list("input", weights));
  std::string outputs = "output { name: 'loss' } ";
  for (const std::string& w : weights) {
    graph += fmt::format("output: 'd_{}' ", w);
    outputs += fmt::format("output {{ name: 'd_{}' }} ", w);
  }
  graph += fmt::format(
      "attribute {{ name: 'xs' type: STRINGS {}}} attribute {{ name: 'y' type: STRING s: 'loss' }} }} ",
      list("strings", weights));
  onnx::ModelProto proto;
  const std::string text =
      "ir_version: 8 opset_import { version: 18 } opset_import { domain: "
      "'ai.onnx.preview.training' version: 1 } graph { name: 'g' " +
      graph + outputs + "}";
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &proto)) << text;
  return import_onnx_bytes(proto.SerializeAsString(), "");
}

TEST(Training, GradientsOfANetworkAreTheSameInEveryWay) {
  const Graph graph = step();
  const auto inputs = random_inputs(graph);
  const std::vector<ConstantPtr> expected = testing::interpret_function(graph.main, inputs);
  for (const std::string& target : {std::string("native"), testing::gpu_test_target()}) {
    for (const int level : {0, 3})
      EXPECT_LE(worst_error(run_here(target, level)(graph, inputs), expected), 1e-4)
          << target << ", level " << level;
  }
}

}  // namespace
}  // namespace gantry::end_to_end
