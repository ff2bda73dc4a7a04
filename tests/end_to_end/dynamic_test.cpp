// Networks with symbolic dimensions: compiled once, run at several sizes, and compared at each with the same
// network compiled for that size alone.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <set>

#include "device_runtime/src/module_reader.h"
#include "host/cli/made_up_sizes.h"
#include "host/codegen/find_target.h"
#include "host/ops/op.h"
#include "host/zoo/zoo.h"
#include "tests/end_to_end/networks.h"
#include "tests/support/compiled_model.h"
#include "tests/support/interpreted.h"

namespace gantry::end_to_end {
namespace {

using ::testing::HasSubstr;

/// Names the parameters' dimensions that are symbolic; each input's shape has to be given when it runs.
void expect_agreement(const std::string& bytes, const std::vector<std::vector<int64_t>>& shapes) {
  const Graph symbolic = import_onnx_bytes(bytes, "");
  const Value& input = *symbolic.main.parameters.at(0);
  ASSERT_FALSE(constant_shape(input.type.shape)) << "nothing is symbolic";
  testing::LocalModel model(testing::compile_to_bytes(symbolic));
  for (const auto& shape : shapes) {
    ImportOptions options;
    options.shapes[input.name] = given_shape(shape);
    const Graph fixed = import_onnx_bytes(bytes, "", options);
    const auto inputs = random_inputs(fixed);
    const auto expected = run_here("native", 0, 1)(fixed, inputs);
    EXPECT_LE(worst_error(model.run(inputs), expected), kTolerance) << ::testing::PrintToString(shape);
  }
}

TEST(Dynamic, BatchOfImages) {
  for (const char* name : {"resnet18", "mobilenet_v3", "squeezenet1_1"}) {
    SCOPED_TRACE(name);
    expect_agreement(build_zoo_model(name, {.size = 64, .dynamic = true}), {{3, 3, 64, 64}, {1, 3, 64, 64}});
  }
}

TEST(Dynamic, BatchAndLengthOfText) {
  expect_agreement(build_zoo_model("bert_tiny", {.dynamic = true}),
                   {{1, 1}, {2, 7}, {3, 64}, {1, 200}, {1, 512}});
}

TEST(Dynamic, BatchAndLengthOfRecurrences) {
  const std::string bytes = build_zoo_model("lstm", {.dynamic = true});
  const Graph graph = import_onnx_bytes(bytes, "");
  std::vector<std::vector<int64_t>> shapes;
  for (int64_t steps : {1, 2, 9}) {
    std::vector<int64_t> shape;
    for (const Dim& dim : graph.main.parameters[0]->type.shape) {
      shape.push_back(dim.is_constant() ? dim.value() : dim.str() == "batch" ? 3 : steps);
    }
    shapes.push_back(shape);
  }
  expect_agreement(bytes, shapes);
}

// Whole vectors of numbers that count up are compared by how far the limit is away.
TEST(Dynamic, EveryNumberIsAtMostTheLargestAndAboveTheLeast) {
  onnx::ModelProto proto;
  const std::string text =
      "ir_version: 8 opset_import { version: 16 } graph { name: 'g' "
      "input { name: 'x' type { tensor_type { elem_type: 1 shape { dim { dim_param: 'N' } } } } } "
      "output { name: 'y' type { tensor_type { elem_type: 9 shape { dim { dim_param: 'N' } } } } } "
      "output { name: 'z' type { tensor_type { elem_type: 9 shape { dim { dim_param: 'N' } } } } } "
      "node { op_type: 'Size' input: 'x' output: 'n' } "
      "node { op_type: 'Range' input: 'zero' input: 'n' input: 'one' output: 'r' } "
      "node { op_type: 'LessOrEqual' input: 'r' input: 'most' output: 'y' } "
      "node { op_type: 'Greater' input: 'r' input: 'least' output: 'z' } "
      "initializer { name: 'zero' data_type: 7 int64_data: 0 } "
      "initializer { name: 'one' data_type: 7 int64_data: 1 } "
      "initializer { name: 'most' data_type: 7 int64_data: 9223372036854775807 } "
      "initializer { name: 'least' data_type: 7 int64_data: -9223372036854775808 } }";
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &proto)) << text;
  const Graph graph = import_onnx_bytes(proto.SerializeAsString(), "");
  testing::LocalModel model(testing::compile_to_bytes(graph));
  for (const ConstantPtr& result : model.run({testing::random_tensor(DType::kF32, {64}, 1)})) {
    ASSERT_EQ(result->size, 64U);
    for (size_t i = 0; i < result->size; ++i) EXPECT_EQ(result->bytes[i], std::byte{1}) << i;
  }
}

