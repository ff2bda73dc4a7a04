#include "host/onnx/import.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>

#include "host/ops/movement.h"
#include "host/ops/op.h"
#include "host/support/error.h"

namespace gantry {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// A model of opset 16 from the text form of its graph.
std::string model(const std::string& graph) {
  onnx::ModelProto proto;
  std::string text = "ir_version: 8 opset_import { version: 16 } graph { name: 'g' " + graph + " }";
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &proto)) << text;
  return proto.SerializeAsString();
}
std::string input(const std::string& name, const std::string& dims, int type = 1) {
  return "input { name: '" + name + "' type { tensor_type { elem_type: " + std::to_string(type) +
         " shape { " + dims + " } } } } ";
}
std::string output(const std::string& name, const std::string& shape = "") {
  return "output { name: '" + name + "' type { tensor_type { elem_type: 1 " + shape + " } } } ";
}
std::string node(const std::string& op, const std::string& in, const std::string& out,
                 const std::string& more = "") {
  std::string text = "node { name: '" + op + "_" + out + "' op_type: '" + op + "' ";
  std::stringstream names(in);
  for (std::string name; names >> name;) text += "input: '" + name + "' ";
  return text + "output: '" + out + "' " + more + "} ";
}
const std::string kN3 = "dim { dim_param: 'N' } dim { dim_value: 3 }";

Graph import(const std::string& bytes, const ImportOptions& options = {}) {
  return import_onnx_bytes(bytes, ".", options);
}
std::string error_of(const std::string& bytes, const ImportOptions& options = {}) {
  try {
    import(bytes, options);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser) << error.what();
    return error.what();
  }
  return "no error";
}

TEST(Import, SymbolicDimensionsReachTheOutput) {
  Graph g = import(model(input("x", kN3) + node("Relu", "x", "y") + output("y")));
  EXPECT_EQ(g.main.outputs[0]->type.shape, (Shape{Dim::symbol("N"), 3}));
  EXPECT_EQ(g.main.nodes().at(0)->op->name, "nn.relu");
  EXPECT_EQ(g.main.nodes().at(0)->origin, std::vector<std::string>{"Relu_y"});
}

TEST(Import, NodesMayStandInAnyOrder) {
  const std::string relu = node("Relu", "x", "r"), exp = node("Exp", "r", "e"), sum = node("Add", "r e", "y");
  const std::string in = input("x", kN3), out = output("y");
  const auto text = [&](const std::string& nodes) {
    return print(import(model(in + nodes + out)), op_set());
  };
  const std::string expected = text(relu + exp + sum);
  EXPECT_EQ(text(sum + exp + relu), expected);
  EXPECT_EQ(text(exp + relu + sum), expected);
}

TEST(Import, NodesOfBranchesMayStandInAnyOrder) {
  const std::string yes = "attribute { name: 'then_branch' type: GRAPH g { name: 't' " +
                          node("Neg", "made", "z") + output("z") + "} } ";
  const std::string no = "attribute { name: 'else_branch' type: GRAPH g { name: 'e' " +
                         node("Abs", "m", "z") + node("Neg", "made", "m") + output("z") + "} } ";
  // The branches read what comes behind their node.
  const Graph g = import(model(input("c", "", 9) + input("x", kN3) + node("If", "c", "y", yes + no) +
                               node("Relu", "x", "made") + output("y")));
  const std::string text = print(g, op_set());
  EXPECT_LT(text.find("relu("), text.find("if(")) << text;
}

TEST(Import, NodesThatWaitForEachOtherAreNamed) {
  EXPECT_THAT(
      error_of(model(input("x", kN3) + node("Add", "x b", "a") + node("Neg", "a", "b") + output("a"))),
      AllOf(HasSubstr("node Add_a (Add): is in a cycle"), HasSubstr("node Neg_b (Neg): is in a cycle")));
}

