#include "host/zoo/zoo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/checker.h>
#include <onnx/onnx_pb.h>
#include <onnx/shape_inference/implementation.h>

#include <filesystem>
#include <fstream>

#include "host/support/error.h"

namespace gantry {
namespace {

using ::testing::HasSubstr;

onnx::ModelProto parse(const std::string& bytes) {
  onnx::ModelProto model;
  EXPECT_TRUE(model.ParseFromString(bytes));
  return model;
}

std::vector<std::string> dims_of(const onnx::ValueInfoProto& value) {
  std::vector<std::string> dims;
  for (const auto& dim : value.type().tensor_type().shape().dim()) {
    dims.push_back(dim.has_dim_param() ? dim.dim_param() : std::to_string(dim.dim_value()));
  }
  return dims;
}

/// The output's dimensions as the onnx library infers them from the nodes, our declaration of it set aside.
std::vector<std::string> inferred_output(onnx::ModelProto model) {
  model.mutable_graph()->mutable_output(0)->mutable_type()->mutable_tensor_type()->clear_shape();
  onnx::ShapeInferenceOptions options;
  options.check_type = true;
  options.error_mode = 1;
  options.enable_data_propagation = true;
  onnx::shape_inference::InferShapes(model, onnx::OpSchemaRegistry::Instance(), options);
  return dims_of(model.graph().output(0));
}

int64_t parameter_count(const onnx::ModelProto& model) {
  int64_t total = 0;
  for (const auto& tensor : model.graph().initializer()) {
    if (tensor.data_type() != onnx::TensorProto::FLOAT) continue;
    int64_t count = 1;
    for (int64_t dim : tensor.dims()) count *= dim;
    total += count;
  }
  return total;
}

int count_ops(const onnx::ModelProto& model, const std::string& op_type) {
  int count = 0;
  for (const auto& node : model.graph().node()) count += node.op_type() == op_type ? 1 : 0;
  return count;
}

uint64_t fnv1a(const std::string& bytes) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return hash;
}

std::vector<std::string> network_names() {
  std::vector<std::string> names;
  for (const ZooNetwork& network : zoo_networks()) names.push_back(network.name);
  return names;
}

class EveryNetwork : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryNetwork, PassesTheOnnxCheckerAndInfersTheOutputItDeclares) {
  const std::string bytes = build_zoo_model(GetParam());
  const onnx::ModelProto model = parse(bytes);
  ASSERT_NO_THROW(onnx::checker::check_model(model));
  EXPECT_EQ(inferred_output(model), dims_of(model.graph().output(0)));
}

TEST_P(EveryNetwork, TakesASymbolicBatch) {
  if (GetParam() == "vgg16" || GetParam() == "bert_base") GTEST_SKIP() << "large; the others cover it";
  const onnx::ModelProto model = parse(build_zoo_model(GetParam(), {.dynamic = true}));
  ASSERT_NO_THROW(onnx::checker::check_model(model));
  EXPECT_EQ(dims_of(model.graph().input(0))[0], "batch");
  EXPECT_EQ(dims_of(model.graph().output(0))[0], "batch");
}

INSTANTIATE_TEST_SUITE_P(Zoo, EveryNetwork, ::testing::ValuesIn(network_names()),
                         [](const auto& info) { return info.param; });

// Parameter counts as published with torchvision's networks (running statistics of batch norm not counted
// there).
TEST(Zoo, NetworksHaveTheirPublishedParameterCounts) {
  const std::vector<std::pair<std::string, int64_t>> published = {
      {"resnet18", 11689512},     {"resnet34", 21797672},    {"resnet50", 25557032},
      {"resnet101", 44549160},    {"mobilenet_v2", 3504872}, {"mobilenet_v3", 5483032},
      {"squeezenet1_1", 1235496}, {"densenet121", 7978856},  {"efficientnet_b0", 5288548},
      {"shufflenet_v2", 2278604}, {"vgg16", 138357544}};
  for (const auto& [name, count] : published) {
    const onnx::ModelProto model = parse(build_zoo_model(name));
    int64_t ours = 0;
    for (const auto& tensor : model.graph().initializer()) {
      const bool statistics = tensor.name().find(".running_") != std::string::npos;
      const bool is_scalar = tensor.dims_size() == 0;
      if (tensor.data_type() != onnx::TensorProto::FLOAT || statistics || is_scalar) continue;
      int64_t size = 1;
      for (int64_t dim : tensor.dims()) size *= dim;
      ours += size;
    }
    EXPECT_EQ(ours, count) << name;
  }
}