/// A classifier of images as Paddle's exporter writes it: height and width are both "?", the batch is -1, and
/// so is the declared output.
std::string unnamed_classifier() {
  onnx::ModelProto proto;
  const std::string pads = "attribute { name: 'pads' type: INTS ints: 1 ints: 1 ints: 1 ints: 1 } ";
  const std::string twice = "attribute { name: 'strides' type: INTS ints: 2 ints: 2 } ";
  const std::string text =
      "ir_version: 7 opset_import { version: 11 } graph { name: 'g' "
      "input { name: 'x' type { tensor_type { elem_type: 1 shape { dim { dim_value: -1 } dim { dim_value: 3 "
      "} "
      "dim { dim_param: '?' } dim { dim_param: '?' } } } } } "
      "output { name: 'y' type { tensor_type { elem_type: 1 shape { dim { dim_value: -1 } dim { dim_value: 2 "
      "} } } } "
      "} "
      "node { name: 'conv' op_type: 'Conv' input: 'x' input: 'w' output: 'c' " +
      pads + twice +
      "} node { name: 'relu' op_type: 'Relu' input: 'c' output: 'r' } "
      "node { name: 'pool' op_type: 'MaxPool' input: 'r' output: 'p' " +
      twice +
      "attribute { name: 'kernel_shape' type: INTS ints: 2 ints: 2 } } "
      "node { name: 'mean' op_type: 'GlobalAveragePool' input: 'p' output: 'm' } "
      "node { name: 'shape' op_type: 'Shape' input: 'm' output: 's' } "
      "node { name: 'batch' op_type: 'Slice' input: 's' input: 'zero' input: 'one' output: 'n' } "
      "node { name: 'wanted' op_type: 'Concat' input: 'n' input: 'rest' output: 'd' attribute { name: 'axis' "
      "type: "
      "INT i: 0 } } "
      "node { name: 'flat' op_type: 'Reshape' input: 'm' input: 'd' output: 'f' } "
      "node { name: 'product' op_type: 'MatMul' input: 'f' input: 'v' output: 'l' } "
      "node { name: 'softmax' op_type: 'Softmax' input: 'l' output: 'y' attribute { name: 'axis' type: INT "
      "i: 1 } } "
      "initializer { name: 'zero' dims: 1 data_type: 7 int64_data: 0 } "
      "initializer { name: 'one' dims: 1 data_type: 7 int64_data: 1 } "
      "initializer { name: 'rest' dims: 1 data_type: 7 int64_data: -1 } "
      "initializer { name: 'w' dims: 8 dims: 3 dims: 3 dims: 3 data_type: 1 } "
      "initializer { name: 'v' dims: 8 dims: 2 data_type: 1 } }";
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &proto)) << text;
  for (onnx::TensorProto& tensor : *proto.mutable_graph()->mutable_initializer()) {
    if (tensor.data_type() != onnx::TensorProto::FLOAT) continue;
    const std::vector<int64_t> shape(tensor.dims().begin(), tensor.dims().end());
    const ConstantPtr data = testing::random_tensor(DType::kF32, shape, 3);
    tensor.set_raw_data(reinterpret_cast<const char*>(data->bytes), data->size);
  }
  return proto.SerializeAsString();
}

TEST(Dynamic, HeightAndWidthThatAreWrittenAlikeMayDiffer) {
  expect_agreement(unnamed_classifier(),
                   {{1, 3, 48, 192}, {2, 3, 224, 224}, {3, 3, 17, 33}, {1, 3, 3, 3}, {1, 3, 200, 4}});
}