TEST(Import, ShapeArithmeticBecomesSymbolicDimensions) {
  // y = reshape(x, [shape(x)[0] * 3]) without a trace of the arithmetic.
  std::string constants =
      "initializer { name: 'zero' dims: 1 data_type: 7 int64_data: 0 } "
      "initializer { name: 'three' dims: 1 data_type: 7 int64_data: 3 } ";
  Graph g =
      import(model(constants + input("x", kN3) + node("Shape", "x", "s") + node("Gather", "s zero", "n") +
                   node("Mul", "n three", "m") + node("Reshape", "x m", "y") + output("y")));
  EXPECT_EQ(g.main.outputs[0]->type.shape, Shape{Dim::symbol("N") * 3});
  EXPECT_EQ(g.main.nodes().size(), 1u);
}

TEST(Import, AnOutputThatIsListedAgainIsAnotherOutput) {
  ImportOptions options;
  std::string told;
  options.warn = [&](const std::string& text) { told += text + "\n"; };
  const Graph g = import(model(input("x", kN3) + node("Relu", "x", "y") + node("Neg", "x", "y#2") +
                               output("y") + output("y") + output("y#2") + output("y") + output("x")),
                         options);
  EXPECT_THAT(g.main.output_names, testing::ElementsAre("y", "y#3", "y#2", "y#4", "x"));
  EXPECT_EQ(std::set<const Value*>(g.main.outputs.begin(), g.main.outputs.end()).size(), 5u)
      << "each is a buffer of its own";
  EXPECT_EQ(g.main.outputs[1]->producer->op->name, "copy");
  EXPECT_EQ(g.main.outputs[1]->producer->inputs[0], g.main.outputs[0]);
  EXPECT_THAT(told, HasSubstr("lists the output 'y' again: here that is called 'y#3'"));
}

TEST(Import, AShapeThatIsUsedAsDataBecomesAnOp) {
  Graph g = import(model(input("x", kN3) + node("Shape", "x", "s") +
                         node("Cast", "s", "y", "attribute { name: 'to' type: INT i: 1 } ") + output("y")));
  EXPECT_EQ(g.main.nodes().at(0)->op->name, "dims_to_tensor");
}

TEST(Import, AllUnsupportedOpsAreReportedAtOnceWithTheirNodes) {
  std::string text = error_of(model(input("x", kN3) + node("Transmogrify", "x", "a") +
                                    node("Frobnicate", "x", "b") + node("Transmogrify", "x", "c") + output("a")));
  EXPECT_THAT(
      text, AllOf(HasSubstr("Transmogrify_a, Transmogrify_c"), HasSubstr("Frobnicate (opset 16), node Frobnicate_b")));
}

TEST(Import, OfManyUnsupportedNodesAllAreNamed) {
  std::string graph = input("x", kN3);
  for (int i = 0; i < 8; ++i) graph += node("Transmogrify", "x", "n" + std::to_string(i));
  const std::string text = error_of(model(graph + output("n0")));
  for (int i = 0; i < 8; ++i) EXPECT_THAT(text, HasSubstr("Transmogrify_n" + std::to_string(i)));
}

TEST(Import, ErrorsNameTheFile) {
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "import_test_names_me.onnx";
  std::ofstream(path, std::ios::binary) << model(input("x", kN3) + node("Transmogrify", "x", "a") + output("a"));
  std::string text;
  try {
    import_onnx(path, {});
  } catch (const Error& error) {
    text = error.what();
  }
  std::filesystem::remove(path);
  EXPECT_THAT(text, testing::StartsWith(path.string() + ": "));
}

TEST(Import, BytesThatAreNoModelAreRefused) {
  EXPECT_THAT(error_of("GIF89a and so on"), HasSubstr("not an ONNX file"));
  EXPECT_THAT(error_of(""), HasSubstr("empty"));
  std::string bytes = model(input("x", kN3) + node("Relu", "x", "y") + output("y"));
  EXPECT_THAT(error_of(bytes.substr(0, bytes.size() - 9)), HasSubstr("truncated"));
}