TEST(Zoo, BatchNormalizationStaysANodeOfItsOwn) {
  EXPECT_EQ(count_ops(parse(build_zoo_model("resnet18")), "BatchNormalization"), 20);
}

TEST(Zoo, SameSeedGivesSameBytesAndAnotherSeedOthers) {
  EXPECT_EQ(build_zoo_model("lstm"), build_zoo_model("lstm"));
  EXPECT_NE(build_zoo_model("lstm"), build_zoo_model("lstm", {.seed = 1}));
}

TEST(Zoo, BytesDoNotDependOnThePlatform) {
  // Recorded once on x86-64; AArch64 must give the same.
  EXPECT_EQ(fnv1a(build_zoo_model("lstm")), 0xe8e8ea930d694a9full);
}

TEST(Zoo, SizeAndBatchReachTheInput) {
  const onnx::ModelProto image = parse(build_zoo_model("squeezenet1_1", {.batch = 4, .size = 96}));
  EXPECT_EQ(dims_of(image.graph().input(0)), (std::vector<std::string>{"4", "3", "96", "96"}));
  EXPECT_EQ(inferred_output(image), (std::vector<std::string>{"4", "1000"}));
  const onnx::ModelProto text = parse(build_zoo_model("bert_tiny", {.size = 17}));
  EXPECT_EQ(dims_of(text.graph().input(0)), (std::vector<std::string>{"1", "17"}));
  EXPECT_EQ(inferred_output(text), (std::vector<std::string>{"1", "17", "128"}));
  EXPECT_GT(parameter_count(text), 4000000);
}

std::string message_of(const std::string& name, const ZooOptions& options) {
  try {
    build_zoo_model(name, options);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser);
    return error.what();
  }
  return "no error";
}

TEST(Zoo, UnknownNameSuggestsTheNearest) {
  EXPECT_THAT(message_of("resnet81", {}), HasSubstr("'resnet18'"));
}

TEST(Zoo, SizeThatTheNetworkCannotTakeIsAnError) {
  EXPECT_THAT(message_of("vgg16", {.size = 100}), HasSubstr("multiple of 32"));
  // Of 512 its weights would be more than an ONNX file can have.
  EXPECT_THAT(message_of("vgg16", {.size = 512}), HasSubstr("from 32 to 480, a multiple of 32"));
  EXPECT_THAT(message_of("bert_tiny", {.size = 513}), HasSubstr("from 1 to 512"));
  EXPECT_THAT(message_of("resnet18", {.size = 4097}), HasSubstr("from 32 to 4096"));
  EXPECT_THAT(message_of("resnet18", {.size = -3}), HasSubstr("--size -3"));
  EXPECT_THAT(message_of("resnet18", {.batch = 0}), HasSubstr("--batch 0"));
}

TEST(Zoo, FailedWriteLeavesNothing) {
  const auto folder = std::filesystem::temp_directory_path() / "gantry_zoo_test";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  EXPECT_THROW(write_zoo_model("no_such", {}, folder / "x.onnx"), Error);
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  write_zoo_model("lstm", {}, folder / "lstm.onnx");
  std::ifstream file(folder / "lstm.onnx", std::ios::binary);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), build_zoo_model("lstm"));
  EXPECT_THROW(write_zoo_model("lstm", {}, folder / "missing" / "lstm.onnx"), Error);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace gantry