TEST(Dynamic, ImagesWithoutAWindowAreRefusedWithTheSmallestThatHasOne) {
  testing::LocalModel model(testing::compile_to_bytes(import_onnx_bytes(unnamed_classifier(), "")));
  try {
    model.run({testing::random_tensor(DType::kF32, {1, 3, 48, 2}, 1)});
    FAIL() << "a width of 2 was accepted";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("input 'x': width (dimension 3, x_d3) is 2, must be at least 3 (needed by "));
  }
}

runtime::SharedBytes aligned_copy(const std::vector<std::byte>& bytes) {
  auto buffer = std::make_shared<runtime::AlignedBuffer>();
  EXPECT_TRUE(buffer->reserve(bytes.size(), "the module").ok());
  std::memcpy(buffer->data(), bytes.data(), bytes.size());
  return {std::span<const std::byte>(buffer->data(), bytes.size()), buffer};
}

/// Models with open sizes in GANTRY_MODELS, or in the folder ../shared/models.
std::vector<std::filesystem::path> models_with_open_sizes() {
  namespace fs = std::filesystem;
  const char* given = std::getenv("GANTRY_MODELS");
  const fs::path folder = given != nullptr
                              ? fs::path(given)
                              : fs::weakly_canonical(GANTRY_SOURCE_DIR).parent_path() / "shared" / "models";
  std::vector<fs::path> models;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(folder, code)) {
    if (entry.path().extension() != ".onnx") continue;
    const Graph graph = import_onnx(entry.path());
    const bool open = std::ranges::any_of(graph.main.parameters, [](const Value* input) {
      return !constant_shape(input->type.shape).has_value();
    });
    if (open) models.push_back(entry.path());
  }
  return models;
}

TEST(Dynamic, ExportedModelsRunInTheSizesChosenForThem) {
  const auto models = models_with_open_sizes();
  if (models.empty()) GTEST_SKIP() << "neither GANTRY_MODELS nor ../shared/models has models with open sizes";
  for (const std::filesystem::path& path : models) {
    SCOPED_TRACE(path);
    const Graph graph = import_onnx(path);
    const std::vector<std::byte> module = testing::compile_to_bytes(graph);
    const auto contents = runtime::ModuleContents::from_bytes(aligned_copy(module), false);
    ASSERT_TRUE(contents.ok()) << contents.status().message();
    std::vector<std::vector<int64_t>> shapes;
    for (const Value* input : graph.main.parameters) {
      std::vector<int64_t>& shape = shapes.emplace_back();
      for (const Dim& dim : input->type.shape) shape.push_back(dim.constant().value_or(-1));
    }
    std::vector<ConstantPtr> inputs;
    const auto chosen = cli::choose_sizes(contents.value().manifest(), {}, shapes);
    for (size_t i = 0; i < chosen.size(); ++i)
      inputs.push_back(testing::random_tensor(graph.main.parameters[i]->type.dtype, chosen[i].shape, i));
    for (const ConstantPtr& output : testing::LocalModel(module).run(inputs)) {
      if (output->type.dtype != DType::kF32) continue;
      const float* values = output->as<float>();
      EXPECT_TRUE(std::all_of(values, values + output->size / sizeof(float),
                              [](float value) { return std::isfinite(value); }));
    }
  }
}

TEST(Dynamic, LengthBeyondThePositionsIsRefusedByName) {
  const Graph graph = import_onnx_bytes(build_zoo_model("bert_tiny", {.dynamic = true}), "");
  testing::LocalModel model(testing::compile_to_bytes(graph));
  try {
    model.run({testing::random_tensor(DType::kI64, {1, 513}, 1)});
    FAIL() << "a sequence of 513 was accepted";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("51"));
  }
  EXPECT_EQ(model.run({testing::random_tensor(DType::kI64, {1, 5}, 1)}).size(), 1u) << "the session goes on";
}

TEST(Dynamic, EmulatedBoardAgrees) {
  if (!testing::emulated_board_program())
    GTEST_SKIP() << "no qemu-aarch64, or no gantry-device built for AArch64";
  const Runner board = run_on_emulated_board();
  for (const char* name : {"bert_tiny", "squeezenet1_1"}) {
    SCOPED_TRACE(name);
    const bool text = std::string(name) == "bert_tiny";
    const std::string bytes = build_zoo_model(name, {.size = text ? 0 : 64, .dynamic = true});
    const Graph symbolic = import_onnx_bytes(bytes, "");
    ImportOptions options;
    options.shapes[symbolic.main.parameters[0]->name] =
        text ? std::vector<GivenSize>{2, 13} : std::vector<GivenSize>{2, 3, 64, 64};
    const Graph fixed = import_onnx_bytes(bytes, "", options);
    const auto inputs = random_inputs(fixed);
    EXPECT_LE(worst_error(board(symbolic, inputs), run_here()(fixed, inputs)), kTolerance);
  }
}