TEST(Import, GivenShapesFixSymbolsAndMustFit) {
  std::string bytes = model(input("x", kN3) + node("Relu", "x", "y") + output("y"));
  ImportOptions options;
  options.shapes["x"] = {2, 3};
  EXPECT_EQ(import(bytes, options).main.outputs[0]->type.shape, (Shape{2, 3}));
  options.shapes["x"] = {2, 4};
  EXPECT_THAT(error_of(bytes, options), AllOf(HasSubstr("'x'"), HasSubstr("4"), HasSubstr("fixes it to 3")));
  ImportOptions unknown;
  unknown.shapes["z"] = {1};
  EXPECT_THAT(error_of(bytes, unknown), AllOf(HasSubstr("'z'"), HasSubstr("inputs are: x")));
}

/// What is warned of while the model is imported.
std::vector<std::string> warnings_of(const std::string& bytes, ImportOptions options = {}) {
  std::vector<std::string> warnings;
  options.warn = [&](const std::string& text) { warnings.push_back(text); };
  import(bytes, options);
  return warnings;
}

TEST(Import, ADeclaredOutputShapeThatContradictsTheGraphIsWarnedOf) {
  const std::string relu = input("x", kN3) + node("Relu", "x", "y");
  const std::string three = model(relu + output("y", "shape { dim { dim_param: 'N' } dim { dim_value: 3 } }"));
  EXPECT_THAT(warnings_of(three), testing::IsEmpty());
  const std::string five = model(relu + output("y", "shape { dim { dim_param: 'N' } dim { dim_value: 5 } }"));
  EXPECT_THAT(warnings_of(five), testing::ElementsAre(AllOf(HasSubstr("output 'y'"), HasSubstr("(N, 5)"),
                                                            HasSubstr("Relu_y"), HasSubstr("(N, 3)"))));
  const std::string vector = model(relu + output("y", "shape { dim { dim_value: 3 } }"));
  EXPECT_THAT(warnings_of(vector), testing::SizeIs(1));
  const std::string integers = model(relu + "output { name: 'y' type { tensor_type { elem_type: 7 } } } ");
  EXPECT_THAT(error_of(integers), HasSubstr("another dtype"));
}

TEST(Import, PoolingWithCeilModeHasTheWindowsThatBeginInsideOfItsData) {
  // Four elements, one of padding on each side: windows of 1 at -1, 1 and 3, and with ceil_mode none at 5, where
  // onnx's shape inference (rounding up alone) counts one.
  const std::string attributes =
      "attribute { name: 'kernel_shape' type: INTS ints: 1 } attribute { name: 'strides' type: INTS ints: 2 } "
      "attribute { name: 'pads' type: INTS ints: 1 ints: 1 } attribute { name: 'ceil_mode' type: INT i: 1 } ";
  const std::string bytes =
      model(input("x", "dim { dim_value: 1 } dim { dim_value: 1 } dim { dim_value: 4 }") +
            node("MaxPool", "x", "y", attributes) +
            output("y", "shape { dim { dim_value: 1 } dim { dim_value: 1 } dim { dim_value: 4 } }"));
  EXPECT_EQ(import(bytes).main.outputs[0]->type.shape, (Shape{1, 1, 3}));
  EXPECT_THAT(warnings_of(bytes), testing::Contains(AllOf(HasSubstr("MaxPool_y"), HasSubstr("(1, 1, 3)"))));
}

TEST(Import, BrokenGraphsAreUserErrorsThatNameTheNode) {
  EXPECT_THAT(error_of(model(input("x", kN3) + node("Add", "x q", "y") + output("y"))),
              AllOf(HasSubstr("Add_y"), HasSubstr("'q'")));
  EXPECT_THAT(
      error_of(model(input("x", kN3) + node("Relu", "b", "a") + node("Relu", "a", "b") + output("b"))),
      HasSubstr("in a cycle"));
  EXPECT_THAT(
      error_of(model(input("x", kN3) + node("Relu", "x", "y") + node("Tanh", "x", "y") + output("y"))),
      HasSubstr("defined already"));
  EXPECT_THAT(error_of(model(input("x", kN3) +
                             node("Elu", "x", "y", "attribute { name: 'alpha' type: STRING s: 'a' } ") +
                             output("y"))),
              AllOf(HasSubstr("Elu_y"), HasSubstr("alpha must be a number")));
  EXPECT_THAT(error_of(model("initializer { name: 'w' dims: 4 data_type: 1 raw_data: 'abc' } " +
                             input("x", kN3) + node("Add", "x w", "y") + output("y"))),
              AllOf(HasSubstr("'w'"), HasSubstr("3 bytes")));
  EXPECT_THAT(error_of(model("initializer { name: 'w' dims: -4 data_type: 1 } " + input("x", kN3) +
                             node("Add", "x w", "y") + output("y"))),
              HasSubstr("negative dimension"));
}

