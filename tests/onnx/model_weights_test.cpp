#include "host/onnx/model_weights.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <filesystem>
#include <fstream>

#include "host/onnx/import.h"
#include "host/support/temporary.h"

namespace gantry {
namespace {

ModelWeights weights(const std::string& graph, const std::string& more = "",
                     const std::filesystem::path& folder = ".") {
  auto model = std::make_shared<onnx::ModelProto>();
  const std::string text = "ir_version: 8 graph { name: 'g' " + graph + " } " + more;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, model.get())) << text;
  return count_weights({model, nullptr}, folder);
}

std::string constant(const std::string& attribute) {
  return "node { op_type: 'Constant' output: 'c' attribute { " + attribute + " } } ";
}

const std::string kMatrix = "data_type: 1 dims: 2 dims: 3 float_data: [1, 2, 3, 4, 5, 6] ";

TEST(ModelWeights, InitialisersAndConstantNodesOfEveryKindCount) {
  const ModelWeights w = weights(
      "initializer { name: 'w' " + kMatrix + "} " + constant("name: 'value' t { " + kMatrix + "dims: 1 }") +
      constant("name: 'value_float' f: 2") + constant("name: 'value_floats' floats: [7, 8, 9]") +
      constant("name: 'value_int' i: 5") + constant("name: 'value_ints' ints: [1, 2]") +
      constant("name: 'value_string' s: 'four'") +
      constant("name: 'sparse_value' sparse_tensor { values { data_type: 1 dims: 2 float_data: [1, 2] } "
               "indices { data_type: 7 dims: 2 int64_data: [0, 3] } dims: 100 }"));
  EXPECT_EQ(w.by_type.at("float").tensors, 5);
  EXPECT_EQ(w.by_type.at("float").parameters, 6 + 6 + 1 + 3 + 2);
  EXPECT_EQ(w.by_type.at("float").bytes, 4 * (6 + 6 + 1 + 3 + 2) + 2 * 8);
  EXPECT_EQ(w.by_type.at("int64").parameters, 3);
  EXPECT_EQ(w.by_type.at("string").bytes, 4);
  EXPECT_EQ(w.total.tensors, 8);
  EXPECT_EQ(w.total.bytes, 4 * 18 + 16 + 24 + 4);
  EXPECT_EQ(w.repeated.tensors, 0);
}

TEST(ModelWeights, WhatIsEqualCountsOnce) {
  const std::string raw(24, 'a');
  const ModelWeights w = weights(
      "initializer { name: 'embedding' data_type: 1 dims: 2 dims: 3 raw_data: '" + raw +
      "' } initializer { name: 'head' data_type: 1 dims: 2 dims: 3 raw_data: '" + raw +
      "' } initializer { name: 'same_bytes' data_type: 1 dims: 6 raw_data: '" + raw +
      "' } initializer { name: 'other' " + kMatrix + "} " + constant("name: 'value' t { " + kMatrix + "}"));
  EXPECT_EQ(w.total.tensors, 3);
  EXPECT_EQ(w.total.parameters, 18);
  EXPECT_EQ(w.repeated.tensors, 2);
  EXPECT_EQ(w.repeated.bytes, 48);
}

/// A ModelProto's text of an initialiser with such raw data.
std::string initialiser(const std::string& name, const std::string& raw) {
  return "initializer { name: '" + name + "' data_type: 2 dims: " + std::to_string(raw.size()) +
         " raw_data: '" + raw + "' } ";
}

TEST(ModelWeights, LargeTensorsThatDifferInTheirLastElementAreNotEqual) {
  const std::string raw(10000, 'a'), other = raw.substr(1) + "b";
  std::string numbers;
  for (int i = 0; i < 3000; ++i) numbers += "floats: 1 ";
  const std::string in_a_node = constant("name: 'value_floats' " + numbers + "floats: 2");
  const ModelWeights w =
      weights(initialiser("a", raw) + initialiser("b", other) + initialiser("c", raw) +
              initialiser("d", other) + in_a_node + in_a_node +
              constant("name: 'value_floats' " + numbers + "floats: 3"));
  EXPECT_EQ(w.by_type.at("uint8").tensors, 2);
  EXPECT_EQ(w.by_type.at("float").tensors, 2);
  EXPECT_EQ(w.repeated.tensors, 3);
  EXPECT_EQ(w.repeated.bytes, 2 * 10000 + 4 * 3001);
}

TEST(ModelWeights, RawDataThatStayInTheModelsFileAreRead) {
  const std::string raw(10000, 'a'), other = raw.substr(1) + "b";
  onnx::ModelProto model;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "graph { " + initialiser("a", raw) + initialiser("b", other) + initialiser("c", raw) + "}", &model));
  const TemporaryFolder folder("model-weights");
  const std::filesystem::path path = folder.path() / "model.onnx";
  std::ofstream(path, std::ios::binary) << model.SerializeAsString();
  const ModelWeights w = count_weights(read_onnx_messages(path), folder.path());
  EXPECT_EQ(w.total.tensors, 2);
  EXPECT_EQ(w.total.bytes, 20000);
  EXPECT_EQ(w.repeated.tensors, 1);
}

TEST(ModelWeights, BranchesLoopBodiesAndFunctionsCount) {
  const std::string body =
      "type: GRAPH g { initializer { name: 'w' " + kMatrix + "} " + constant("name: 'value_int' i: 5") + "}";
  const ModelWeights w = weights("node { op_type: 'If' attribute { name: 'then_branch' " + body + "} }",
                                 "functions { name: 'F' domain: 'd' node { op_type: 'Constant' attribute { "
                                 "name: 'value_float' f: 1 } } }");
  EXPECT_EQ(w.total.parameters, 6 + 1 + 1);
}

TEST(ModelWeights, AnInitialiserThatIsAnInputTooIsAWeight) {
  EXPECT_EQ(weights("input { name: 'w' } initializer { name: 'w' " + kMatrix + "}").total.parameters, 6);
}

TEST(ModelWeights, ExternalDataIsReadForWhatIsEqualAndCountedWhereItIsMissing) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "model_weights_test";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "data", std::ios::binary) << std::string(32, 'a') << std::string(16, 'b');
  const auto external = [](const std::string& name, int offset, const std::string& file) {
    return "initializer { name: '" + name + "' data_type: 10 dims: 8 data_location: EXTERNAL " +
           "external_data { key: 'location' value: '" + file + "' } external_data { key: 'offset' value: '" +
           std::to_string(offset) + "' } external_data { key: 'length' value: '16' } } ";
  };
  const ModelWeights w = weights(external("a", 0, "data") + external("b", 16, "data") +
                                     external("c", 32, "data") + external("lost", 0, "nowhere"),
                                 "", folder);
  std::filesystem::remove_all(folder);
  EXPECT_EQ(w.by_type.at("float16").tensors, 3);
  EXPECT_EQ(w.total.bytes, 48);
  EXPECT_EQ(w.repeated.bytes, 16);
}

TEST(ModelWeights, DamagedShapesCountAsNothing) {
  const ModelWeights w = weights(
      "initializer { name: 'a' data_type: 1 dims: -4 } "
      "initializer { name: 'b' data_type: 1 dims: 4611686018427387904 dims: 4611686018427387904 } "
      "initializer { name: 'c' data_type: 99 dims: 4 }");
  EXPECT_EQ(w.total.tensors, 3);
  EXPECT_EQ(w.total.bytes, 0);
  EXPECT_EQ(w.by_type.count("element type 99"), 1u);
}

}  // namespace
}  // namespace gantry