TEST(Dynamic, AModuleMayHaveProgramsForSomeSizesAndAgreesWithItself) {
  const Graph symbolic = import_onnx_bytes(build_zoo_model("bert_tiny", {.dynamic = true}), "");
  const auto symbols = symbolic.main.parameters[0]->type.shape;
  CompileOptions options;
  options.targets = {find_target("native")};
  options.specializations = {{{symbols[0].str(), 1}, {symbols[1].str(), 16}}, {{symbols[1].str(), 1}}};
  ModuleFile module = compile_graph(symbolic, options);
  ASSERT_EQ(module.manifest.variants.size(), 3u);
  EXPECT_EQ(module.manifest.variants[1]->specialized.size(), 2u);
  for (const auto& kernel : module.manifest.variants[1]->kernels) EXPECT_EQ(kernel->dim_count, 0u) << "all is known";
  testing::LocalModel general(testing::compile_to_bytes(symbolic)), specialized(serialize_module(module));
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{1, 16}, {2, 16}, {1, 1}, {3, 1}, {1, 7}, {1, 16}}) {
    ImportOptions sizes;
    for (const Value* input : symbolic.main.parameters) sizes.shapes[input->name] = given_shape(shape);
    const auto inputs = random_inputs(import_onnx_bytes(build_zoo_model("bert_tiny", {.dynamic = true}), "", sizes));
    EXPECT_LE(worst_error(specialized.run(inputs), general.run(inputs)), kTolerance) << ::testing::PrintToString(shape);
  }
}

TEST(Dynamic, ASpecializationKeepsTheRangesOfTheSizesThatItLeavesOpen) {
  // The range alone says that there is one window.
  const Graph graph = parse_graph(
      "fn @main(%x: Tensor[(N, 2, L), f32]) -> Tensor[(N, 3, 1), f32] {\n  where L in 1..7\n"
      "  %0 = nn.conv(%x, const(f32, [3, 2, 1], [1, 2, -3, 4, 5, -6]), channels=3, kernel=[1], strides=[8], "
      "dilations=[1], padding=(0, 1))\n"
      "  %1 = nn.batch_norm(%0, const(f32, [3], [2, 3, 4]), const(f32, [3], [1, -1, 0]), "
      "const(f32, [3], [0, 1, 2]), const(f32, [3], [1, 4, 9]))\n  return %1\n}\n",
      op_set());
  CompileOptions options;
  options.targets = {find_target("native")};
  options.specializations = {{{"N", 1}}};
  ModuleFile module = compile_graph(graph, options);
  const auto bytes = serialize_module(module);
  testing::LocalModel general(testing::compile_to_bytes(graph)),
      specialized(bytes);
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{1, 2, 5}, {2, 2, 5}}) {
    const std::vector<ConstantPtr> inputs{testing::random_tensor(DType::kF32, shape, 1)};
    EXPECT_LE(worst_error(specialized.run(inputs), general.run(inputs)), kTolerance);
  }
  EXPECT_THROW(specialized.run({testing::random_tensor(DType::kF32, {1, 2, 8}, 1)}), std::runtime_error);
}