TEST(Import, ExternalDataStaysInTheModelsFolder) {
  for (const char* location : {"../secret", "/etc/passwd", "a/../../secret", ""}) {
    std::string bytes = model(
        "initializer { name: 'w' dims: 4 data_type: 1 data_location: EXTERNAL external_data { key: "
        "'location' value: '" +
        std::string(location) + "' } } " + input("x", kN3) + node("Add", "x w", "y") + output("y"));
    EXPECT_THAT(error_of(bytes), HasSubstr("outside the model's folder")) << location;
  }
}

TEST(Import, ANameOfExternalDataHasNoZeroByte) {
  const std::string bytes = model(
      "initializer { name: 'w' dims: 4 data_type: 1 data_location: EXTERNAL external_data { key: 'location' "
      "value: 'data\\000.bin' } } " +
      input("x", kN3) + node("Add", "x w", "y") + output("y"));
  EXPECT_THAT(error_of(bytes), HasSubstr("initialiser 'w': the name of its external data has a zero byte"));
}

TEST(Import, ExternalDataMayBeLinksIntoTheFolderThatTheModelIsALinkInto) {
  const auto root = std::filesystem::path(testing::TempDir()) / "linked_model";
  std::filesystem::remove_all(root);
  for (const char* folder : {"blobs", "names", "elsewhere"})
    std::filesystem::create_directories(root / folder);
  std::ofstream(root / "blobs" / "1", std::ios::binary) << model(
      "initializer { name: 'w' dims: 2 data_type: 9 data_location: EXTERNAL external_data { key: "
      "'location' value: 'w.data' } } " +
      node("Not", "w", "y") + "output { name: 'y' type { tensor_type { elem_type: 9 } } }");
  for (const char* folder : {"blobs", "elsewhere"})
    std::ofstream(root / folder / "2", std::ios::binary) << std::string("\1\0", 2);
  std::filesystem::create_symlink("../blobs/1", root / "names" / "m.onnx");
  std::filesystem::create_symlink("../blobs/2", root / "names" / "w.data");
  EXPECT_EQ(import_onnx(root / "names" / "m.onnx", {}).main.outputs.at(0)->type.shape, Shape{2});

  std::filesystem::remove(root / "names" / "w.data");
  std::filesystem::create_symlink("../elsewhere/2", root / "names" / "w.data");
  try {
    import_onnx(root / "names" / "m.onnx", {});
    ADD_FAILURE() << "read what lies beside neither the model nor its name";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("outside the model's folder"));
  }
  std::filesystem::remove_all(root);
}

TEST(Import, ABranchWithAKnownConditionIsTaken) {
  std::string branch = "type: GRAPH g { name: 'b' " + node("Relu", "x", "r") + output("r") + " } } ";
  std::string bytes =
      model("initializer { name: 'c' data_type: 9 int32_data: 1 } " + input("x", kN3) +
            node("If", "c", "y",
                 "attribute { name: 'then_branch' " + branch + "attribute { name: 'else_branch' " + branch) +
            output("y"));
  EXPECT_EQ(import(bytes).main.nodes().at(0)->op->name, "nn.relu");
}

TEST(Import, LogarithmsOfSumsOfExponentialsTakeInfinities) {
  const std::string bytes = model(
      "initializer { name: 'x' dims: 4 dims: 2 data_type: 1 float_data: -inf float_data: -inf "
      "float_data: inf float_data: 1 float_data: nan float_data: 1 float_data: -inf float_data: 3 } " +
      node("ReduceLogSumExp", "x", "y",
           "attribute { name: 'axes' type: INTS ints: 1 } "
           "attribute { name: 'keepdims' type: INT i: 0 } ") +
      output("y"));
  const Graph graph = import(bytes);
  const Value& y = *graph.main.nodes().at(0)->inputs.at(0);  // read by a copy
  ASSERT_TRUE(y.is_constant());
  EXPECT_THAT(std::vector<float>(y.constant->as<float>(), y.constant->as<float>() + 4),
              testing::ElementsAre(-INFINITY, INFINITY, testing::IsNan(), 3));
}

TEST(Import, RecurrentLayersOfHalfPrecisionComputeInF32) {
  const auto weight = [](const std::string& name, int rows, int columns) {
    return "initializer { name: '" + name + "' dims: 1 dims: " + std::to_string(rows) +
           " dims: " + std::to_string(columns) + " data_type: 10 raw_data: '" +
           std::string(size_t(rows * columns * 2), 'a') + "' } ";
  };
  const Graph graph =
      import(model(weight("w", 16, 3) + weight("r", 16, 4) +
                   input("x", "dim { dim_value: 5 } dim { dim_value: 2 } dim { dim_value: 3 }", 10) +
                   node("LSTM", "x w r", "y", "attribute { name: 'hidden_size' type: INT i: 4 } ") +
                   "output { name: 'y' type { tensor_type { elem_type: 10 } } } "));
  EXPECT_EQ(graph.main.outputs.at(0)->type.str(), "Tensor[(5, 1, 2, 4), f16]");
  const auto& nodes = graph.main.nodes();
  const auto recurrence =
      std::ranges::find_if(nodes, [](const Node* n) { return n->op->name == "nn.lstm_recurrence"; });
  ASSERT_NE(recurrence, nodes.end());
  EXPECT_EQ((*recurrence)->result()->type.dtype, DType::kF32);
}

// --- dimensions without a name

Shape input_shape(const std::string& dims, const ImportOptions& options = {}) {
  return import(model(input("x", dims) + node("Relu", "x", "y") + output("y")), options)
      .main.parameters.at(0)
      ->type.shape;
}

TEST(ImportDimensions, WithoutANameAreUnknownOneByOne) {
  for (const char* unknown : {"", "dim_value: -1", "dim_value: 0", "dim_value: -7", "dim_param: ''",
                              "dim_param: '?'", "dim_param: 'None'", "dim_param: '-1'", "dim_param: '0'",
                              "dim_param: 'unk'", "dim_param: '<unknown>'"}) {
    const std::string dim = std::string("dim { ") + unknown + " } ";
    EXPECT_EQ(to_string(input_shape(dim + "dim { dim_value: 3 } " + dim + dim)), "(x_d0, 3, x_d2, x_d3)")
        << unknown;
  }
}

TEST(ImportDimensions, WithOneNameAreEqual) {
  EXPECT_EQ(to_string(input_shape("dim { dim_param: 'N' } dim { dim_param: 'N' }")), "(N, N)");
  EXPECT_EQ(to_string(input_shape("dim { dim_param: 'unk__7' } dim { dim_param: 'unk__8' }")),
            "(unk__7, unk__8)");
}

TEST(ImportDimensions, AnInventedNameIsNoneOfTheModelsOwn) {
  const Graph graph = import(model(input("x", "dim { } dim { }") + input("z", "dim { dim_param: 'x_d0' }") +
                                   node("Relu", "x", "y") + output("y")));
  EXPECT_EQ(to_string(graph.main.parameters.at(0)->type.shape), "(x_d0_, x_d1)");
  EXPECT_EQ(to_string(graph.main.parameters.at(1)->type.shape), "(x_d0)");
}

TEST(ImportDimensions, WrittenAlikeMayDifferWhenTheModelRuns) {
  // A square root of nothing: were both `?` one dimension, the transposed tensor would add up.
  const Graph graph = import(model(input("x", "dim { dim_param: '?' } dim { dim_param: '?' }") +
                                   node("Transpose", "x", "t") + node("Add", "x t", "y") + output("y")));
  EXPECT_EQ(to_string(graph.main.outputs[0]->type.shape), "(broadcast(x_d0, x_d1), broadcast(x_d0, x_d1))");
  ASSERT_EQ(graph.main.constraints.size(), 1u);
  const DimConstraint& constraint = graph.main.constraints[0];
  for (int64_t height = 0; height < 5; ++height) {
    for (int64_t width = 0; width < 5; ++width) {
      const std::map<std::string, int64_t> sizes{{"x_d0", height}, {"x_d1", width}};
      const bool fits = height == width || height == 1 || width == 1;
      EXPECT_EQ(constraint.left.evaluate(sizes) == constraint.right.evaluate(sizes), fits)
          << height << " " << width;
    }
  }
}