TEST(Dynamic, SizesThatASpecializationCannotHaveAreErrors) {
  const Graph symbolic = import_onnx_bytes(build_zoo_model("lstm", {.dynamic = true}), "", {{{}, {{"batch", DimRange{1, 8}}}}});
  const auto error_of = [&](const std::map<std::string, int64_t>& sizes) -> std::string {
    CompileOptions options;
    options.targets = {find_target("native")};
    options.specializations = {sizes};
    try {
      compile_graph(symbolic, options);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(error_of({{"batch", 9}}), HasSubstr("to specialize for batch=9: batch=9 is not in the range 1..8"));
  EXPECT_THAT(error_of({{"bacth", 1}}), HasSubstr("have no dimension 'bacth'"));
}

template <typename T>
std::vector<T> elements(const ConstantPtr& tensor) {
  return {tensor->as<T>(), tensor->as<T>() + tensor->size / sizeof(T)};
}

struct OfNumber {
  const char *node, *dtype;
  std::function<int64_t(int64_t)> value;
};

TEST(Dynamic, NumbersMadeOfSizesMayBeNegative) {
  const OfNumber all[] = {
      {"maximum(%0, const(i64, [], [-2]))", "i64", [](int64_t i) { return std::max<int64_t>(i, -2); }},
      {"abs(%0)", "i64", [](int64_t i) { return std::abs(i); }},
      {"less(%0, const(i64, [], [0]))", "bool", [](int64_t i) { return int64_t{i < 0}; }},
      {"mod(%0, const(i64, [], [3]))", "i64", [](int64_t i) { return (i % 3 + 3) % 3; }}};
  for (const auto& [node, dtype, value] : all) {
    SCOPED_TRACE(node);
    testing::LocalModel model(testing::compile_to_bytes(
        parse_graph(fmt::format("fn @main(%n: Tensor[(N), f32]) -> Tensor[(2 * N), {}] {{\n"
                                "  %0 = arange(start=-N, step=1, count=2 * N)\n  %1 = {}\n  return %1\n}}\n",
                                dtype, node),
                    op_set())));
    for (const int64_t n : {5, 1}) {
      const ConstantPtr result = model.run({testing::random_tensor(DType::kF32, {n}, 1)}).at(0);
      for (int64_t i = 0; i < 2 * n; ++i) {
        const bool is_bool = result->type.dtype == DType::kBool;
        EXPECT_EQ(is_bool ? result->as<uint8_t>()[i] : result->as<int64_t>()[i], value(i - n)) << i - n;
      }
    }
  }
}

TEST(Dynamic, DifferencesOfSizesMayBeNegative) {
  testing::LocalModel model(testing::compile_to_bytes(
      parse_graph("fn @main(%s: Tensor[(S), f32], %n: Tensor[(N), f32], %m: Tensor[(3, 1), f32], %x: "
                  "Tensor[(1, 1, 4), f32]) "
                  "-> (Tensor[(1), i64], Tensor[(3, 1), f32], Tensor[(1, 1, 4 - S + N), f32]) {\n"
                  "  %0 = dims_to_tensor(dims=(S - N))\n"
                  "  %1 = maximum(%0, const(i64, [], [-1]))\n"
                  "  %2 = trilu(%m, upper=false, k=S - N)\n"
                  "  %3 = nn.conv_transpose(%x, const(f32, [1, 1, 1], [2]), kernel=[1], padding=(S - N, 0))\n"
                  "  return %1, %2, %3\n}\n",
                  op_set())));
  const float column[] = {1, 2, 3}, row[] = {1, 2, 3, 4};
  const auto results = [&](int64_t s, int64_t n) {
    return model.run(
        {testing::random_tensor(DType::kF32, {s}, 1), testing::random_tensor(DType::kF32, {n}, 2),
         make_constant({DType::kF32, {3, 1}}, column), make_constant({DType::kF32, {1, 1, 4}}, row)});
  };
  const auto below = results(3, 5), above = results(3, 1);
  EXPECT_EQ(elements<int64_t>(below.at(0)), (std::vector<int64_t>{-1}));
  EXPECT_EQ(elements<float>(below.at(1)), (std::vector<float>{0, 0, 3}));
  EXPECT_EQ(elements<float>(below.at(2)), (std::vector<float>{0, 0, 2, 4, 6, 8}));
  EXPECT_EQ(elements<int64_t>(above.at(0)), (std::vector<int64_t>{2}));
  EXPECT_EQ(elements<float>(above.at(1)), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(elements<float>(above.at(2)), (std::vector<float>{6, 8}));
}

TEST(Dynamic, UnevenPartsAreThoseOfTheSizeThatRuns) {
  constexpr int64_t kParts = 16;
  std::string outputs, names;
  for (int64_t i = 0; i < kParts; ++i) {
    names += fmt::format("output: 'y{}' ", i);
    outputs += fmt::format("output {{ name: 'y{}' }} ", i);
  }
  const std::string text =
      "ir_version: 8 opset_import { version: 18 } graph { name: 'g' "
      "input { name: 'x' type { tensor_type { elem_type: 1 shape { dim { dim_param: 'N' } } } } } " +
      outputs + "node { op_type: 'Split' input: 'x' " + names +
      "attribute { name: 'num_outputs' type: INT i: 16 } } }";
  onnx::ModelProto proto;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &proto)) << text;
  testing::LocalModel model(testing::compile_to_bytes(import_onnx_bytes(proto.SerializeAsString(), "")));
  for (const int64_t n : {0, 5, 16, 35}) {
    const ConstantPtr x = testing::random_tensor(DType::kF32, {n}, 1);
    std::vector<float> joined;
    for (const ConstantPtr& part : model.run({x})) {
      EXPECT_LE(element_count(part->type.shape).value(), (n + kParts - 1) / kParts) << n;
      const std::vector<float> own = elements<float>(part);
      joined.insert(joined.end(), own.begin(), own.end());
    }
    EXPECT_EQ(joined, elements<float>(x)) << n;
  }
}

/// What a run ends with: "" where it has results.
std::string refusal_of(testing::LocalModel& model, const std::vector<ConstantPtr>& inputs) {
  try {
    model.run(inputs);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

TEST(Dynamic, ChannelsThatDoNotMakeGroupsAreRefused) {
  const Graph graph = parse_graph(
      "fn @main(%x: Tensor[(1, C, 5), f32], %s: Tensor[(C), f32]) -> Tensor[(1, C, 5), f32] {\n"
      "  %y = nn.group_norm(%x, %s, %s, groups=2)\n  return %y\n}\n",
      op_set());
  testing::LocalModel model(testing::compile_to_bytes(graph));
  const auto inputs_of = [](int64_t channels) {
    return std::vector{testing::random_tensor(DType::kF32, {1, channels, 5}, 1),
                       testing::random_tensor(DType::kF32, {channels}, 2)};
  };
  for (const int64_t channels : {1, 3})
    EXPECT_THAT(refusal_of(model, inputs_of(channels)), HasSubstr("must be a multiple of 2")) << channels;
  for (const int64_t channels : {2, 4}) {
    const std::vector<ConstantPtr> inputs = inputs_of(channels);
    const ConstantPtr expected = testing::interpret_function(graph.main, inputs).at(0);
    EXPECT_LE(testing::relative_error(*model.run(inputs).at(0), *expected), kTolerance) << channels;
  }
}

TEST(Dynamic, AttentionOverNoKeysIsZero) {
  const Graph graph = parse_graph(
      "fn @main(%q: Tensor[(1, 2, 16, 8), f32], %k: Tensor[(1, 2, K, 8), f32], %v: Tensor[(1, 2, K, 8), "
      "f32]) -> "
      "Tensor[(1, 2, 16, 8), f32] {\n"
      "  %t = transpose(%k, axes=[0, 1, 3, 2])\n  %s = matmul(%q, %t)\n  %w = nn.softmax(%s, axis=3)\n"
      "  %y = matmul(%w, %v)\n  return %y\n}\n",
      op_set());
  testing::LocalModel model(testing::compile_to_bytes(graph));
  testing::LocalModel in_steps(testing::compile_to_bytes(graph, {.opt_level = 0}));
  for (const int64_t keys : {0, 1, 300}) {
    const std::vector<ConstantPtr> inputs{testing::random_tensor(DType::kF32, {1, 2, 16, 8}, 1),
                                          testing::random_tensor(DType::kF32, {1, 2, keys, 8}, 2),
                                          testing::random_tensor(DType::kF32, {1, 2, keys, 8}, 3)};
    const auto results = model.run(inputs);
    if (keys == 0) {
      EXPECT_EQ(elements<float>(results.at(0)), std::vector<float>(size_t{2 * 16 * 8}));
    } else {
      EXPECT_LE(worst_error(results, in_steps.run(inputs)), kTolerance) << keys;
    }
  }
}

}  // namespace
}  // namespace gantry::end_to_end