TEST(ImportDimensions, DeclaredOpenInAnOutputSayNothing) {
  for (const char* unknown :
       {"dim { }", "dim { dim_value: 0 }", "dim { dim_value: -1 }", "dim { dim_param: '?' }"}) {
    const std::string dim = unknown;
    const Graph graph = import(model(input("x", "dim { dim_value: 2 } dim { dim_value: 3 }") +
                                     node("Relu", "x", "y") + output("y", "shape { " + dim + dim + " }")));
    EXPECT_EQ(to_string(graph.main.outputs.at(0)->type.shape), "(2, 3)");
  }
}

TEST(ImportDimensions, ThatAreZeroInAnInitialiserAreEmpty) {
  const Graph graph =
      import(model("initializer { name: 'w' dims: 0 dims: 3 data_type: 1 } " + input("x", kN3) +
                   node("Concat", "x w", "y", "attribute { name: 'axis' type: INT i: 0 } ") + output("y")));
  EXPECT_EQ(to_string(graph.main.outputs.at(0)->type.shape), "(N, 3)");
}

TEST(ImportDimensions, AShapeMayLeaveSomeOpen) {
  ImportOptions options;
  options.shapes["x"] = {2, kOpenSize, 5};
  EXPECT_EQ(to_string(input_shape("dim { } dim { } dim { }", options)), "(2, x_d1, 5)");
  options.shapes["x"] = {2, kOpenSize, 5};
  EXPECT_EQ(to_string(input_shape("dim { } dim { dim_value: 4 } dim { }", options)), "(2, 4, 5)");
}

TEST(ImportDimensions, AreFixedByName) {
  ImportOptions options;
  options.sizes = {{"N", 7}, {"x_d1", 9}};
  EXPECT_EQ(to_string(input_shape("dim { dim_param: 'N' } dim { dim_param: '?' }", options)), "(7, 9)");
  options.sizes = {{"M", 7}};
  const std::string bytes = model(input("x", kN3) + node("Relu", "x", "y") + output("y"));
  EXPECT_THAT(error_of(bytes, options), AllOf(HasSubstr("no dimension 'M'"), HasSubstr("are: N")));
  options.sizes = {{"N", 7}};
  options.shapes["x"] = {8, 3};
  EXPECT_THAT(error_of(bytes, options), AllOf(HasSubstr("'N'"), HasSubstr("8"), HasSubstr("7")));
}

// --- sizes that do not fit

/// Rows of 32: x is (N, C * 32) with C of them.
std::string rows_of_32() {
  return model("initializer { name: 's' dims: 3 data_type: 7 int64_data: 0 int64_data: -1 int64_data: 32 } " +
               input("x", "dim { dim_param: 'N' } dim { dim_param: 'height' }") +
               node("Reshape", "x s", "y") + output("y"));
}

TEST(ImportSizes, ThatTheModelCannotDivideAreNamedWithTheNearest) {
  ImportOptions options;
  options.shapes["x"] = {1, 225};
  EXPECT_THAT(
      error_of(rows_of_32(), options),
      AllOf(HasSubstr("input 'x': height (dimension 1, height) is 225, must be a multiple of 32; 224 or 256 "
                      "would do (needed by Reshape_y)"),
            HasSubstr("node Reshape_y")));
  options.shapes["x"] = {1, 224};
  EXPECT_EQ(error_of(rows_of_32(), options), "no error");
}

TEST(ImportSizes, SmallerThanAWindowAreNamedWithTheSmallest) {
  const std::string bytes = model(
      "initializer { name: 'w' dims: 4 dims: 3 dims: 5 dims: 5 data_type: 1 raw_data: '" +
      std::string(4 * 3 * 25 * 4, 'a') + "' } " + input("x", "dim { } dim { dim_value: 3 } dim { } dim { }") +
      node("Conv", "x w", "c", "attribute { name: 'strides' type: INTS ints: 2 ints: 2 } ") +
      node("MaxPool", "c", "y", "attribute { name: 'kernel_shape' type: INTS ints: 3 ints: 3 } ") +
      output("y"));
  ImportOptions options;
  options.shapes["x"] = {1, 3, 20, 7};
  EXPECT_THAT(error_of(bytes, options), HasSubstr("width (dimension 3, x_d3) is 7, must be at least 9"));
  std::vector<std::string> constraints;
  for (const DimConstraint& c : import(bytes).main.constraints)
    constraints.push_back(c.left.str() + " == " + c.right.str());
  EXPECT_THAT(constraints, testing::ElementsAre("min(5, x_d2) == 5", "min(5, x_d3) == 5", "min(9, x_d2) == 9",
                                                "min(9, x_d3) == 9"));
}

TEST(ImportSizes, ThatMustAgreeAreNamedBoth) {
  const std::string bytes = model(input("a", "dim { dim_param: '?' } dim { dim_value: 3 }") +
                                  input("b", "dim { dim_param: '?' } dim { dim_value: 3 }") +
                                  node("Add", "a b", "y") + output("y"));
  ImportOptions options;
  options.shapes["a"] = {3, 3};
  options.shapes["b"] = {4, 3};
  EXPECT_THAT(
      error_of(bytes, options),
      HasSubstr(
          "input 'a': batch (dimension 0, a_d0) is 3, must be 1 or 4; or input 'b': batch (dimension 0, "
          "b_d0) is 4, must be 1 or 3"));
}

TEST(Import, MutatedModelsAreImportedOrRefusedButNeverCrash) {
  std::string good = model(
      "initializer { name: 'w' dims: 4 dims: 3 dims: 3 dims: 3 data_type: 1 raw_data: '" +
      std::string(4 * 27 * 4, 'a') + "' } " +
      "initializer { name: 's' dims: 2 data_type: 7 int64_data: 0 int64_data: -1 } " +
      input("x", "dim { dim_value: 1 } dim { dim_value: 3 } dim { dim_param: 'H' } dim { dim_value: 8 }") +
      node("Conv", "x w", "c", "attribute { name: 'pads' type: INTS ints: 1 ints: 1 ints: 1 ints: 1 } ") +
      node("MaxPool", "c", "p", "attribute { name: 'kernel_shape' type: INTS ints: 2 ints: 2 } ") +
      node("Reshape", "p s", "y") + output("y"));
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    std::string bytes = good;
    for (unsigned i = 0; i < 1 + random() % 4; ++i)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    if (random() % 4 == 0) bytes.resize(random() % bytes.size());
    try {
      import(bytes);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUser) << "round " << round << ": " << error.what();
    }
  }
}

TEST(Import, ConstantIndicesOutsideTheirAxisAreRefused) {
  auto gather = [](int index) {
    return model("initializer { name: 'i' data_type: 7 dims: 1 int64_data: " + std::to_string(index) + " } " +
                 node("Gather", "x i", "y", "attribute { name: 'axis' type: INT i: 1 } ") + input("x", kN3) +
                 output("y"));
  };
  for (int index : {2, -3}) EXPECT_EQ(error_of(gather(index)), "no error");
  for (int index : {3, -4})
    EXPECT_THAT(
        error_of(gather(index)),
        AllOf(HasSubstr("Gather_y"), HasSubstr("its index " + std::to_string(index) + " lies outside")));
}

TEST(Import, DiagonalsMayDependOnDimensions) {
  Graph g = import(model("initializer { name: 'zero' dims: 1 data_type: 7 int64_data: 0 } " +
                         input("x", kN3) + node("Shape", "x", "s") + node("Gather", "s zero", "n") +
                         node("Trilu", "x n", "y") + output("y")));
  ASSERT_EQ(g.main.nodes().size(), 1u);
  EXPECT_EQ(g.main.nodes()[0]->attrs_as<TriluAttrs>().k, Dim::symbol("N"));
}

}  // namespace
}  // namespace gantry
